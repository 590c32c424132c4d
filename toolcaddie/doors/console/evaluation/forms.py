"""Reads the form that begins an evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from toolcaddie.app.measuring import Configuration, check_selects, with_signals
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.presets import PRESETS, SIGNALS
from toolcaddie.evaluation.datasets import requests_in

MOST_REQUESTS = 2_000
MOST_RUNS = 20_000
LONGEST_LIST = 256 * 1024
"""The largest size of given requests, in bytes."""
_MOST_TOOLS = 1_000

SELECTING = tuple(name for name, preset in PRESETS.items() if preset.exposure == "selected")
"""The presets that select tools."""
RANKERS = tuple(sorted(SIGNALS))
"""Names of the groups of rankers."""


def configurations_of(form: Mapping[str, str], settings: Settings) -> tuple[Configuration, ...]:
    """Returns the configurations that a form names: one, or two to be compared. Raises `RequestError`."""
    first = _configuration(form, "first", settings)
    if form.get("compare") != "yes":
        return (first,)
    second = _configuration(form, "second", settings)
    if first.name == second.name:
        raise RequestError(f"{first.name!r} would be compared with itself; change one of them", param="second_preset")
    return first, second


def requests_of(form: Mapping[str, str]) -> bytes | None:
    """Returns the labelled requests of a form, as lines of JSON; None: those of the trail are meant. Raises `RequestError`."""
    if form.get("source") != "list":
        return None
    text = form.get("requests", "").encode("utf-8", "replace")
    if len(text) > LONGEST_LIST:
        raise RequestError(
            f"the list has {len(text):,} bytes, more than {LONGEST_LIST:,}; use `toolcaddie eval --queries FILE` for it",
            param="requests",
        )
    try:
        requests = requests_in(text.splitlines(), origin="the list")
    except ConfigError as error:
        raise RequestError(str(error), param="requests") from error
    if not any(request.gold for request in requests):
        raise RequestError(
            'the list has no request with a right tool; write one JSON object a line: {"query": "...", "gold": ["tool"]}',
            param="requests",
        )
    if len(requests) > MOST_REQUESTS:
        raise RequestError(
            f"the list has {len(requests):,} requests, more than {MOST_REQUESTS:,}; use `toolcaddie eval --queries FILE`",
            param="requests",
        )
    return text


def _configuration(form: Mapping[str, str], place: str, settings: Settings) -> Configuration:
    preset = _choice(form, f"{place}_preset", SELECTING) or settings.preset
    rankers = _choice(form, f"{place}_rankers", RANKERS)
    most = form.get(f"{place}_max_tools", "").strip()
    changed, name = replace(settings, preset=preset), preset
    if rankers:
        changed, name = with_signals(changed, rankers), f"{name}, {rankers}"
    if most:
        if not (most.isascii() and most.isdecimal()) or len(most) > 4 or not 1 <= int(most) <= _MOST_TOOLS:
            raise RequestError(f"max_tools must be a number from 1 to {_MOST_TOOLS:,}", param=f"{place}_max_tools")
        changed = replace(changed, budget={**changed.budget, "max_tools": int(most)})
        name = f"{name}, {int(most)} tools"
    configuration = Configuration(name=name, settings=changed)
    try:
        check_selects(configuration)
    except ConfigError as error:
        raise RequestError(str(error), param=f"{place}_preset") from error
    return configuration


def _choice(form: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = form.get(name, "")
    if value and value not in known:
        raise RequestError(f"{name} is one of {', '.join(known)}", param=name)
    return value
