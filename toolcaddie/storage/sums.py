"""Sums of figures by topic, period, tenant and name, and the counter that adds to them. See `counting`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from toolcaddie.core.capabilities import Prices
from toolcaddie.core.key_limits import cost
from toolcaddie.core.usage import Usage
from toolcaddie.storage.counted_rows import TokensRow

Topic = Literal["requests", "bots", "models", "tools", "categories", "searches", "unknown", "strategies"]

COLUMNS = ("number", "failed", "sent", "input_tokens", "output_tokens", "cached_tokens", "money", "unpriced", "instead")
"""The numbers of a figure, in the order of their columns."""

ALWAYS = "all"
"""The period that contains every day."""

WHOLE = "whole catalog"
"""Name of the strategy that sends every tool that the caller may see, which is compared by tokens only."""

LONGEST_NAME = 200
"""Largest number of characters of a name; the rest is cut off."""

PricesOf = Callable[[str], Prices | None]
Key = tuple[Topic, str, str, str]
"""Topic, period, tenant and name."""
Sums = dict[Key, list[int]]
"""Numbers in the order of `COLUMNS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRun:
    """Facts of a run that its later rows do not repeat."""

    tenant: str
    bot: str


class Counter:
    """Adds up what rows say. `at` says to which run and which day the next numbers belong."""

    def __init__(self, prices_of: PricesOf) -> None:
        self.prices_of = prices_of
        self._of_days: Sums = {}
        self._run = CountedRun(tenant="", bot="")
        self._day = ""

    @property
    def sums(self) -> Sums:
        """The sums of each day, of its month, and of the whole time."""
        sums: Sums = {}
        for (topic, day, tenant, name), numbers in self._of_days.items():
            for period in (day, day[:7], ALWAYS):
                before = sums.get((topic, period, tenant, name))
                after = list(numbers) if before is None else [a + b for a, b in zip(before, numbers, strict=True)]
                sums[topic, period, tenant, name] = after
        return sums

    def at(self, run: CountedRun, day: str) -> None:
        self._run, self._day = run, day

    def add(self, topic: Topic, name: str, **numbers: int) -> None:
        key = (topic, self._day, self._run.tenant, name)
        sums = self._of_days.get(key)
        if sums is None:
            sums = self._of_days[key] = [0] * len(COLUMNS)
        for column, number in numbers.items():
            sums[_PLACES[column]] += number

    def add_run(self, **numbers: int) -> None:
        self.add("requests", "", **numbers)
        self.add("bots", self._run.bot, **numbers)

    def add_answer(self, model: str, tokens: TokensRow, tools: Iterable[str] = ()) -> None:
        """Adds the answer of a model. `tools`: those that it calls."""
        usage = Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cached_tokens=tokens.cached,
            written_tokens=tokens.written,
        )
        prices = self.prices_of(model) if model else None
        numbers = {
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cached_tokens": tokens.cached,
            "money": 0 if prices is None else cost(usage, prices),
            "unpriced": int(prices is None),
        }
        self.add("models", clean_name(model), number=1, **numbers)
        self.add_run(**numbers)
        names = list(tools)
        for place, name in enumerate(names):
            # The first ones get what cannot be divided, so that the shares of an answer are together the whole.
            shares = {
                column: number // len(names) + (place < number % len(names)) for column, number in numbers.items()
            }
            self.add("tools", clean_name(name), **shares)


_PLACES = {column: place for place, column in enumerate(COLUMNS)}


def clean_name(text: str, most: int = LONGEST_NAME) -> str:
    """Returns a name that every database can store."""
    if text.isascii() and len(text) <= most and "\0" not in text:
        return text
    return text[:most].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
