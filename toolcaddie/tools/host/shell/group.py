"""The tool `shell_execute`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.run import RunContext
from toolcaddie.core.states import BackEnd
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.workspaces import Workspaces, refuse_system
from toolcaddie.parts import Parts
from toolcaddie.ports import SandboxLimits
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.commands.patterns import Patterns
from toolcaddie.tools.commands.plans import LONGEST, Plan, Refusal, Rules
from toolcaddie.tools.commands.reading import doubt
from toolcaddie.tools.commands.running import NOT_RUN, Runner, RunSettings
from toolcaddie.tools.commands.turns import Turns
from toolcaddie.tools.host.groups import Group
from toolcaddie.tools.host.shell.effects import command_effects
from toolcaddie.tools.host.shell.settings import ShellSettings
from toolcaddie.util.replacing import replace

_GRACE = 2.0
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")

Argument = Annotated[str, Field(max_length=LONGEST)]


class ShellTools:
    """The tool, as a method."""

    def __init__(self, settings: ShellSettings, parts: Parts) -> None:
        refuse_system(Path(settings.workdir), "shell.workdir")
        self._settings = settings
        self._programs = frozenset(settings.programs)
        self._parts = parts

    @cached_property
    def _runner(self) -> Runner:
        """The runner of the programs. It is made with the first command, because it makes the work folder."""
        settings = self._settings
        return Runner(
            Workspaces(Path(settings.workdir), per=settings.folder_per, setting="shell.workdir"),
            Rules(patterns=Patterns(denied=settings.denied_patterns), egress=settings.egress),
            RunSettings(
                timeout=settings.timeout,
                max_output_length=settings.max_output_length,
                hidden_patterns=settings.hidden_patterns,
                limits=SandboxLimits(),
            ),
            Turns(settings.max_commands),
            self._parts,
        )

    async def shell_execute(
        self,
        command: Annotated[str, Field(max_length=64)],
        context: RunContext,
        args: Annotated[list[Argument], Field(max_length=1_000)] = [],  # noqa: B006  (nobody changes it)
        timeout_secs: Annotated[int, Field(ge=1, le=3_600)] = 30,
    ) -> ToolResult:
        """Run one program in a sandbox, without a shell. It sees the system's programs and a work folder. The services,
        processes, network and other files of this machine are out of its reach: other tools are there for them.

        Args:
            command: Name of the program.
            args: Its arguments, one by one.
            timeout_secs: It is killed after this time.
        """
        try:
            plan = await self._planned(command, args, context)
            if isinstance(plan, Refusal):
                return failed(f"Not allowed: {plan.reason}.", "denied")
            result = await self._runner.ran(plan, context, most_seconds=timeout_secs)
        except (ConfigError, *NOT_RUN) as error:
            return failed(f"The command did not run: {error}")
        if result.success or not plan.is_held or command_effects(command, args, only_reads=False) is None:
            return result
        return replace(result, content=f"{result.text}\n\n{_ABSENT.format(command)}")

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the judgement of a call: its effects are the same as those of the tools that do what the command does."""
        command, args = str(arguments.get("command", "")), [str(each) for each in arguments.get("args") or ()]
        try:
            plan = await self._planned(command, args, context)
        except ConfigError as error:
            return Assessment(refusal=str(error))
        if isinstance(plan, Refusal):
            return Assessment(refusal=plan.reason)
        only_reads = not doubt(plan.command)
        effects = command_effects(command, args, only_reads=only_reads)
        if effects is not None:
            changes = bool(effects.effects or effects.question)
            return Assessment(
                annotations=None if changes or not plan.is_held else plan.annotations,
                preview=plan.preview,
                question=effects.question,
                effects=effects.effects,
            )
        if not plan.is_held:
            return Assessment(preview=plan.preview, question="" if only_reads else _UNHELD.format(command))
        return Assessment(annotations=plan.annotations, preview=plan.preview)

    async def back_ends(self) -> Sequence[BackEnd]:
        """Returns the sandbox."""
        try:
            sandbox = self._parts.sandbox()
        except ConfigError as error:
            return [BackEnd(name="sandbox", present=False, detail=str(error), remedy=_SANDBOX_REMEDY)]
        detail = "commands reach nothing but the work folder" if sandbox.holds else "it protects nothing"
        return [BackEnd(name=f"sandbox {sandbox.name}", present=True, detail=detail)]

    async def _planned(self, command: str, args: Sequence[str], context: RunContext) -> Plan | Refusal:
        if command not in self._programs:
            return Refusal(reason=f"{command[:64]!r} is no program of the list: {self._advice(command)}")
        if any("\0" in each for each in args):
            return Refusal(reason="an argument contains the character U+0000")
        argv = (command, *args)
        return await self._runner.planned(shlex.join(argv), context, argv=argv)

    def _advice(self, command: str) -> str:
        """Returns what to write in place of a command that is no name of a program. Models write paths and whole lines."""
        first, *others = command.split() or [""]
        program = first.rpartition("/")[2]
        if program not in self._programs:
            return ", ".join(sorted(self._programs))
        return f"command is {program!r} alone" + (", and the other words are args" if others else "")


_SANDBOX_REMEDY = "see `toolcaddie sandbox check`"
_ABSENT = (
    "In the sandbox, {} reaches nothing of this machine's services and network; use the tools that are made for them."
)
_UNHELD = "the sandbox has no wall, and it cannot be read what {} changes on this machine"


def shell_group(settings: ShellSettings, parts: Parts) -> Group:
    """Returns the group. Raises `ConfigError` for a bad name of a program."""
    if bad := next((name for name in settings.programs if not _PROGRAM.fullmatch(name)), None):
        raise ConfigError(f"shell.programs: {bad!r} is no name of a program; write it without its folder")
    tools = ShellTools(settings, parts)
    function = tool(
        tools.shell_execute,
        category="shell",
        destructive=True,
        open_world=True,
        untrusted=True,
        timeout=settings.timeout + _GRACE,
        hints=("command", "terminal", "script"),
    )
    category = Category(name="shell", description="Programs, in a sandbox.", keywords=("command", "run", "program"))
    source = FunctionSource("host-shell", [function], [category], claims=["shell_execute"], assess=tools.assess)
    return Group(name="shell", source=source, back_ends=tools.back_ends)
