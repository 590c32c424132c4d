"""An evaluation as it is stored, from its beginning to its outcome."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

EvaluationStatus = Literal["queued", "running", "done", "failed", "cancelled", "lost"]
"""`queued`: it waits in the durable queue. `lost`: the process that ran it has ended; if it was taken from the queue, another
process begins it again as soon as there is one."""
UNFINISHED: tuple[EvaluationStatus, ...] = ("queued", "running")


class Evaluation(Struct, frozen=True, kw_only=True):
    """An evaluation of one or two configurations."""

    id: str
    tenant: str
    by: str
    """`tenant/id` of the person who began it."""
    source: Literal["trail", "list"]
    """Its requests are those of the trail, or those that the person gave."""
    configurations: tuple[str, ...]
    began: float
    """Seconds since the epoch at which it was handed in."""
    beat: float
    """The last moment at which its process said that it works."""
    ended: float | None = None
    status: EvaluationStatus = "running"
    stage: str = ""
    completed: int = 0
    total: int = 0
    error: str = ""
    outcome: dict[str, Any] | None = None
    """The figures, as `toolcaddie eval --json` has them, with curves and misses."""
