"""All exceptions of Toolcaddie.

ToolcaddieError
├── ConfigError              a mistake of the operator: raised at start, names the setting or definition
│   ├── CatalogError         a tool or category definition is unusable; names source and tool
│   │   └── DuplicateToolError   two sources hold one name
│   └── BudgetError          core and meta tools alone exceed a limit
├── RequestError             the caller's request is wrong (the gateway answers with status 400)
│   └── RunNotFoundError     no stored run has that id
├── RunError                 the run could not continue
│   ├── LimitExceededError   a limit of the run was reached; `limit` is its name
│   ├── BudgetSpentError     the bot has used its budget for today; if `state` is None, nothing was done
│   ├── ToolNotCalledError   tool use was forced and no attempt called a tool
│   ├── OutputError          no answer of the model fits the output type
│   ├── ShutdownError        the server was shut down before the run had ended
│   ├── AuditError           the trail could not be written, so nothing may run
│   │   └── RunTakenError        another process has settled the run, so this one may not go on with it
│   └── StorageError         the database could not be read or written
├── QueueFullError           too much durable work of a tenant waits; `retry_after`
├── TenantCatalogError       the catalog of a tenant cannot be used
├── InterpreterError         the interpreter of programs could not be started or broke
├── SandboxError             the sandbox cannot run a command on this machine, or broke
├── HostError                a part of the machine, such as systemd, is missing, refused or failed
├── OutboundError            an outgoing request was refused by `guards.net` (address, redirect, size) or failed
│   └── CircuitOpenError         the server has failed so often that nothing was sent to it
└── ProviderError            a model's provider failed; `retryable`, `status`, `retry_after`
    ├── ProviderAuthError        401, 403
    ├── ProviderRateLimitError   429
    ├── ProviderRejectedError    other 4xx: the request is at fault
    ├── ProviderUnavailableError 5xx, no connection, timeout
    │   └── ProviderPausedError      it failed so often that nothing is sent to it for a while
    └── ProviderProtocolError    an answer that breaks the API's format: garbage, a cut stream, no choices

Errors that the model can correct are never raised. The model gets them as a `ToolResult` with `is_error`.
"""

from __future__ import annotations

from typing import Any, Self


class ToolcaddieError(Exception):
    """The base class of all exceptions of this package.

    `acted` is True if tools of the run had already run, so that a repeated request would run them again. Other exceptions
    may have the attribute too: `has_acted` reads it from any exception.

    `state` is the `run.RunState` at which a run failed: its messages, tool calls and usage. None: no run had begun.
    """

    acted = False
    state: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Makes errors picklable, so that they can pass between processes, even if they were made with keyword arguments."""
        return _unpickled, (type(self), self.args), self.__dict__


def _unpickled(kind: type[ToolcaddieError], args: tuple[Any, ...]) -> ToolcaddieError:
    return kind.__new__(kind, *args)


class ConfigError(ToolcaddieError):
    """A setting, preset or definition is wrong; raised before anything runs."""


class CatalogError(ConfigError):
    """A tool or category cannot be part of a catalog."""


class DuplicateToolError(CatalogError):
    """Two tools share a name; the message names both sources."""


class BudgetError(ConfigError):
    """Tools that must always be sent do not fit the limits."""


class RequestError(ToolcaddieError):
    """The request itself is wrong. `param` is the name of the field at fault, or None; `code` is a word that does not change
    between versions.

    `attempts`: every failed request to a provider, as in `ProviderError`.
    """

    attempts: tuple[Any, ...] = ()

    def __init__(self, message: str, *, param: str | None = None, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class RunNotFoundError(RequestError):
    """No stored run has that id."""


class RunError(ToolcaddieError):
    """A run ended without an answer."""


class LimitExceededError(RunError):
    """A counter of the run reached its limit. `limit` is the name of the setting under `[limits]`: 'calls', 'idle_rounds',
    'idle_rounds_in_row', 'seconds' or 'tokens'.
    """

    def __init__(self, message: str, *, limit: str, state: Any = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.state = state


class BudgetSpentError(RunError):
    """A bot has used its budget for today, so its run was refused before it began, or stopped before a model call: then `state`
    has what it did. `counted`: 'requests', 'tokens' or 'dollars'. `retry_after`: seconds until the budget is renewed."""

    def __init__(self, message: str, *, counted: str, retry_after: float) -> None:
        super().__init__(message)
        self.counted = counted
        self.retry_after = retry_after


class ToolNotCalledError(RunError):
    """Tool use was forced, no attempt called a tool, and the settings make that an error. `attempts` contains `message.Attempt`
    values."""

    def __init__(self, message: str, *, attempts: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.attempts = attempts


class OutputError(RunError):
    """The model's answer does not fit the requested output type. `attempts` contains `message.Attempt` values."""

    def __init__(self, message: str, *, attempts: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.attempts = attempts


class ShutdownError(RunError):
    """The server was shut down before the run had ended; its grace period was over."""


class AuditError(RunError):
    """The trail (the record of runs) could not be written. The run stops, because no tool may run without a record."""


class RunTakenError(AuditError):
    """This process stood still for longer than its lease, and another one has settled the run. Nothing more of it may be written
    here, and no call may begin."""


class StorageError(RunError):
    """The database failed on a read or write of anything but the trail (the record of runs; see `AuditError`)."""


class QueueFullError(ToolcaddieError):
    """Too much durable work of a tenant waits already. `retry_after`: seconds after which the work may be put again."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TenantCatalogError(ToolcaddieError):
    """The catalog of a tenant cannot be used: its name can have none, its files have a mistake, or it is not open. The message is
    for the tenant's clients, so it says nothing of the files."""


class InterpreterError(ToolcaddieError):
    """The interpreter of programs could not be started, or broke down outside of a program."""


class SandboxError(ToolcaddieError):
    """A sandbox cannot start a command, or broke down. The command does not run with less protection instead."""


class HostError(ToolcaddieError):
    """A part of the machine, such as systemd or its firewall, is missing, has refused a request or has failed."""


class OutboundError(ToolcaddieError):
    """An outgoing request was refused by its guard, or failed; the message names the address.

    `rule`: the name of the written rule that refused it (`guards.net.rules`); empty: no rule did, it failed. `unanswered`: True
    if no server has sent anything, so that no word of the message comes from one."""

    def __init__(self, message: str = "", *, rule: str = "", unanswered: bool = False) -> None:
        super().__init__(message)
        self.rule = rule
        self.unanswered = unanswered


class CircuitOpenError(OutboundError):
    """The server of a tool has failed so often that the request was not sent."""


class ProviderError(ToolcaddieError):
    """A provider failed.

    `status` is the HTTP status or None. `retry_after` is the time to wait in seconds, or None. `body` is the provider's
    answer, so that a gateway can pass it on unchanged. `attempts`: every failed request as a `message.Attempt`, if several
    were made for one answer; the other fields describe the last one.
    """

    retryable = False
    attempts: tuple[Any, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.body = body


class ProviderAuthError(ProviderError):
    """The provider does not accept the key."""


class ProviderRateLimitError(ProviderError):
    """Too many requests; wait `retry_after` seconds if it is set."""

    retryable = True


class ProviderRejectedError(ProviderError):
    """The provider rejects the request as invalid."""


class ProviderUnavailableError(ProviderError):
    """The provider cannot be reached, timed out, or failed on its side."""

    retryable = True


class ProviderPausedError(ProviderUnavailableError):
    """The provider has failed so often that the request was not sent. `retry_after` says when it is tried again."""

    retryable = False


class ProviderProtocolError(ProviderError):
    """The provider's answer violates its protocol."""

    retryable = True


def mark_acted(error: BaseException, acted: bool) -> None:
    """Sets the attribute `acted` of any exception. `acted`: True if tools of the run had run before it was raised."""
    error.acted = acted  # type: ignore[attr-defined]


def has_acted(error: BaseException) -> bool:
    return bool(getattr(error, "acted", False))


class MarksActed:
    """Context manager: an exception that leaves its block is marked (`mark_acted`) if `acted` of this manager was set to True
    before."""

    def __init__(self) -> None:
        self.acted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self.acted:
            mark_acted(error, True)
