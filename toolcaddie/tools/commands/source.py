"""The source `exec`: the tools `exec`, which runs a command in the sandbox, and `process`, which looks after those in the
background."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.numbers import DiskBytes, MemoryBytes, OpenFiles, Positive, Processes, Seconds
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.guards.net import Host
from toolcaddie.guards.workspaces import Per, Workspaces
from toolcaddie.parts import Parts
from toolcaddie.ports import SandboxLimits
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.commands.patterns import Patterns
from toolcaddie.tools.commands.plans import LONGEST, READING, Plan, Refusal, Rules
from toolcaddie.tools.commands.processing import Action, acted, described
from toolcaddie.tools.commands.running import NOT_RUN, Runner, RunSettings, owner_of
from toolcaddie.tools.commands.sessions import Sessions
from toolcaddie.tools.commands.turns import Turns

_GRACE = 2.0
"""Seconds between the timeout of a command and that of the tool, in which the command is killed and its output read."""


_CATEGORY = Category(
    name="commands",
    description="Run shell commands in the workspace, also in the background.",
    keywords=(
        "command",
        "shell",
        "run",
        "execute",
        "process",
        "program",
        "install",
        "build",
        "test",
        "comando",
        "ejecutar",
    ),
)


class CommandLimits(TypedDict, total=False):
    """How much one command may use: the fields of `ports.SandboxLimits`."""

    memory_bytes: MemoryBytes
    processes: Processes
    open_files: OpenFiles
    file_bytes: Positive
    disk_bytes: DiskBytes


class Commands(FunctionSource):
    """Tools that run commands in the sandbox. It must be open to run any; closing it kills the commands in the background."""

    def __init__(
        self, runner: Runner, rules: Rules, sessions: Sessions, *, timeout: float, session_seconds: float
    ) -> None:
        self._runner = runner
        self._session_seconds = session_seconds
        self._sessions = sessions
        super().__init__(
            "exec",
            [
                tool(
                    self._exec,
                    name="exec",
                    destructive=True,
                    open_world=True,
                    untrusted=True,
                    timeout=timeout + _GRACE,
                    category="commands",
                    hints=("bash", "terminal", "command line", "script", "git", "grep"),
                ),
                tool(
                    self._process,
                    name="process",
                    destructive=True,
                    open_world=bool(rules.egress),
                    untrusted=True,
                    polling=True,
                    category="commands",
                    hints=("background", "session", "log", "stop", "stdin"),
                ),
            ],
            [_CATEGORY],
            claims=("exec", "process"),
        )

    async def open(self) -> None:
        """Raises `ConfigError` if this machine cannot hold the sandbox."""
        _ = self._runner.sandbox

    async def close(self) -> None:
        await self._sessions.close()

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        if tool.name == "exec":
            return await self._assess_exec(arguments, context)
        return self._assess_process(arguments, context) if tool.name == "process" else NOTHING

    # --- exec ---------------------------------------------------------------------------------------------------------

    async def _exec(
        self,
        command: Annotated[str, Field(max_length=LONGEST)],
        context: RunContext,
        workdir: str = ".",
        background: bool = False,
        write: bool = False,
    ) -> ToolResult:
        """Run a shell command in a sandbox and return its exit code, output and errors.

        The sandbox shows the programs of the system and the work folder; other files are absent. Commands that only read run at
        once; a person is asked about others. Files with secrets appear empty. After a time limit a command is killed; start a
        longer one in the background.

        Args:
            command: The command line, for sh.
            workdir: The folder to start in, relative to the work folder.
            background: True: the command keeps running; the result is a session id for the tool process.
            write: True: the command changes files, although it looks as if it only read. Needed only where a result says so.
        """
        plan = await self._runner.planned(command, context, workdir=workdir, background=background, write=write)
        if isinstance(plan, Refusal):
            return failed(f"Not allowed: {plan.reason}.", "denied")
        try:
            return await (self._started(plan, context) if background else self._runner.ran(plan, context))
        except NOT_RUN as error:
            return failed(f"The command did not run: {error}")

    async def _assess_exec(self, arguments: Mapping[str, Any], context: RunContext) -> Assessment:
        plan = await self._runner.planned(
            str(arguments.get("command", "")),
            context,
            workdir=str(arguments.get("workdir") or "."),
            background=bool(arguments.get("background")),
            write=bool(arguments.get("write")),
        )
        if isinstance(plan, Refusal):
            return Assessment(refusal=plan.reason)
        if not self._runner.sandbox.holds:  # a command may then do what the tool may do
            return Assessment(preview=plan.preview)
        return Assessment(annotations=plan.annotations, preview=plan.preview)

    async def _started(self, plan: Plan, context: RunContext) -> ToolResult:
        command = await self._runner.command(plan, context, self._session_seconds, stdin=None)
        session = await self._sessions.start(
            owner_of(context), plan.command, self._runner.sandbox, command, only_reads=plan.only_reads
        )
        if session is None:
            return failed(
                "No further command can run in the background now. Kill or wait for a running session (tool process)."
            )
        return ToolResult(
            content=f"Session {session.id} was started, PID {session.running.pid}. "
            "Read its output with the tool process, action poll.",
            structured=described(session, 0.0),
        )

    # --- process ------------------------------------------------------------------------------------------------------

    async def _process(
        self, action: Action, context: RunContext, session_id: str = "", text: Annotated[str, Field(alias="input")] = ""
    ) -> ToolResult:
        """Look after commands that run in the background, of this conversation only.

        Args:
            action: list: all sessions; poll: new output and state; write: send input; kill: end it; clear: forget a finished one.
            session_id: The session, for all actions but list.
            text: The text to send, for write.
        """
        return await acted(action, session_id, text, self._sessions, owner_of(context))

    def _assess_process(self, arguments: Mapping[str, Any], context: RunContext) -> Assessment:
        """Returns the judgement: only input to a command that may write can destroy something."""
        action = arguments.get("action")
        if action in ("list", "poll"):
            return Assessment(annotations=READING)
        session = self._sessions.get(owner_of(context), str(arguments.get("session_id", "")))
        if action == "write" and session is not None and not session.only_reads:
            return Assessment(preview=f"Sends this input to {session.text!r}:\n\n{arguments.get('input', '')}")
        return Assessment(annotations=_HARMLESS)


_HARMLESS = ToolAnnotations(read_only=False, destructive=False, open_world=False)
"""Annotations of ending or forgetting an own session, and of input to a command that can write nothing."""


def commands(
    *,
    workdir: str = "workspace",
    timeout: Seconds = 30.0,
    max_output_length: Positive = 10_000,
    allowed_patterns: tuple[str, ...] = (),
    denied_patterns: tuple[str, ...] = (),
    hidden_patterns: tuple[str, ...] = (),
    folder_per: tuple[Per, ...] = (),
    egress: tuple[Host, ...] = (),
    session_seconds: Seconds = 3_600.0,
    max_commands: Positive = 8,
    max_sessions: Positive = 10,
    finished_ttl: Seconds = 600.0,
    max_output_chars: Positive = 200_000,
    parts: Parts,
    **limits: Unpack[CommandLimits],
) -> Commands:
    """Returns the source `exec` with these settings (docs/commands.md). Raises `ConfigError`."""
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    rules = Rules(patterns=Patterns(allowed=allowed_patterns, denied=denied_patterns), egress=egress)
    settings = RunSettings(
        timeout=timeout,
        max_output_length=max_output_length,
        hidden_patterns=hidden_patterns,
        limits=SandboxLimits(**given),
    )
    spaces = Workspaces(Path(workdir), per=folder_per, setting="workdir")
    return Commands(
        Runner(spaces, rules, settings, Turns(max_commands), parts),
        rules,
        Sessions(most=max_sessions, finished_ttl=finished_ttl, output_chars=max_output_chars),
        timeout=timeout,
        session_seconds=session_seconds,
    )
