"""The source `exec`: the tools `exec`, which runs a command in the sandbox, and `process`, which looks after those in the
background."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import SandboxError
from toolcaddie.core.numbers import DiskBytes, MemoryBytes, OpenFiles, Positive, Processes, Seconds
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.guards.net import Host
from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.guards.secret_walk import TooManyFilesError, secret_entries
from toolcaddie.guards.workspaces import Per, Workspaces
from toolcaddie.parts import Parts
from toolcaddie.ports import Command, Egress, Sandbox, SandboxLimits
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.sources.functions.threads import Threads, TooManyHangingError
from toolcaddie.tools.commands.patterns import Patterns
from toolcaddie.tools.commands.plans import LONGEST, READING, Plan, Refusal, Rules, planned
from toolcaddie.tools.commands.processing import Action, acted, described
from toolcaddie.tools.commands.results import result_of
from toolcaddie.tools.commands.sessions import Owner, Sessions, caller_of
from toolcaddie.tools.commands.shell import shell
from toolcaddie.tools.commands.turns import Turns

_GRACE = 2.0
"""Seconds between the timeout of a command and that of the tool, in which the command is killed and its output read."""
_LAST = 0.5
"""The part of that which is kept free when a call has less time than the settings give it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    timeout: float
    max_output_length: int
    session_seconds: float
    hidden_patterns: tuple[str, ...]
    limits: SandboxLimits


class Commands(FunctionSource):
    """Tools that run commands in the sandbox. It must be open to run any; closing it kills the commands in the background."""

    def __init__(
        self, spaces: Workspaces, rules: Rules, settings: _Settings, sessions: Sessions, turns: Turns, parts: Parts
    ) -> None:
        self._spaces = spaces
        self._rules = rules
        self._settings = settings
        self._sessions = sessions
        self._turns = turns
        self._parts = parts
        self._judging: Threads[Plan | Refusal] = Threads()
        self._looking: Threads[tuple[Path, tuple[str, ...]]] = Threads()
        super().__init__(
            "exec",
            [
                tool(
                    self._exec,
                    name="exec",
                    destructive=True,
                    open_world=True,
                    untrusted=True,
                    timeout=settings.timeout + _GRACE,
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
        self._parts.sandbox()

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
        plan = await self._planned(command, workdir, background, write, context)
        if isinstance(plan, Refusal):
            return failed(f"Not allowed: {plan.reason}.", "denied")
        try:
            return await (self._started(plan, context) if background else self._ran(plan, context))
        except (SandboxError, TooManyFilesError, TooManyHangingError) as error:
            return failed(f"The command did not run: {error}")

    async def _planned(
        self, command: str, workdir: str, background: bool, write: bool, context: RunContext
    ) -> Plan | Refusal:
        """Returns the plan. It is made in a thread of its own kind, so that many long lines at once delay only each other."""

        def plan() -> Plan | Refusal:
            return planned(
                command,
                workdir,
                background=background,
                write=write,
                rules=self._rules,
                base=self._spaces.of(context.principal),
                holds=self._sandbox.holds,
            )

        try:
            return await self._judging.run(plan)
        except TooManyHangingError as error:
            return Refusal(reason=f"too many commands are being judged: {error}; try again later")

    async def _assess_exec(self, arguments: Mapping[str, Any], context: RunContext) -> Assessment:
        plan = await self._planned(
            str(arguments.get("command", "")),
            str(arguments.get("workdir") or "."),
            bool(arguments.get("background")),
            bool(arguments.get("write")),
            context,
        )
        if isinstance(plan, Refusal):
            return Assessment(refusal=plan.reason)
        if not self._sandbox.holds:  # a command may then do what the tool may do
            return Assessment(preview=plan.preview)
        return Assessment(annotations=plan.annotations, preview=plan.preview)

    async def _ran(self, plan: Plan, context: RunContext) -> ToolResult:
        seconds = self._settings.timeout
        if context.deadline is not None:
            seconds = max(0.1, min(seconds, context.deadline - time.monotonic() - _LAST))
        ends = time.monotonic() + seconds
        caller = caller_of(owner_of(context))
        if not await self._turns.take(caller, seconds):
            return failed(
                f"The command did not run: as many commands as may run at once ran for all of its {seconds:g} seconds. "
                "Try again later."
            )
        try:
            command = await self._command(plan, context, max(0.1, ends - time.monotonic()), stdin=b"")
            outcome = await self._sandbox.run(command)
        finally:
            self._turns.give_back(caller)
        return result_of(outcome, plan, seconds=seconds, characters=self._settings.max_output_length)

    async def _started(self, plan: Plan, context: RunContext) -> ToolResult:
        command = await self._command(plan, context, self._settings.session_seconds, stdin=None)
        session = await self._sessions.start(
            owner_of(context), plan.command, self._sandbox, command, only_reads=plan.only_reads
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

    async def _command(self, plan: Plan, context: RunContext, seconds: float, *, stdin: bytes | None) -> Command:
        """Returns what the sandbox runs. Raises `TooManyFilesError` if the secrets of the work folder cannot be found."""
        work, hidden = await self._looking.run(partial(self._work, plan, context))
        return Command(
            argv=(shell(), "-c", plan.command),
            work=work,
            writable=not plan.only_reads,
            folder=plan.folder,
            hidden=hidden,
            env=_variables(only_reads=plan.only_reads),
            stdin=stdin,
            seconds=seconds,
            output_bytes=4 * self._settings.max_output_length,  # a character has at most four bytes
            egress=Egress(hosts=plan.egress) if plan.egress else None,
            limits=self._settings.limits,
        )

    def _work(self, plan: Plan, context: RunContext) -> tuple[Path, tuple[str, ...]]:
        """Returns the caller's work folder and the files in it that hold secrets. Raises `SandboxError` for a folder to start in
        that does not exist."""
        work = self._spaces.of(context.principal)
        if not (work / plan.folder).is_dir():
            raise SandboxError(f"there is no folder {plan.folder!r} in the work folder")
        return work, secret_entries(work, SecretPaths.of(self._settings.hidden_patterns, base=work))

    @property
    def _sandbox(self) -> Sandbox:
        return self._parts.sandbox()

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


def owner_of(context: RunContext) -> Owner:
    """Returns whose sessions a call may see: those of a tenant, bot and chat, or, outside of a chat that the application names,
    those of a tenant, bot, person and conversation."""
    principal, injected = context.principal, context.injected
    bot = str(injected.get("_botId") or principal.bot or "")
    if injected.get("_chatId"):
        return (principal.tenant, bot, "chat", str(injected["_chatId"]))
    return (principal.tenant, bot, "person", principal.id, context.conversation, context.cache_key)


def _variables(*, only_reads: bool) -> Mapping[str, str]:
    """Returns variables that keep programs from waiting for a person, and git from running the repository's programs where it
    only reads."""
    git = {"safe.directory": "*"}
    if only_reads:
        git |= {"core.hooksPath": "/dev/null", "core.fsmonitor": "false"}
    variables = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(git))}
    for at, (name, value) in enumerate(git.items()):
        variables |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
    return variables | ({"GIT_OPTIONAL_LOCKS": "0"} if only_reads else {})


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
    return Commands(
        Workspaces(Path(workdir), per=folder_per, setting="workdir"),
        Rules(patterns=Patterns(allowed=allowed_patterns, denied=denied_patterns), egress=egress),
        _Settings(
            timeout=timeout,
            max_output_length=max_output_length,
            session_seconds=session_seconds,
            hidden_patterns=hidden_patterns,
            limits=SandboxLimits(**given),
        ),
        Sessions(most=max_sessions, finished_ttl=finished_ttl, output_chars=max_output_chars),
        Turns(max_commands),
        parts,
    )
