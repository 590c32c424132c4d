"""The parts that the handlers of all doors share, and the request that they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import Counter

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.control import Principal
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.doors.gateway.bodies import Bodies
from toolcaddie.doors.gateway.bots import BotModels
from toolcaddie.doors.gateway.hidden import HiddenParts
from toolcaddie.doors.gateway.idempotency import Once
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.onward import Onward
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.doors.gateway.untrusted import NO_NAMES, UntrustedNames
from toolcaddie.ports import EventLog
from toolcaddie.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Parts that the handlers of all doors share.

    `once` answers requests that have an idempotency key. `hidden` stores and restores the parts of conversations that clients do
    not see. `bodies` limits the memory for bodies. `onward` selects the headers that go to the upstream. `ways` counts requests,
    with the label `forwarded` or `run`.

    `forwards`: True if requests without tools go to the upstream byte for byte, provided that it uses the wire of the door.
    False: they are answered by runs too, so that a fallback may answer if the upstream fails.
    """

    runtime: Runtime
    bots: BotModels
    limiter: Limiter
    event_log: EventLog
    once: Once
    hidden: HiddenParts
    bodies: Bodies
    onward: Onward
    ways: Counter
    forwards: bool = True
    bounds: Bounds = DEFAULT
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names of models by other names that clients may use for them."""
    default_model: str = ""
    """The model of requests that name none; empty: they are refused."""
    pinned: tuple[str, ...] = ()
    """Names and patterns of tools that are always sent."""
    untrusted: UntrustedNames = NO_NAMES
    """The clients' own tools whose results are untrusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request that the limits of its key allow. `request`: what was read of it; None: it can be passed on."""

    envelope: Envelope
    body: bytes
    caller: Caller
    principal: Principal
    request: DoorRequest | None = None
