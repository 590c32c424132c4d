"""Tools that bots write: their definitions, who asked for them, what the checks say about them, and what people decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from toolcaddie.core.control import Principal

ToolType = Literal["python", "command", "typescript"]
"""`python` and `typescript`: a file with a function `run`. `command`: a program with its arguments, some of them placeholders."""

Status = Literal["pending", "approved", "rejected", "revoked"]
"""`pending`: waits for a person, because it is new or because a byte of it has changed. Only an approved tool can be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing in a tool's source that its reader should look at."""

    severity: Literal["refused", "warning"]
    """`refused`: such a source is never accepted. `warning`: a person may approve it."""
    line: int
    """Counts from 1; 0: it is about the whole source."""
    text: str
    """A sentence: what stands there, and what it could be for."""


class Definition(Struct, frozen=True, kw_only=True):
    """Everything that an approval is bound to."""

    name: str
    description: str
    type: ToolType
    source: str
    """Text of the file; for a command, its words as a JSON list of texts."""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments, an object."""
    scope: str = "all"
    """`all` bots of the tenant, or the id of one bot."""


class Author(Struct, frozen=True, kw_only=True):
    """Who asked for a tool."""

    principal: Principal
    """The person who talked to the bot, and the bot."""
    run_id: str = ""
    """The run in which the bot wrote the tool; empty: no run."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the model had read before it wrote this one."""


class Version(Struct, frozen=True, kw_only=True):
    """A state of a tool that a person approved."""

    number: int
    """Counts from 1."""
    digest: str
    at: float
    """Seconds since the epoch of the last approval."""
    by: Principal | None = None
    """The person who approved it; None: the operator, at the command line or in the program."""
    note: str = ""


class AuthoredTool(Struct, frozen=True, kw_only=True):
    """A tool that a bot wrote, as it is now."""

    id: str
    tenant: str
    definition: Definition
    digest: str
    """SHA-256 of everything that an approval is bound to, in hexadecimal."""
    status: Status
    author: Author | None
    """None: nobody asked for it through `create_tool`; its folder was put there."""
    created: float
    """Seconds since the epoch."""
    changed: float
    """Seconds since the epoch of the last decision about it."""
    decided_by: Principal | None = None
    """The person who made the last decision; None: the operator, or nobody yet."""
    note: str = ""
    """What the person said with the last decision."""
    versions: tuple[Version, ...] = ()
    """Approved states, the oldest first."""

    @property
    def approved_before(self) -> Version | None:
        """The state that was approved last; None: none ever was."""
        return max(self.versions, key=lambda version: version.at, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Everything that a person needs to decide about a tool. Approve it with the digest of `tool`."""

    tool: AuthoredTool
    findings: Sequence[Finding]
    diff: str
    """Unified diff from the state that was approved last, with description, schema and scope; empty: no difference, or nothing
    was approved before."""
    missing: str = ""
    """What this machine lacks to run the tool; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFolder:
    """A folder among the tools that holds no usable tool."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredLimits:
    """How much bots may write."""

    tools_per_bot: int = 20
    """Counts tools of every status."""
    source_bytes: int = 64_000
    description_characters: int = 2_000
    schema_bytes: int = 16_000
    seconds: float = 30.0
    """Timeout of a call."""
    output_bytes: int = 200_000
    words: int = 100
    """Largest number of words of a command."""
    versions: int = 20
    """Approved states that are kept of each tool."""
