"""`toolcaddie why --delivery`: explains how the tools are sent to the model. It prints the ways that were compared, the chosen
way, and their expected costs."""

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
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import note_degraded, print_json, print_table
from toolcaddie.doors.cli.trail import events_of
from toolcaddie.doors.run_delivery import delivery_of_run

Data = Mapping[str, Any]
"""The JSON of `why --delivery` or a part of it. That of a recorded run has the same keys as that of a message and some more; a
record of an earlier version may lack keys."""

_LATER = {
    "array": "tools that join later are added to the array; everything after it is billed again",
    "text": "tools that join later are shown as text after the conversation, and called through execute_tool",
    "reference": "tools that join later are announced after the conversation, by the provider's own means",
}
"""For each way of sending tools that join the conversation later, a sentence about it."""

_EXPECTED = (
    "* the chosen way; expected: what the tools cost until the conversation ends, in input tokens at the full price"
)

_CONVERSATION = (
    "This is the plan for the first request of a conversation (chat, gateway); --once shows the plan of `run`"
)
_ONCE = "This is the plan of `run`: no later request follows, so the whole selection is sent"


def print_for_message(settings: Settings, messages: Sequence[Message], *, once: bool, as_json: bool) -> None:
    """Prints the plan of a conversation's first request, with reasons. `messages` ends with the message to answer. `once`: True
    if this request is the only one of the conversation."""
    runtime = offline(settings)
    # A request without a conversation's id would be planned as a single request.
    request = RunRequest(messages=messages, conversation=None if once else "preview")
    selection, delivery = runtime.preview(request)
    note_degraded(runtime)
    report = {
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
        print_json(report)
        return
    _print(report)
    _print_wrapped(_ONCE if once else _CONVERSATION)


def print_for_run(settings: Settings, run_id: str, *, as_json: bool) -> None:
    """Prints the plan of a recorded run, and the tokens that the provider then billed."""
    events = asyncio.run(events_of(settings, run_id))
    delivery = delivery_of_run(events)
    if as_json:
        print_json(delivery)
        return
    _print(delivery)
    for row in delivery["later"]:
        note = f": {row['note']}" if row["note"] else ""
        echo(f"round {row['round']}: {row['strategy']}, {row['tools']} tools{note}")


# --- for a person ---------------------------------------------------------------------------------------------------------


def _print(delivery: Data) -> None:
    """Prints the plan: the compared ways of sending the tools, the chosen way and its reason, and the expected bill."""
    counts, tokens = delivery["counts"], delivery["tokens"]
    model = f"{delivery['provider']}:{delivery['model']}".rstrip(":") or "the model"
    _print_wrapped(
        f"{model}, preset {delivery['preset']}: {counts.get('selected', 0)} of {counts.get('catalog', 0)} tools selected, "
        f"{counts['sent']} definitions sent with {tokens['sent']:,} of {tokens['all']:,} tokens"
    )
    if delivery["options"]:
        echo()
        _print_options(delivery["options"])
        _print_wrapped(_EXPECTED)
    else:
        _print_wrapped(
            f"nothing was compared: the preset has only one way of sending its tools, {delivery['strategy']}"
        )
    if delivery["note"]:
        _print_wrapped(f"chosen: {delivery['note']}")
    if delivery["added"]:
        _print_wrapped(f"added after the conversation: {', '.join(delivery['added'])}")
    if delivery["options"]:
        _print_wrapped(_LATER.get(delivery["later_by"], str(delivery["later_by"])))
    if delivery["bill"] is not None:
        expected = "first request was" if "run_id" in delivery else "next request is"
        _print_wrapped(f"the {expected} expected to bill {_bill(delivery['bill'])}")
    if delivery.get("billed") is not None:
        _print_wrapped(f"the provider counted {_bill(delivery['billed'])}")


def _print_wrapped(text: str) -> None:
    """Prints a line, wrapped between words if the terminal is narrower."""
    echo(textwrap.fill(text, Console().width) if sys.stdout.isatty() else text)


def _print_options(options: Sequence[Data]) -> None:
    """Prints the compared ways as a table; the first is the chosen one. The column `strategy` is omitted if all have the same."""
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


def _bill(bill: Data) -> str:
    """Returns the tokens of a bill, by price, and the dollars if they are known."""
    total = bill["read"] + bill["written"] + bill["plain"]
    dollars = bill.get("dollars")
    return (
        f"{total:,} input tokens: {bill['read']:,} read from the cache, {bill['written']:,} written to it, "
        f"{bill['plain']:,} at the full price" + ("" if dollars is None else f"; ${_dollars(dollars)}")
    )


def _dollars(amount: float | None) -> str:
    """Returns an amount with four decimal places: most requests cost less than a cent."""
    return "" if amount is None else f"{amount:.4f}"
