"""The model calls of one request and what they cost, for everything that limits requests: API keys, and bots with a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from toolcaddie.core.capabilities import Prices
from toolcaddie.core.events import ModelAnswered, ModelAsked, RequestClassified, RunEvent, TextDelta
from toolcaddie.core.key_limits import Amounts, cost
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.usage import Usage

PricesOf = Callable[[str], Prices | None]
"""Returns the prices of a model; None: they are unknown."""

OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""Fields of requests that limit the tokens of the answer, over all wires."""
OUTPUT_TOKENS = 1_000
"""Tokens that are reserved for an answer whose request names no limit."""


class SpentCall(Struct, frozen=True, kw_only=True):
    """A model call. `model`: its name; empty: no model was asked. `estimated`: True if the answer did not report its tokens."""

    model: str
    usage: Usage
    estimated: bool = False


class Spending:
    """What one request has used so far. `model`: the model that it asks. `given`: the estimated tokens of its input."""

    def __init__(self, *, model: str, given: int) -> None:
        self.model = model
        self.given = given
        self.cut = False
        """True: the caller has left, or the server stops. What was asked for so far is paid for."""
        self.asking = False
        """True: a model was asked and has not answered."""
        self._calls: list[SpentCall] = []
        self._text = 0
        """Characters of the answer that has begun."""

    def take(self, event: RunEvent) -> None:
        """Takes an event of the run."""
        match event:
            case ModelAsked():
                self._close_broken()
                self.asking, self._text = True, 0
            case TextDelta():
                self._text += len(event.text)
            case ModelAnswered():
                self.asking = False
                model = f"{event.provider}:{event.model}" if event.provider else event.model
                self._add(model, event.usage, round(len(event.text) / BYTES_PER_TOKEN))
            case RequestClassified() if event.classification.usage != Usage():
                self.put(SpentCall(model=event.classification.model or self.model, usage=event.classification.usage))

    def put(self, call: SpentCall) -> None:
        """Adds a model call."""
        self._calls.append(call)

    def replace_last(self, call: SpentCall) -> None:
        """Puts a model call in the place of the last one, of which more is known now."""
        self._calls[-1] = call

    def calls(self) -> Sequence[SpentCall]:
        """Returns the model calls so far."""
        self._close_broken()
        return self._calls

    def amounts(self, prices_of: PricesOf, *, requests: int = 1) -> Amounts:
        """Returns the sum of the model calls so far. `requests`: the number of requests that it counts as."""
        total = Amounts(requests=requests)
        for call in self.calls():
            total += amounts_of(call, prices_of)
        return total

    def _close_broken(self) -> None:
        """Adds a model call without an end: the caller has left, or the upstream broke off within its answer."""
        if self.asking and (self.cut or self._text):
            self.asking = False
            self._add(self.model, Usage(), round(self._text / BYTES_PER_TOKEN))

    def _add(self, model: str, usage: Usage, output: int) -> None:
        """Adds a model call. If it reported no tokens, they are estimated. `output`: the estimated tokens of its answer."""
        estimated = usage.input_tokens == 0 and usage.output_tokens == 0
        if estimated:
            usage = Usage(input_tokens=self.given, output_tokens=output)
        self.put(SpentCall(model=model or self.model, usage=usage, estimated=estimated))


def amounts_of(call: SpentCall, prices_of: PricesOf) -> Amounts:
    """Returns the tokens and the money of a model call. Without a known price, its money does not count."""
    prices = prices_of(call.model) if call.model else None
    money = 0 if prices is None else cost(call.usage, prices)
    return Amounts(tokens=call.usage.input_tokens + call.usage.output_tokens, money=money)


def expected(model: str, *, given: int, output: int, prices_of: PricesOf, requests: int = 1) -> Amounts:
    """Returns what is reserved for a request before it is sent. `given`: the estimated tokens of its input. `output`: the largest
    number of tokens of its answer."""
    usage = Usage(input_tokens=given, output_tokens=output)
    return Amounts(requests=requests) + amounts_of(SpentCall(model=model, usage=usage), prices_of)
