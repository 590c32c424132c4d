"""Interfaces (sockets, which plugins fill) for programs: the interpreter that runs what a model wrote."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from toolcaddie.core.programs import Program, ProgramResult, ProgramStep
from toolcaddie.core.tool import Tool
from toolcaddie.ports.meta import MetaOffer


class ProgramSession(Protocol):
    """One program on its way."""

    async def start(self) -> ProgramStep:
        """Runs the program until it waits for calls or ends."""
        ...

    async def go_on(self, results: Mapping[int, ProgramResult]) -> ProgramStep:
        """Hands over the results of the calls that the program waits for, by their numbers, and runs it on."""
        ...


class Interpreter(Protocol):
    """Runs programs without access to the host: files, processes, network, environment and clock are out of their reach.

    The course of a program depends on nothing but `Program` and the results of its calls, so that another process can run it
    again up to the point where it stopped.
    """

    def session(self, program: Program) -> AbstractAsyncContextManager[ProgramSession]:
        """Returns the session of a program; leaving it frees all that the program uses."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class ProgramTool(Protocol):
    """A meta tool whose call contains a program. The calls of the program pass all checks of a call."""

    @property
    def name(self) -> str: ...
    def definition(self, offer: MetaOffer) -> Tool: ...
    def code(self, arguments: Mapping[str, object]) -> str:
        """Returns the program. The arguments are already validated."""
        ...
