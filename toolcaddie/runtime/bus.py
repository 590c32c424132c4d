"""Passes the events of all runs to their receivers: the audit trail, other sinks, subscribers, and the caller who reads one run
live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from toolcaddie.core.events import Emit, RunEvent
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import EventSink
from toolcaddie.util.log import Logger

log = Logger(__name__)

Listener = Callable[[RunEvent], Awaitable[None]]


class EventBus:
    """Passes each event on to its receivers in a fixed order, and waits for each of them.

    The trail comes first, and a run fails if the trail cannot write its event. Failures of other sinks and of subscribers are
    logged and do not affect the answer. The listener of a single run comes last, so it receives only what is already recorded.

    The trail redacts what it stores. All others receive events without the secrets that this process knows.
    """

    def __init__(self, trail: EventSink | None, sinks: Sequence[EventSink] = ()) -> None:
        self._trail = trail
        self._sinks = tuple(sinks)
        self._subscribers: tuple[Listener, ...] = ()

    def add_sink(self, sink: EventSink) -> None:
        """Adds a sink that receives all later events."""
        self._sinks = (*self._sinks, sink)

    def emitter(self, live: Listener | None = None) -> Emit:
        """Returns the function to which a run passes its events. `live`: a listener that receives the events of this run
        alone."""
        trail = self._trail

        async def emit(event: RunEvent) -> None:
            if trail is not None:
                await trail.emit(event)
            if not (self._sinks or self._subscribers or live):
                return
            event = KNOWN.clean(event)
            for sink in self._sinks:
                try:
                    await sink.emit(event)
                except Exception:  # a broken sink of telemetry must not take the answer away
                    log.exception("sink_failed", sink=type(sink).__name__, event_kind=type(event).__name__)
            if self._subscribers:
                await self._tell_subscribers(event)
            if live is not None:
                await live(event)

        return emit

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

    async def _tell_subscribers(self, event: RunEvent) -> None:
        for listener in self._subscribers:
            try:
                await listener(event)
            except Exception:  # the same holds for a stranger who only looks on
                log.exception("subscriber_failed", event_kind=type(event).__name__)
