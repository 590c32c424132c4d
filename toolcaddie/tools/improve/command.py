"""A reviewer that is a program, such as a coding agent that can be run without a terminal. It runs in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.core.errors import ConfigError, RunError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.parts import Parts, Variable
from toolcaddie.ports import Command, Egress, Outcome, Sandbox
from toolcaddie.ports.reviewing import Review, Reviewed

PLACEHOLDER = "{{instructions}}"
_OUTPUT_BYTES = 64 * 1024
_SHOWN = 500


def command(
    *,
    argv: tuple[str, ...],
    hosts: tuple[str, ...] = (),
    secrets: tuple[Variable, ...] = (),
    max_output: int = _OUTPUT_BYTES,
    parts: Parts,
) -> CommandReviewer:
    """Returns the reviewer. `argv`: the program and its arguments; `{{instructions}}` in an argument stands for the task,
    which is given on the standard input too. `hosts`: what it may reach over http(s); nothing if omitted. `secrets`: environment
    variables of this host that it is given, such as its key. `max_output`: bytes of its output that are kept.

    Raises `ConfigError` for an empty command, a variable that is not set, and a machine that cannot hold the sandbox.
    """
    if not argv or not argv[0]:
        raise ConfigError("reviewer command: argv is empty; name the program and its arguments")
    env = {name: parts.secrets.require(name, what="the reviewer's secret") for name in secrets}
    return CommandReviewer(parts.sandbox(), argv, hosts=hosts, env=env, max_output=max_output)


class CommandReviewer:
    """Implements `ports.Reviewer`. The program sees the copy of the files as its work folder, the system's programs, and nothing
    else of the host."""

    name = "command"

    def __init__(
        self,
        sandbox: Sandbox,
        argv: tuple[str, ...],
        *,
        hosts: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        max_output: int = _OUTPUT_BYTES,
    ) -> None:
        self._sandbox = sandbox
        self._argv = argv
        self._egress = Egress(hosts=hosts) if hosts else None
        self._env = dict(env or {})
        self._max_output = max_output

    @property
    def contained(self) -> bool:
        return self._sandbox.holds

    async def review(self, review: Review) -> Reviewed:
        outcome = await self._sandbox.run(
            Command(
                argv=tuple(each.replace(PLACEHOLDER, review.instructions) for each in self._argv),
                work=review.folder,
                stdin=review.instructions.encode(),
                env=self._env,
                seconds=review.seconds,
                output_bytes=self._max_output,
                egress=self._egress,
            )
        )
        if outcome.ending != "exited" or outcome.exit_code != 0:
            raise RunError(self._failure(outcome, review.seconds))
        return Reviewed(summary=_text(outcome.stdout))

    def _failure(self, outcome: Outcome, seconds: float) -> str:
        reasons = {
            "timeout": f"gave no answer within {seconds:g} s and was killed",
            "killed": "was killed",
            "memory": "used too much memory and was killed",
            "disk": "wrote too much and was killed",
            "exited": f"ended with exit code {outcome.exit_code}",
        }
        said = _text(outcome.stderr or outcome.stdout)[-_SHOWN:]
        return f"the reviewer {self._argv[0]} {reasons[outcome.ending]}{': ' * bool(said)}{said}"


def _text(output: bytes) -> str:
    return KNOWN.redact(output.decode(errors="replace").strip())
