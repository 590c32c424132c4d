"""The event sink that writes log lines of runs, and the configuration of logging.

The names of log lines and of their fields must not change, because operators' tools read them.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import (
    ApprovalApplied,
    ApprovalClosed,
    CallDecided,
    CallFinished,
    CallSettled,
    CallUnknown,
    ClaimsUnsupported,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    RequestClassified,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt
from toolcaddie.core.run import RunState
from toolcaddie.core.tool import ToolCall
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.telemetry.receiving import ReceivingSink
from toolcaddie.util.text import visible, visible_line

_CAP = 200
"""Largest number of characters of a text in a field."""
_TRACEBACKS = ("stack", "exception")
"""Fields whose values have several lines. They are written after the log line."""
_MOST_NAMES = 10
"""Largest number of dropped arguments named in a line."""
_PLAIN_WORD = re.compile(r"[\w.:/+-]+", re.ASCII)
"""Values that are written without quotes."""

LEVELS = ("debug", "info", "warning", "error")


def configure_logging(*, json: bool = False, level: str = "info", redact: Callable[[str], str] = KNOWN.redact) -> None:
    """Sends the log lines of Toolcaddie and of other libraries to stderr: as text, or with `json` as one object per line.
    `redact` removes secrets from each line.

    A program calls this in its entry point (the command line, the server); a library must not. Raises `ConfigError` for an
    unknown level.
    """
    if level not in LEVELS:
        raise ConfigError(f"log.level: {level!r} is not one of {', '.join(LEVELS)}")
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
    ]
    rendering = [*_rendering(json), lambda _logger, _method, line: redact(str(line))]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # The only info line of this logger repeats a line of `StructlogSink`.
    logging.getLogger("toolcaddie.selection").setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            _Written(handler, rendering),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=_DirectLogger,
        cache_logger_on_first_use=False,
    )


_UNUSUAL = frozenset({"exc_info", "stack_info", "positional_args"})
"""Fields that the processors replace by other ones, whether they are passed with a line or were bound before."""
_NUMBERS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _DirectLogger(structlog.stdlib.BoundLogger):
    """A logger that makes the fields of a line in one step, and not by one processor after another, as long as the processors are
    those of `configure_logging`. Lines with a traceback go through the processors."""

    def _proxy_to_logger(self, method_name: str, event: str | None = None, *event_args: str, **event_kw: Any) -> Any:
        processors: Any = self._processors
        written = processors[-1] if processors else None
        if isinstance(written, _Written) and event is not None and not event_args:
            number = _NUMBERS.get(method_name)
            if number is not None:
                if not self._logger.isEnabledFor(number):
                    return None
                if written.write_fields(self._logger, method_name, {**self._context, **event_kw, "event": event}):
                    return None
        return super()._proxy_to_logger(method_name, event, *event_args, **event_kw)


class _Written:
    """The last processor of structlog. It writes a line to the stream of the handler itself, because the way through `logging`
    takes more time than all other processors, and a server writes a line or two for each request.

    If other handlers get the line too, or it cannot be written, it takes the way through `logging`.
    """

    def __init__(self, handler: logging.StreamHandler[Any], rendering: Sequence[Any]) -> None:
        self._handler = handler
        self._rendering = rendering

    def __call__(self, logger: logging.Logger, method: str, event: MutableMapping[str, Any]) -> Any:
        if self._is_alone(logger):
            try:
                self._write(logger, method, event)
            except Exception:  # noqa: BLE001  the handler reports it
                pass
            else:
                raise structlog.DropEvent
        return structlog.stdlib.ProcessorFormatter.wrap_for_formatter(logger, method, event)

    def write_fields(self, logger: logging.Logger, method: str, event: MutableMapping[str, Any]) -> bool:
        """Writes a line with these fields and those that each line has. Returns False, and writes nothing, if the line has to
        take the way through `logging`."""
        if not self._is_alone(logger):
            return False
        event = structlog.contextvars.merge_contextvars(logger, method, event)
        if not _UNUSUAL.isdisjoint(event):
            return False
        event["level"], event["logger"] = method, logger.name
        event["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        try:
            self._write(logger, method, event)
        except Exception:  # noqa: BLE001  the handler reports it
            return False
        return True

    def _is_alone(self, logger: logging.Logger) -> bool:
        """Returns True if the lines of a logger reach this handler and no other one."""
        while logger.parent is not None:
            if logger.handlers or logger.filters or not logger.propagate:
                return False
            logger = logger.parent
        return len(logger.handlers) == 1 and logger.handlers[0] is self._handler and not logger.filters

    def _write(self, logger: logging.Logger, method: str, event: MutableMapping[str, Any]) -> None:
        line: Any = dict(event)
        for render in self._rendering:
            line = render(logger, method, line)
        handler = self._handler
        with handler.lock or nullcontext():
            handler.stream.write(line + handler.terminator)
            handler.flush()


def _rendering(json: bool) -> list[Any]:
    """Returns the processors that make the text of a line: JSON, or columns on a terminal, or words in a file."""
    if json:
        encode = msgspec.json.Encoder(enc_hook=str).encode
        render = structlog.processors.JSONRenderer(serializer=lambda value, **_: encode(value).decode())
        return [structlog.processors.format_exc_info, render]
    if sys.stderr.isatty():
        # Tracebacks without local variables, which contain keys of providers.
        console = structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
        return [structlog.processors.format_exc_info, _all_visible, console]
    return [structlog.processors.format_exc_info, _in_words]


def _in_words(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """Returns a line like that of structlog's `ConsoleRenderer`, but without colours and columns.

    This takes a tenth of the time, which matters to a server that writes two lines per request.
    """
    tracebacks = [visible(str(event.pop(name))) for name in _TRACEBACKS if event.get(name)]
    timestamp, level, title = event.pop("timestamp", ""), event.pop("level", ""), event.pop("event", "")
    words = [f"{name}={_word(value)}" for name, value in event.items()]
    return "\n".join((" ".join((timestamp, f"[{level}]", _one_line(str(title)), *words)), *tracebacks))


def _all_visible(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Makes the texts of an event safe for a terminal. Only tracebacks, which follow the log line, keep their line breaks."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible(value) if name in _TRACEBACKS else visible_line(value)
    return event


def _word(value: Any) -> str:
    """Returns the value of a field as it is written in a line: quoted unless it is a plain word."""
    return value if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) else repr(value)


def _one_line(text: str) -> str:
    """Returns a message as one line, so that text from outside cannot look like a second log line."""
    return text if text.isprintable() else repr(text)


class StructlogSink(ReceivingSink):
    """Logs a line for each decision and a summary at the end of a run; at level debug also the steps between.

    `logger`: a structlog logger; None: the logger `toolcaddie.run`.
    """

    def __init__(self, logger: Any = None) -> None:
        self._logger_override = logger
        self._bound: Any = None
        self._bound_config: Any = None
        super().__init__(
            {
                RunStarted: self._started,
                RequestClassified: self._classified,
                ToolsSelected: self._selected,
                ToolsDelivered: self._delivered,
                ModelAnswered: self._answered,
                MetaCalled: self._meta,
                CallDecided: self._decided,
                ApprovalClosed: self._approval,
                ApprovalApplied: self._applied,
                CallFinished: self._called,
                CallUnknown: self._unknown,
                CallSettled: self._settled,
                LimitReached: self._limit,
                ClaimsUnsupported: self._claims,
                RunPaused: self._paused,
                RunFinished: self._finished,
                RunFailed: self._failed,
            }
        )

    @property
    def _log(self) -> Any:
        """Returns the logger. It is bound once for each configuration of structlog, because binding a logger costs more time than
        a line that is not shown."""
        if self._logger_override is not None:
            return self._logger_override
        configured = structlog.get_config()["processors"]
        if configured is not self._bound_config:
            self._bound, self._bound_config = structlog.get_logger("toolcaddie.run").bind(), configured
        return self._bound

    def _shows_steps(self) -> bool:
        """Returns True if steps are logged. This is checked before a line is built, because steps are rarely shown."""
        log = self._log
        return not isinstance(log, structlog.stdlib.BoundLogger) or log.isEnabledFor(logging.DEBUG)

    def _started(self, event: RunStarted) -> None:
        if not self._shows_steps():
            return
        self._log.debug(
            "run_started",
            run=event.run_id,
            preset=event.preset,
            model=event.model,
            principal=event.principal.id,
            catalog=event.catalog_size,
        )

    def _classified(self, event: RequestClassified) -> None:
        """Logs the first stage, a model call that names the categories of a request."""
        classification = event.classification
        log = self._log.warning if classification.how == "failed" else self._log.info
        log(
            "request_classified",
            run=event.run_id,
            how=classification.how,
            categories=list(classification.categories),
            detail=_capped(classification.detail),
            model=classification.model,
            input_tokens=classification.usage.input_tokens,
            output_tokens=classification.usage.output_tokens,
            ms=_ms(classification.seconds),
        )

    def _selected(self, event: ToolsSelected) -> None:
        """Logs the selection of tools; only at level debug if all tools were selected without any match."""
        selection = event.selection
        nothing_to_choose = len(selection.tools) == selection.catalog_size and not selection.matched
        if nothing_to_choose and not self._shows_steps():
            return
        log = self._log.debug if nothing_to_choose else self._log.info
        log(
            "tools_selected",
            run=event.run_id,
            selected=len(selection.tools),
            total=selection.catalog_size,
            categories=sorted(selection.categories),
            no_match=selection.no_match,
            starved=list(selection.starved),
            ms=_ms(selection.seconds),
        )

    def _delivered(self, event: ToolsDelivered) -> None:
        """Logs the delivery, the way in which the selected tools are sent to the model."""
        if not self._shows_steps():
            return
        delivery = event.delivery
        # `told`: names of the tools that a message announces to the model (`Delivery.added`). The field is not called `added`,
        # because `added` is a number in the line `meta_tool`.
        self._log.debug(
            "tools_delivered",
            run=event.run_id,
            round=event.round,
            strategy=delivery.strategy,
            tools=len(delivery.definitions),
            tokens=delivery.tokens,
            tokens_all=delivery.tokens_all,
            reused=delivery.reused,
            told=list(delivery.added),
            note=delivery.note,
        )

    def _answered(self, event: ModelAnswered) -> None:
        if not self._shows_steps():
            return
        self._log.debug(
            "model_answered",
            run=event.run_id,
            round=event.round,
            model=event.model,
            calls=[call.name for call in event.calls],
            input_tokens=event.usage.input_tokens,
            output_tokens=event.usage.output_tokens,
            cached_tokens=event.usage.cached_tokens,
            ms=_ms(event.seconds),
            **({"provider": event.provider} if event.provider else {}),
            **_attempts(event.attempts),
        )

    def _meta(self, event: MetaCalled) -> None:
        """Logs the call of a meta tool, with which the model finds or requests other tools."""
        request = _arguments(event.call)
        self._log.info(
            "meta_tool",
            run=event.run_id,
            tool=event.call.name,
            added=len(event.added),
            names=list(event.added),
            categories=request.get("categories"),
            query=_capped(request.get("query")),
            reason=_capped(request.get("reason")),
        )

    def _decided(self, event: CallDecided) -> None:
        decision = event.decision
        log = self._log.debug if decision.verdict == "allow" else self._log.info
        log(
            "call_decided",
            run=event.run_id,
            tool=event.call.name,
            verdict=decision.verdict,
            rule=decision.rule,
            reason=_capped(decision.reason),
            **({"effects": [_capped(effect) for effect in event.effects[:_MOST_NAMES]]} if event.effects else {}),
            **({"dropped": [_capped(name) for name in event.dropped[:_MOST_NAMES]]} if event.dropped else {}),
        )

    def _approval(self, event: ApprovalClosed) -> None:
        approval = event.approval
        self._log.info(
            "approval_closed",
            run=event.run_id,
            tool=approval.tool,
            status=approval.status,
            by="" if approval.answered_by is None else approval.answered_by.id,
        )

    def _applied(self, event: ApprovalApplied) -> None:
        approval = event.approval
        self._log.info(
            "approval_applied",
            run=event.run_id,
            tool=approval.tool,
            approval=approval.id,
            status="refused" if approval.status == "refused" else "approved",
            by="" if approval.answered_by is None else approval.answered_by.id,
        )

    def _called(self, event: CallFinished) -> None:
        self._log.info(
            "tool_called",
            run=event.run_id,
            tool=event.call.name,
            source=event.source,
            number=event.number,
            outcome=event.result.error or "ok",
            ms=_ms(event.seconds),
            **({"cached": True} if event.result.cached else {}),
        )

    def _unknown(self, event: CallUnknown) -> None:
        self._log.warning("call_unknown", run=event.run_id, tool=event.call.name, reason=event.reason)

    def _settled(self, event: CallSettled) -> None:
        self._log.info(
            "call_settled",
            run=event.run_id,
            tool=event.call.name,
            took_effect=event.took_effect,
            by=event.by.id,
        )

    def _limit(self, event: LimitReached) -> None:
        self._log.warning("limit_reached", run=event.run_id, limit=event.limit, detail=event.detail)

    def _claims(self, event: ClaimsUnsupported) -> None:
        self._log.warning("claims_unsupported", run=event.run_id, actions=[claim.action for claim in event.claims])

    def _paused(self, event: RunPaused) -> None:
        waiting = [item.call.name for item in event.state.pending if item.waiting]
        self._log.info("run_paused", run=event.run_id, waiting=waiting, **_counters(event.state))

    def _finished(self, event: RunFinished) -> None:
        result = event.result
        self._log.info("run_finished", run=event.run_id, status=result.status, **_counters(result.state))

    def _failed(self, event: RunFailed) -> None:
        counters = {} if event.state is None else _counters(event.state)
        attempts = _attempts(event.attempts)
        self._log.warning(
            "run_failed", run=event.run_id, kind=event.kind, error=_capped(event.error), **attempts, **counters
        )


def _attempts(attempts: Sequence[Attempt]) -> dict[str, Any]:
    return {"attempts": [f"{attempt.how} {attempt.outcome}" for attempt in attempts]} if attempts else {}


def _counters(state: RunState) -> dict[str, Any]:
    """Returns the fields that summarise a run."""
    return {
        "calls": state.calls,
        "rounds": state.rounds,
        "elapsed": round(state.seconds, 3),
        "input_tokens": state.usage.input_tokens,
        "output_tokens": state.usage.output_tokens,
    }


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    """Returns the arguments of a call; empty if they are not a JSON object."""
    try:
        value = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}  # the model wrote invalid JSON, and the run loop has reported that to the model
    return value if isinstance(value, Mapping) else {}


def _capped(value: Any) -> Any:
    return value[:_CAP] if isinstance(value, str) else value


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
