"""`toolcaddie why --delivery`: the ways to send the tools that were weighed, what was chosen, and what it is expected to cost."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console

from toolcaddie.app.runtimes import offline
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.storage import EventRecord
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import print_json, print_table, tell_degraded
from toolcaddie.doors.cli.trail import events_of

Told = Mapping[str, Any]
"""The JSON of a delivery; of a message and of a recorded run alike, as far as the trail goes."""

_LATER = {
    "array": "tools that join later go into the array; what stands behind them is billed again",
    "text": "tools that join later are shown behind the conversation, as text, and called through execute_tool",
    "reference": "tools that join later are made known behind the conversation, by the provider's own means",
}
_EXPECTED = "* chosen; expected: what the tools cost until the conversation ends, in tokens of fresh input"


_GOES_ON = "planned as for chat and gateway, where a conversation goes on; --once: as `run` sends it"
_ONCE = "as `run` sends it: nobody remembers a lone request, so that its selection goes out whole"


def of_message(settings: Settings, messages: Sequence[Message], *, once: bool, as_json: bool) -> None:
    """Plans the first request of a conversation with `messages`, with reasons; `once`: it is the only one."""
    runtime = offline(settings)
    # A name, because a conversation that goes on is what is worth planning for.
    request = RunRequest(messages=messages, conversation=None if once else "preview")
    selection, delivery = runtime.preview(request)
    tell_degraded(runtime)
    told = {
        "message": messages[-1].text,
        "provider": runtime.provider.name,
        "model": runtime.model,
        "preset": runtime.preset.name,
        "counts": {
            "catalog": selection.catalog_size,
            "selected": len(selection.tools),
            "sent": len(delivery.definitions),
        },
        "tokens": {"all": delivery.tokens_all, "sent": delivery.tokens},
        "strategy": delivery.strategy,
        "note": delivery.note,
        "later_by": delivery.later_by,
        "added": delivery.added,
        "options": [msgspec.to_builtins(option) for option in delivery.options],
        "bill": None if delivery.bill is None else msgspec.to_builtins(delivery.bill),
    }
    if as_json:
        print_json(told)
        return
    _print(told)
    _say(_ONCE if once else _GOES_ON)


def of_run(settings: Settings, run_id: str, *, as_json: bool) -> None:
    """The same of a recorded run, and what the provider then billed."""
    events = asyncio.run(events_of(settings, run_id))
    delivery = _recorded(events)
    if as_json:
        print_json(delivery)
        return
    _print(delivery)
    for each in delivery["later"]:
        note = f": {each['note']}" if each["note"] else ""
        echo(f"round {each['round']}: {each['strategy']}, {each['tools']} tools{note}")


def _recorded(events: Sequence[EventRecord]) -> dict[str, Any]:
    run_id = events[0].run_id
    rows: dict[str, list[Any]] = {}
    for event in events:
        rows.setdefault(event.kind, []).append(event.data)
    if "tools_delivered" not in rows:
        raise RequestError(f"run {run_id} sent no tools; `toolcaddie trail {run_id}` shows what it did")
    first, *later = rows["tools_delivered"]
    started, selected = _first(rows, "run_started"), _first(rows, "tools_selected")
    asked, answered = _first(rows, "model_asked"), _first(rows, "model_answered")
    return {
        "run_id": run_id,
        "message": started.get("message", ""),
        "provider": asked.get("provider", ""),
        "model": asked.get("model", ""),
        "preset": started.get("preset", ""),
        "counts": {**selected.get("counts", {}), "sent": asked.get("tools", len(first["tools"]) + len(first["meta"]))},
        "tokens": first["tokens"],
        "strategy": first["strategy"],
        "note": first["note"],
        "later_by": first.get("later_by", "array"),
        "added": first.get("added", []),
        "options": first.get("options", []),
        "bill": first.get("bill"),
        "billed": _billed(answered),
        "later": [
            {
                "round": row["round"],
                "strategy": row["strategy"],
                "tools": len(row["tools"]) + len(row["meta"]),
                "note": row["note"],
            }
            for row in later
        ],
    }


def _first(rows: Mapping[str, Sequence[Told]], kind: str) -> Told:
    return rows.get(kind, ({},))[0]


def _billed(answered: Told) -> dict[str, int] | None:
    """Tokens the provider counted for the first answer; None if there is none, or it took several requests."""
    usage = answered.get("usage")
    if usage is None or answered.get("attempts"):
        return None
    read, written = usage["cached"], usage.get("written", 0)
    return {"read": read, "written": written, "plain": max(0, usage["input"] - read - written)}


# --- for a person ---------------------------------------------------------------------------------------------------------


def _print(delivery: Told) -> None:
    counts, tokens = delivery["counts"], delivery["tokens"]
    model = f"{delivery['provider']}:{delivery['model']}".rstrip(":") or "the model"
    _say(
        f"{model}, preset {delivery['preset']}: {counts.get('selected', 0)} of {counts.get('catalog', 0)} tools selected, "
        f"{counts['sent']} definitions sent with {tokens['sent']:,} of {tokens['all']:,} tokens"
    )
    if delivery["options"]:
        echo()
        _print_options(delivery["options"])
        _say(_EXPECTED)
    else:
        _say(f"nothing was weighed: the preset sends its tools one way, {delivery['strategy']}")
    if delivery["note"]:
        _say(f"chosen: {delivery['note']}")
    if delivery["added"]:
        _say(f"added behind the conversation: {', '.join(delivery['added'])}")
    if delivery["options"]:
        _say(_LATER.get(delivery["later_by"], str(delivery["later_by"])))
    if delivery["bill"] is not None:
        expected = "first request was" if "run_id" in delivery else "next request is"
        _say(f"the {expected} expected to bill {_bill(delivery['bill'])}")
    if delivery.get("billed") is not None:
        _say(f"the provider counted {_bill(delivery['billed'])}")


def _say(text: str) -> None:
    """A line, broken between words where a terminal is narrower."""
    echo(textwrap.fill(text, Console().width) if sys.stdout.isatty() else text)


def _print_options(options: Sequence[Told]) -> None:
    several = len({option["strategy"] for option in options}) > 1
    rows = [
        (
            option["name"] + (" *" if number == 0 else ""),
            *([option["strategy"]] if several else []),
            option["tools"],
            f"{option['tokens']:,}",
            f"{option['rebilled']:,}",
            f"{option['expected']:,.0f}",
            _dollars(option["dollars"]),
        )
        for number, option in enumerate(options)
    ]
    numbers = ("tools", "tokens", "rebilled", "expected", "dollars")
    words = ("way", "strategy") if several else ("way",)
    print_table((*words, *numbers), rows, right=numbers, spare=words[1:])


def _bill(bill: Told) -> str:
    total = bill["read"] + bill["written"] + bill["plain"]
    dollars = bill.get("dollars")
    return (
        f"{total:,} input tokens: {bill['read']:,} read from the cache, {bill['written']:,} written to it, "
        f"{bill['plain']:,} at the full price" + ("" if dollars is None else f"; ${_dollars(dollars)}")
    )


def _dollars(amount: float | None) -> str:
    """Four places: what a request costs is mostly less than a cent."""
    return "" if amount is None else f"{amount:.4f}"
