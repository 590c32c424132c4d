"""Groups of the host's tools. Each is a source of its own, and says which parts of this machine it depends on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from toolcaddie.core.states import BackEnd
from toolcaddie.ports import ToolSource


async def no_back_ends() -> Sequence[BackEnd]:
    """Returns nothing, for a group that depends on nothing."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of tools of one category."""

    name: str
    source: ToolSource
    back_ends: Callable[[], Awaitable[Sequence[BackEnd]]] = no_back_ends
    """Returns what the group depends on, and whether this machine has it. Never raises an exception."""
