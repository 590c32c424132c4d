"""Runs planned commands in the sandbox, in turn: those of the source `exec` by a shell, those of `shell_execute` without one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolcaddie.core.errors import SandboxError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.guards.secret_walk import TooManyFilesError, secret_entries
from toolcaddie.guards.workspaces import Workspaces
from toolcaddie.parts import Parts
from toolcaddie.ports import Command, Egress, Sandbox, SandboxLimits
from toolcaddie.sources.functions.threads import Threads, TooManyHangingError
from toolcaddie.tools.commands.plans import Plan, Refusal, Rules, planned
from toolcaddie.tools.commands.results import result_of
from toolcaddie.tools.commands.sessions import Owner, caller_of
from toolcaddie.tools.commands.shell import shell
from toolcaddie.tools.commands.turns import Turns

_LAST = 0.5
"""Seconds that are kept free for the end of a command when a call has less time than the settings give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of the runs of commands."""

    timeout: float
    max_output_length: int
    hidden_patterns: tuple[str, ...]
    limits: SandboxLimits


class Runner:
    """Plans commands, and runs them in the work folder of whoever calls."""

    def __init__(self, spaces: Workspaces, rules: Rules, settings: RunSettings, turns: Turns, parts: Parts) -> None:
        self._spaces = spaces
        self._rules = rules
        self._settings = settings
        self._turns = turns
        self._parts = parts
        self._judging: Threads[Plan | Refusal] = Threads()
        self._looking: Threads[tuple[Path, tuple[str, ...]]] = Threads()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox. Raises `ConfigError` if this machine cannot hold it."""
        return self._parts.sandbox()

    async def planned(
        self,
        command: str,
        context: RunContext,
        *,
        workdir: str = ".",
        background: bool = False,
        write: bool = False,
        argv: tuple[str, ...] = (),
    ) -> Plan | Refusal:
        """Returns the plan. It is made in a thread of its own kind, so that many long lines at once delay only each other.
        `argv`: the command as arguments that no shell reads."""

        def plan() -> Plan | Refusal:
            return planned(
                command,
                workdir,
                background=background,
                write=write,
                rules=self._rules,
                base=self._spaces.of(context.principal),
                holds=self.sandbox.holds,
                argv=argv,
            )

        try:
            return await self._judging.run(plan)
        except TooManyHangingError as error:
            return Refusal(reason=f"too many commands are being judged: {error}; try again later")

    async def ran(self, plan: Plan, context: RunContext, *, most_seconds: float | None = None) -> ToolResult:
        """Runs a command to its end. Raises `SandboxError`, `TooManyFilesError` and `TooManyHangingError` if it cannot run."""
        seconds = self._settings.timeout if most_seconds is None else min(most_seconds, self._settings.timeout)
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
            command = await self.command(plan, context, max(0.1, ends - time.monotonic()), stdin=b"")
            outcome = await self.sandbox.run(command)
        finally:
            self._turns.give_back(caller)
        return result_of(outcome, plan, seconds=seconds, characters=self._settings.max_output_length)

    async def command(self, plan: Plan, context: RunContext, seconds: float, *, stdin: bytes | None) -> Command:
        """Returns what the sandbox runs. Raises `TooManyFilesError` if the secrets of the work folder cannot be found."""
        work, hidden = await self._looking.run(partial(self._work, plan, context))
        return Command(
            argv=plan.argv or (shell(), "-c", plan.command),
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


NOT_RUN = (SandboxError, TooManyFilesError, TooManyHangingError)
"""Errors of a command that did not run."""


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
