"""Groups of the host's tools. Each is a source of its own, and says which parts of this machine it depends on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from toolcaddie.core.states import BackEnd
from toolcaddie.ports import ToolSource
from toolcaddie.tools.host.words import words
from toolcaddie.util.log import Logger

log = Logger(__name__)


async def no_back_ends() -> Sequence[BackEnd]:
    """Returns nothing, for a group that depends on nothing."""
    return ()


async def looked_at(name: str, look: Callable[[], Awaitable[Sequence[BackEnd]]]) -> Sequence[BackEnd]:
    """Returns what a part of the host depends on. One that cannot be looked at hides no other: it counts as missing."""
    try:
        return tuple(await look())
    except Exception as error:  # code of a plugin, whatever it raises
        log.exception("back_ends_raised", part=name)
        problem = words(f"{type(error).__name__}: {error}")
        return (BackEnd(name=name, present=False, detail=f"it cannot be looked at: {problem}"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of tools of one category."""

    name: str
    source: ToolSource
    back_ends: Callable[[], Awaitable[Sequence[BackEnd]]] = no_back_ends
    """Returns what the group depends on, and whether this machine has it. Never raises an exception."""
