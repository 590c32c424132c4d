"""Limits of API keys: admits a request before it is sent to the model, and counts afterwards what it has used.

Before: one request, and an estimate of its tokens and money, are reserved in the present windows (`ports.KeyMeter`). After: the
estimate is replaced by the tokens that the model reported, also if the client has left before the end. A key without limits
reserves nothing; its use is counted in memory and written once a second. A client without a key is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import msgspec

from toolcaddie.core.events import RunEvent
from toolcaddie.core.key_limits import NO_LIMITS, Amounts, KeyLimits, KeyUsage, Reservation
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.storage import ApiKey
from toolcaddie.core.usage import Usage
from toolcaddie.doors.gateway.exchange import Exchange, Send
from toolcaddie.doors.gateway.limit_headers import HIDDEN, refusal_of, report_headers
from toolcaddie.doors.gateway.problems import RefusedError
from toolcaddie.ports import KeyMeter
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.spending import OUTPUT_FIELDS, OUTPUT_TOKENS, Spending, SpentCall, amounts_of, expected
from toolcaddie.storage.meter import day_of
from toolcaddie.util.log import Logger
from toolcaddie.wires.usage import AnswerUsage

log = Logger(__name__)

_MODEL_LENGTH = 200
"""Longest name of a model that is written."""

ACCOUNT = "account"
"""The place of the account in `Exchange.context`."""

_NO_FIELDS: Mapping[str, msgspec.Raw] = {}
_account: ContextVar[Account | None] = ContextVar("toolcaddie_account", default=None)
"""The account of the request that the present task answers; its runs charge their model calls to it."""


class Limiter:
    """Admits the requests of API keys. `defaults` returns the limits of all keys, which a key's own limits override. `clock`
    returns seconds since the epoch."""

    def __init__(
        self,
        meter: KeyMeter,
        runtime: Runtime,
        *,
        defaults: Callable[[], KeyLimits],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._meter = meter
        self._runtime = runtime
        self._defaults = defaults
        self.clock = clock
        self._unpriced: set[str] = set()
        """Models that the log has named as without a price."""
        self._subscription = ExitStack()
        self._listens = False

    def close(self) -> None:
        self._subscription.close()

    async def admit(
        self,
        exchange: Exchange,
        key: ApiKey | None,
        fields: Mapping[str, msgspec.Raw] = _NO_FIELDS,
        *,
        size: int,
    ) -> Account | None:
        """Returns the account of a request; None: its client has no key. `fields`: those of the request's body. `size`: bytes of
        the body.

        Raises `RefusedError` if the key has reached a limit.
        """
        if key is None:
            return None
        self._listen()
        given, output = int(size / BYTES_PER_TOKEN), _output_limit(fields)
        model = _text(fields.get("model")) or self._runtime.default_model
        limits = self._defaults().with_own(key.limits)
        reservation = None
        if limits != NO_LIMITS:
            amounts = expected(model, given=given, output=output, prices_of=self._runtime.prices_of)
            reservation = await self._reserved(exchange, key, amounts, limits)
        return Account(self, key.id, model=model, given=given, reservation=reservation)

    async def account(self, key: ApiKey, *, model: str, size: int) -> Account:
        """Returns the account of a run that a person begins without a request to a model's API. `size`: bytes of its messages.
        Raises `RefusedError` if the key has reached a limit."""
        self._listen()
        given, model = int(size / BYTES_PER_TOKEN), model or self._runtime.default_model
        limits = self._defaults().with_own(key.limits)
        reservation = None
        if limits != NO_LIMITS:
            amounts = expected(model, given=given, output=OUTPUT_TOKENS, prices_of=self._runtime.prices_of)
            admission = await self._meter.reserve(key.id, amounts, limits)
            if admission.exceeded:
                raise RefusedError(refusal_of(admission.exceeded, key.name, self.clock()))
            reservation = admission.reservation
        return Account(self, key.id, model=model, given=given, reservation=reservation)

    def restored(self, key_id: str, *, model: str, given: int, reservation: Reservation | None) -> Account:
        """Returns the account of a request that another process has admitted."""
        self._listen()
        return Account(self, key_id, model=model, given=given, reservation=reservation)

    async def count(self, key: ApiKey) -> None:
        """Counts a request that asks no model. Raises `RefusedError` if the key has reached a limit."""
        limits = self._defaults().with_own(key.limits)
        if limits != NO_LIMITS:
            admission = await self._meter.reserve(key.id, Amounts(requests=1), limits)
            if admission.exceeded:
                raise RefusedError(refusal_of(admission.exceeded, key.name, self.clock()))
        self._meter.record(KeyUsage(key_id=key.id, day=day_of(self.clock()), model="", requests=1))

    def settle(self, account: Account) -> None:
        """Counts what a request has used."""
        calls, total = account.spending.calls(), Amounts(requests=1)
        day = day_of(self.clock())
        for at, call in enumerate(calls or [SpentCall(model="", usage=Usage())]):
            amounts = amounts_of(call, self._runtime.prices_of)
            last = at == max(0, len(calls) - 1)  # the request is counted with the last of its models
            unpriced = bool(call.model) and self._runtime.prices_of(call.model) is None
            if unpriced:
                self._name_unpriced(call.model)
            total += amounts
            self._meter.record(
                KeyUsage(
                    key_id=account.key_id,
                    day=day,
                    model=call.model[:_MODEL_LENGTH],
                    requests=int(last),
                    input_tokens=call.usage.input_tokens,
                    output_tokens=call.usage.output_tokens,
                    cached_tokens=call.usage.cached_tokens,
                    money=amounts.money,
                    unpriced=int(last and unpriced),
                    estimated=int(last and call.estimated),
                )
            )
        if account.reservation is not None:
            self._meter.settle(account.reservation, total)

    def _listen(self) -> None:
        """Begins to charge the model calls of runs. A gateway whose clients have no keys does not pay for a listener."""
        if not self._listens:
            self._listens = True
            self._subscription.enter_context(self._runtime.subscribe(self._charge))

    async def _charge(self, event: RunEvent) -> None:
        """Charges an event to the account of the present task, if this limiter has made it: each door has its own, and all of
        them hear every event."""
        account = _account.get()
        if account is not None and account.limiter is self:
            account.spending.take(event)

    async def _reserved(
        self, exchange: Exchange, key: ApiKey, amounts: Amounts, limits: KeyLimits
    ) -> Reservation | None:
        """Reserves the amounts, and adds the headers that report the limits to the answer."""
        admission = await self._meter.reserve(key.id, amounts, limits)
        now = self.clock()
        exchange.hide(HIDDEN)
        for name, value in report_headers(admission.allowances, now, wire=exchange.wire_name).items():
            exchange.note(name, value)
        if admission.exceeded:
            raise RefusedError(refusal_of(admission.exceeded, key.name, now))
        return admission.reservation

    def _name_unpriced(self, model: str) -> None:
        if model not in self._unpriced and len(self._unpriced) < 1_000:
            self._unpriced.add(model)
            log.warning(
                "model_without_price",
                model=model,
                effect="its tokens count against the limits of keys, its money does not",
                remedy="give its prices in a [[capabilities]] table of the settings",
            )


class Account:
    """The use of one request so far (`spending`). `given`: the estimated tokens of its input."""

    def __init__(
        self, limiter: Limiter, key_id: str, *, model: str, given: int, reservation: Reservation | None
    ) -> None:
        self.key_id = key_id
        self.reservation = reservation
        self.spending = Spending(model=model, given=given)
        self.detached = False
        """True: the request goes on after its answer, and is settled at its own end."""
        self.limiter = limiter
        self._settled = False

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charges the model calls of runs within the `with` block to this account."""
        token = _account.set(self)
        try:
            yield
        except asyncio.CancelledError:
            self.spending.cut = True  # the client has left, or the server stops: what was asked for so far is paid for
            raise
        finally:
            _account.reset(token)

    def observe(self, exchange: Exchange) -> None:
        """Reads the tokens of an answer that is passed on."""
        self.spending.asking = True
        exchange.wrap_send(self._observing)

    def settle(self) -> None:
        """Counts what was used, once."""
        if not self._settled:
            self._settled = True
            self.limiter.settle(self)

    def _observing(self, send: Send) -> Send:
        reader: AnswerUsage | None = None
        spending = self.spending

        async def observed(message: MutableMapping[str, Any]) -> None:
            nonlocal reader
            if message["type"] == "http.response.start":
                spending.asking = False
                if message["status"] == 200:
                    reader = AnswerUsage(streams=_is_stream(message["headers"]))
                    spending.put(
                        SpentCall(model=spending.model, usage=Usage(input_tokens=spending.given), estimated=True)
                    )
            elif reader is not None:
                reader.add(message["body"])
                if not message.get("more_body"):
                    reader.end()
                estimate = Usage(input_tokens=spending.given, output_tokens=reader.output_estimate)
                spending.replace_last(
                    SpentCall(
                        model=reader.model or spending.model,
                        usage=reader.usage or estimate,
                        estimated=reader.usage is None,
                    )
                )
            await send(message)

        return observed


def charged(exchange: Exchange, *, observed: bool = False) -> AbstractContextManager[None]:
    """Charges what happens within the `with` block to the account of the request, if it has one. `observed`: the answer is
    passed on, so its tokens are read on the way."""
    account: Account | None = exchange.context.get(ACCOUNT)
    if account is None:
        return _UNCHARGED
    if observed:
        account.observe(exchange)
    return account.charged()


_UNCHARGED = nullcontext()


def _is_stream(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers)


def _output_limit(fields: Mapping[str, msgspec.Raw]) -> int:
    """Returns the largest number of tokens that a request allows for its answer."""
    for name in OUTPUT_FIELDS:
        text = bytes(fields.get(name, b""))
        if text.isdigit() and len(text) < 10:
            return int(text)
    return OUTPUT_TOKENS


def _text(raw: msgspec.Raw | None) -> str:
    """Returns the string in a field; empty: it has none."""
    try:
        value = msgspec.json.decode(raw) if raw is not None else ""
    except msgspec.DecodeError:
        return ""
    return value if isinstance(value, str) else ""
