"""Counts what rows of the trail say: the figures that the console shows, by topic, period, tenant and name.

It takes rows and returns sums, and knows no database. A row that cannot be read counts nothing: another version may have written
it, or a person may have changed it, and the rows behind it must be counted all the same.

    topic          name                     counts
    requests       always empty             runs, failed runs, tokens, money
    bots           bot, or empty            the same
    models         model                    answers, tokens, money
    tools          tool                     calls, failed calls, arrays that contained it; its share of tokens and money
    categories     category                 requests that matched it, selections that contain it
    searches       words of a search        searches of the model that found nothing
    unknown        name of a tool           calls of tools that do not exist
    strategies     strategy of delivery     times weighed and chosen, expected money, and that of what was chosen instead

The tokens and the money of an answer are divided among the tools that it calls, because it was asked for to make these calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from toolcaddie.core.key_limits import BILLION
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.storage.counted_rows import (
    AnswerRow,
    ArgumentsRow,
    CallRow,
    ClassificationRow,
    DecisionRow,
    DeliveryRow,
    EndRow,
    MetaRow,
    OptionRow,
    SelectionRow,
    StartRow,
)
from toolcaddie.storage.sums import WHOLE, CountedRun, Counter, PricesOf, Sums, clean_name

_LONGEST_TENANT = 255
_FIRST_DAY = date(1970, 1, 1)
_SECONDS_OF_DAY = 86_400
_NOTHING = re.compile(r'\s*\{\s*"total"\s*:\s*0\b')
"""The beginning of the result of a search without hits."""


class StoredRow(msgspec.Struct, frozen=True):
    """A row of the trail as it is stored."""

    run_id: str
    at: float
    kind: str
    data: str


def run_of(data: str) -> CountedRun | None:
    """Returns the facts of a run from the data of its first row; None: it cannot be read."""
    try:
        principal = msgspec.json.decode(data, type=StartRow).principal
    except msgspec.MsgspecError:
        return None
    if len(principal.tenant) > _LONGEST_TENANT or principal.tenant != clean_name(principal.tenant, _LONGEST_TENANT):
        return None
    return CountedRun(tenant=principal.tenant, bot=clean_name(principal.bot or ""))


def count(rows: Iterable[StoredRow], runs: Mapping[str, CountedRun], prices_of: PricesOf) -> Sums:
    """Returns the sums of rows. `runs`: the runs of the rows, by id; rows of others count nothing."""
    counter = Counter(prices_of)
    for row in rows:
        run = runs.get(row.run_id)
        reading = _READINGS.get(row.kind)
        if run is None or reading is None:
            continue
        kind, add = reading
        try:
            data = msgspec.json.decode(row.data, type=kind)
            day = _day(row.at)
        except (msgspec.MsgspecError, OverflowError, ValueError):
            continue
        counter.at(run, day)
        add(counter, data)
    return counter.sums


def _day(at: float) -> str:
    """Returns the day (UTC) to which a moment belongs."""
    return _date(int(at // _SECONDS_OF_DAY))


@lru_cache(maxsize=1_000)
def _date(number: int) -> str:
    """Returns a day by its number since 1970."""
    return (_FIRST_DAY + timedelta(days=number)).isoformat()


def _begin(counter: Counter, _: StartRow) -> None:
    counter.add_run(number=1)


def _end(counter: Counter, end: EndRow) -> None:
    if end.status == "failed":
        counter.add_run(failed=1)


def _answer(counter: Counter, answer: AnswerRow) -> None:
    counter.add_answer(answer.model, answer.usage, [call.name for call in answer.calls])


def _classify(counter: Counter, classification: ClassificationRow) -> None:
    if classification.how == "asked":
        counter.add_answer(classification.model, classification.usage)


def _call(counter: Counter, call: CallRow) -> None:
    if call.error == "unknown_tool":
        counter.add("unknown", clean_name(call.name), number=1)
    else:
        counter.add("tools", clean_name(call.name), number=1, failed=int(bool(call.error)))


def _decide(counter: Counter, decision: DecisionRow) -> None:
    if decision.verdict == "deny":
        counter.add("tools", clean_name(decision.name), number=1, failed=1)


def _search(counter: Counter, meta: MetaRow) -> None:
    if meta.error:
        return
    is_vain = (meta.name == REQUEST_MORE_TOOLS and not meta.added) or (
        meta.name == SEARCH_TOOLS and _NOTHING.match(meta.content) is not None
    )
    if is_vain:
        try:
            arguments = msgspec.json.decode(meta.arguments, type=ArgumentsRow)
        except msgspec.MsgspecError:
            return
        words = " ".join(f"{arguments.query} {arguments.reason}".lower().split())
        if words:
            counter.add("searches", clean_name(words), number=1)


def _select(counter: Counter, selection: SelectionRow) -> None:
    matched = set(selection.matched)
    for name in dict.fromkeys((*selection.matched, *selection.categories)):
        counter.add("categories", clean_name(name), number=int(name in matched), sent=1)


def _deliver(counter: Counter, delivery: DeliveryRow) -> None:
    for name in dict.fromkeys(delivery.tools):
        counter.add("tools", clean_name(name), sent=1)
    if not delivery.options:
        return
    best: dict[str, OptionRow] = {}
    for option in delivery.options:
        rival = best.setdefault(option.strategy, option)
        best[option.strategy] = min(rival, option, key=lambda each: each.expected)
    chosen = min(delivery.options, key=lambda each: each.expected)
    for name, option in best.items():
        is_chosen = option is chosen
        is_priced = option.dollars is not None and chosen.dollars is not None
        counter.add(
            "strategies",
            clean_name(name),
            number=1,
            sent=int(is_chosen),
            input_tokens=option.tokens,
            money=_billionths(option.dollars) if is_priced else 0,
            instead=_billionths(chosen.dollars) if is_priced else 0,
            unpriced=int(not is_priced),
        )
    counter.add("strategies", WHOLE, number=1, input_tokens=delivery.tokens.all, unpriced=1)


def _billionths(dollars: float | None) -> int:
    return round((dollars or 0.0) * BILLION)


_READINGS: Mapping[str, tuple[type[Any], Callable[[Counter, Any], None]]] = {
    "run_started": (StartRow, _begin),
    "run_finished": (EndRow, _end),
    "run_failed": (EndRow, _end),
    "model_answered": (AnswerRow, _answer),
    "request_classified": (ClassificationRow, _classify),
    "call_finished": (CallRow, _call),
    "call_decided": (DecisionRow, _decide),
    "meta_called": (MetaRow, _search),
    "tools_selected": (SelectionRow, _select),
    "tools_delivered": (DeliveryRow, _deliver),
}
"""Kind of row -> what is read of it, and how it is counted."""

KINDS = tuple(_READINGS)
