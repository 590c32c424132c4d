"""Passes the events of all runs to their receivers: the audit trail, other sinks, subscribers, and the caller who reads one run
live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from toolcaddie.core.events import ClientCallDelta, Emit, RunEvent, TextDelta
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import EventSink
from toolcaddie.util.log import Logger

log = Logger(__name__)

Listener = Callable[[RunEvent], Awaitable[None]]


class EventBus:
    """Passes each event on to its receivers in a fixed order, and waits for each of them.

    The trail comes first, and a run fails if the trail cannot write its event. Failures of other sinks and of subscribers are
    logged and do not affect the answer. The listener of a single run comes last, so it receives only what is already recorded.

    The trail redacts what it stores. All others receive events without the secrets that this process knows. Pieces of a streamed
    answer reach the listener of the run as they are sent to its caller; all others receive only their text (`_AnswerText`).
    """

    def __init__(self, trail: EventSink | None, sinks: Sequence[EventSink] = ()) -> None:
        self._trail = trail
        self._sinks = tuple(sinks)
        self._subscribers: tuple[Listener, ...] = ()
        self._takers: dict[type, tuple[_Taker, ...]] = {}
        """Class of events -> the sinks that receive it. Pieces of answers come twenty times as often as other events, and few
        sinks receive them."""

    def add_sink(self, sink: EventSink) -> None:
        """Adds a sink that receives all later events."""
        self._sinks = (*self._sinks, sink)
        self._takers.clear()

    def emitter(self, live: Listener | None = None) -> Emit:
        """Returns the function to which a run passes its events. `live`: a listener that receives the events of this run
        alone."""
        trail, answer = self._trail, _AnswerText()
        recorded: Collection[type] | None = None if trail is None else getattr(trail, "takes", None)

        async def emit(event: RunEvent) -> None:
            kind = type(event)
            if trail is not None and (recorded is None or kind in recorded):
                await trail.emit(event)
            takers = self._takers.get(kind)
            if takers is None:
                takers = self._takers_of(kind)
            if not (takers or self._subscribers or live or KNOWN.longest):
                return
            clean_event = KNOWN.clean(event)
            if kind in _PIECES or answer.withheld:
                # Without receivers too, because a subscriber may come between two pieces of a secret.
                for piece in answer.pieces(event, clean_event) if takers or self._subscribers or KNOWN.longest else ():
                    await self._tell(piece, self._takers_of(type(piece)))
            elif takers or self._subscribers:
                await self._tell(clean_event, takers)
            if live is not None:
                await live(clean_event)

        return emit

    def _takers_of(self, kind: type) -> tuple[_Taker, ...]:
        """Returns the sinks that receive events of a class."""
        takers = self._takers.get(kind)
        if takers is None:
            takers = tuple((sink, _receiver(sink, kind)) for sink in self._sinks if _takes(sink, kind))
            self._takers[kind] = takers
        return takers

    @contextmanager
    def subscribe(self, listener: Listener) -> Iterator[None]:
        """Passes the events of all runs to `listener` until the `with` block ends. Runs wait for the listener, so a listener that
        needs time should put the event into a queue."""
        self._subscribers = (*self._subscribers, listener)
        try:
            yield
        finally:
            rest = list(self._subscribers)
            rest.remove(listener)
            self._subscribers = tuple(rest)

    async def _tell(self, event: RunEvent, takers: Sequence[_Taker]) -> None:
        for sink, receive in takers:
            try:
                if receive is None:
                    await sink.emit(event)
                else:
                    receive(event)
            except Exception:  # a broken sink of telemetry must not take the answer away
                log.exception("sink_failed", sink=type(sink).__name__, event_kind=type(event).__name__)
        for listener in self._subscribers:
            try:
                await listener(event)
            except Exception:  # the same holds for a stranger who only looks on
                log.exception("subscriber_failed", event_kind=type(event).__name__)


_Taker = tuple[EventSink, Callable[[RunEvent], None] | None]
"""A sink, and its function for one class of events; None: it has only `emit`."""

_PIECES = (TextDelta, ClientCallDelta)
"""Events that are pieces of a streamed answer."""


def _takes(sink: EventSink, kind: type) -> bool:
    """Returns True if a sink receives events of a class."""
    takes: Collection[type] | None = getattr(sink, "takes", None)
    return takes is None or kind in takes


def _receiver(sink: EventSink, kind: type) -> Callable[[RunEvent], None] | None:
    """Returns the function of a sink for events of a class; None: it has only `emit`, or a subclass or the object itself has an
    `emit` of its own."""
    if "emit" in getattr(sink, "__dict__", ()):
        return None
    owners = [next((each for each in type(sink).__mro__ if name in vars(each)), None) for name in ("receivers", "emit")]
    if owners[0] is None or owners[0] is not owners[1]:
        return None
    receivers: Mapping[type, Callable[[RunEvent], None]] = sink.receivers  # type: ignore[attr-defined]
    return receivers.get(kind)


class _AnswerText:
    """The text of a streamed answer for those who only look on. A secret may arrive in pieces, so the end of a piece that
    may belong to a secret is withheld until more of the text is there, or its answer has ended."""

    def __init__(self) -> None:
        self.withheld = ""

    def pieces(self, event: RunEvent, clean_event: RunEvent) -> Sequence[RunEvent]:
        """Returns what to pass on for an event, in order."""
        match event:
            case TextDelta():
                text, self.withheld = KNOWN.split(self.withheld + event.text)
                return [TextDelta(run_id=event.run_id, text=text, ending=event.ending)] if text else []
            case ClientCallDelta():  # the whole call comes with the answer
                return []
        text, self.withheld = KNOWN.redact(self.withheld), ""
        return [TextDelta(run_id=event.run_id, text=text), clean_event] if text else [clean_event]
