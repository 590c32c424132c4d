"""Turns the arguments of `exec` into a plan: which command runs in which folder, and what it may do. The plan is made anew at
every step, from the arguments alone, so nothing depends on an earlier step having been taken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolcaddie.core.tool import ToolAnnotations
from toolcaddie.ports.sandbox import WORK
from toolcaddie.tools.commands.forbidden import forbidden
from toolcaddie.tools.commands.patterns import Patterns
from toolcaddie.tools.commands.reading import doubt

READING = ToolAnnotations(read_only=True, destructive=False, open_world=False)
"""Annotations of a call that only reads."""


LONGEST = 32_768
"""Characters of a command line. Judging it takes time in proportion to them."""
_DOUBT_CHARACTERS = 200
"""The longest reason in a preview. A reason quotes the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator has set for commands."""

    patterns: Patterns
    egress: tuple[str, ...]
    """Hosts that a command which may write can reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One command that may run."""

    command: str
    folder: str
    """Where it starts, relative to the work folder."""
    background: bool
    doubt: str
    """The reason why it may do more than read. Empty: it only reads, so it can write nothing and reaches no network."""
    egress: tuple[str, ...]
    argv: tuple[str, ...] = ()
    """The program and its arguments, which no shell reads. Empty: a shell reads `command`."""
    is_held: bool = True
    """False: the sandbox has no wall, and the command may do whatever the server may."""

    @property
    def only_reads(self) -> bool:
        return not self.doubt

    @property
    def annotations(self) -> ToolAnnotations:
        if self.only_reads:
            return READING
        return ToolAnnotations(read_only=False, destructive=True, open_world=bool(self.egress))

    @property
    def preview(self) -> str:
        """What a person reads who is asked about the command. The command comes last, so that its text cannot pretend to be a
        part of the question."""
        where = "the work folder" if self.folder == "." else f"the folder {self.folder!r} of the work folder"
        background = " It keeps running in the background." if self.background else ""
        return f"Runs in {where}. {self._abilities}.{background}\n\n{self.command}"

    @property
    def _abilities(self) -> str:
        if not self.is_held:
            return "The sandbox has no wall, so the command may do whatever this server may, on this machine and in its network"
        doubt = " ".join(self.doubt.split())[:_DOUBT_CHARACTERS]
        writes = "It can write nothing" if self.only_reads else f"It may change files of the work folder ({doubt})"
        network = f"it can reach {', '.join(self.egress)}" if self.egress else "it has no network"
        return f"{writes}, and {network}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A command that does not run, whatever a person says, with the reason."""

    reason: str


def planned(
    command: str,
    workdir: str,
    *,
    background: bool,
    write: bool,
    rules: Rules,
    base: Path,
    holds: bool,
    argv: tuple[str, ...] = (),
) -> Plan | Refusal:
    """Returns the plan for a command. `base`: the caller's work folder. `holds`: the sandbox has a wall; without one, no command
    is said to only read."""
    folder = _folder(workdir, base)
    if folder is None:
        return Refusal(reason=f"the folder {workdir!r} is not inside the work folder; name one relative to it")
    if len(command) > LONGEST:
        return Refusal(
            reason=f"the command has {len(command):,} characters, and at most {LONGEST:,} are read; write a long script to a file"
        )
    if "\0" in command or not command.strip():
        return Refusal(reason="the command is empty or contains the character U+0000")
    if reason := forbidden(command):
        return Refusal(reason=f"this command is always refused, because {reason}")
    if reason := rules.patterns.refusal(command):
        return Refusal(reason=reason)
    reason = "the sandbox has no wall" if not holds else "the call says so" if write else doubt(command)
    return Plan(
        command=command,
        folder=folder,
        background=background,
        doubt=reason,
        egress=rules.egress if reason else (),
        argv=argv,
        is_held=holds,
    )


def _folder(workdir: str, base: Path) -> str | None:
    """Returns a folder relative to the work folder; None: it is outside. Links are followed."""
    pure = PurePosixPath(workdir.strip() or ".")
    if pure.is_relative_to(WORK):  # the path that commands see
        pure = pure.relative_to(WORK)
    if pure.is_absolute() or ".." in pure.parts or "\0" in workdir:
        return None
    root = base.resolve()
    return str(pure) if (root / pure).resolve().is_relative_to(root) else None
