"""The costs from which capacity is computed. Those that ship were measured; `constants.toml` names the command and machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from toolcaddie.core.errors import ConfigError

Component = Literal["passed", "run", "round", "reading_call", "writing_call", "stream", "key"]
"""A part of a request's cost: a request that is passed on without the catalog's tools; a run that calls no tool. On top of a run
come each further answer of the model, each call of a tool that reads or writes, a streamed answer, an idempotency key."""

Amount = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a component, or of a request. CPU does not include commits and rows, whose cost is in `Commit`."""

    server_ms: Amount = 0.0
    """CPU of the server."""
    database_ms: Amount = 0.0
    """CPU of PostgreSQL."""
    rows: Amount = 0.0
    """Rows of the trail."""
    disk_bytes: Amount = 0.0
    """Growth of the tables and their indexes."""
    wal_bytes: Amount = 0.0
    """Growth of PostgreSQL's log."""
    flushes: Amount = 0.0
    """Times that the request waits until its rows are on disk."""

    def plus(self, other: Cost, times: float = 1.0) -> Cost:
        """Returns the sum of this cost and some times another one."""
        names = [field.name for field in fields(Cost)]
        return Cost(**{name: getattr(self, name) + times * getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The cost of a commit, and of each row of the trail in it, in milliseconds."""

    server_ms: Amount
    """CPU of the server."""
    row_server_ms: Amount
    database_ms: Amount
    """CPU of PostgreSQL."""
    row_database_ms: Amount
    seconds_ms: Amount
    """Time from the beginning of the transaction until it is on disk."""
    row_seconds_ms: Amount
    lock_ms: Amount
    """Time for which the head of the trail is locked, which is a part of that."""
    row_lock_ms: Amount
    linger_ms: Amount
    """Time for which rows that nobody waits for are gathered."""
    most_rows: Annotated[int, msgspec.Meta(ge=1)]
    """Rows from which a group is written at once."""
    round_trips: Amount
    """Times that the server waits for an answer of PostgreSQL."""
    lock_round_trips: Amount
    """Those of them during which the lock is held."""
    disk_writes: Amount
    """Writes that wait for the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of a server's process, in megabytes."""

    process_mb: Amount
    thousand_tools_mb: Amount
    tenant_mb: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The costs with a catalog of `tools` tools."""

    tools: Annotated[int, msgspec.Meta(ge=0)]
    costs: Mapping[Component, Cost]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """All costs."""

    command: str
    """The command that measured them."""
    machine: str
    connections: Annotated[int, msgspec.Meta(ge=1)]
    """The most connections of a server's process to the database."""
    variation: Amount
    """Variance of the CPU of requests of one kind, divided by the square of its mean."""
    commit: Commit
    memory: Memory
    sizes: Annotated[tuple[Size, ...], msgspec.Meta(min_length=1)]
    """The costs by the size of the catalog, the smallest first."""

    def costs(self, tools: int) -> Mapping[Component, Cost]:
        """Returns the costs with that many tools: on the line between the two sizes next to it, and at the last one beyond it."""
        for low, high in pairwise(self.sizes):
            if tools < high.tools:
                share = max(0.0, (tools - low.tools) / (high.tools - low.tools))
                return {
                    name: Cost().plus(low.costs[name], 1 - share).plus(high.costs[name], share) for name in low.costs
                }
        return self.sizes[-1].costs


def read_constants(path: Path) -> Constants:
    """Returns the constants of a file that `python -m benchmarks.replicas.constants` wrote. Raises `ConfigError`."""
    try:
        return _decoded(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: {error}; `python -m benchmarks.replicas.constants` in a checkout of Toolcaddie writes such a file"
        ) from error


@cache
def shipped_constants() -> Constants:
    """Returns the constants that ship."""
    return _decoded(files(__package__).joinpath("constants.toml").read_bytes())


def _decoded(text: bytes) -> Constants:
    """Raises `msgspec.ValidationError` if a value is missing or wrong."""
    constants: Any = msgspec.toml.decode(text, type=Constants)
    names = set(get_args(Component))
    sizes = [size.tools for size in constants.sizes]
    if sizes != sorted(set(sizes)):
        raise msgspec.ValidationError("`sizes` must rise in `tools`")
    for size in constants.sizes:
        if missing := names - set(size.costs):
            raise msgspec.ValidationError(f"the costs with {size.tools} tools lack {', '.join(sorted(missing))}")
    return constants  # type: ignore[no-any-return]
