"""Checks with damaged answers: each value of a valid answer is replaced by a value of another type; events are lost or doubled.

The provider may return a reply or raise `ProviderError`. A reply with fields of wrong types, or an exception of another type,
would cause an error far from its origin. Part of the contract suite of providers (`provider_contract`); the name of each
function is printed as the promise it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderError
from toolcaddie.core.message import ModelRequest
from toolcaddie.ports import Provider
from toolcaddie.testing.contract import ContractError
from toolcaddie.testing.faults import altered
from toolcaddie.testing.provider_contract.answers import TOOLS
from toolcaddie.testing.provider_contract.failing import RICH
from toolcaddie.testing.provider_contract.subject import Checks, Subject, ask, request_of, stage

CHECKS = Checks()

_STRANGE: tuple[Any, ...] = (None, -7, 1.5, "strange", [], {}, [None], True, 10**30)
_PER_PLACE = 2
"""Number of strange values tried in each place; the places take turns, because all values in all places would take minutes."""


@CHECKS.both
async def values_of_wrong_types_are_an_error_or_passed_over(subject: Subject, stream: bool) -> None:
    answer: list[bytes] = []
    async with stage(subject, lambda _: altered(RICH, _Next(answer, plans))) as (provider, _):
        plans: list[Any] = [None]
        request = request_of(subject, tools=TOOLS)
        await ask(provider, request, stream)
        damages = list(_damages(answer))
        for damage in damages:
            plans.append(damage)
            await _reply_or_error(provider, request, stream, damage[1])


class _Next:
    """Alters the events of an answer as the last entry of `plans` says, and removes this entry.

    None: the events are sent unchanged, and recorded in `answer`. Otherwise the entry holds the events to send, and a
    description.
    """

    def __init__(self, answer: list[bytes], plans: list[Any]) -> None:
        self._answer = answer
        self._plans = plans

    def __call__(self, events: list[bytes]) -> Sequence[bytes]:
        plan = self._plans.pop()
        if plan is None:
            self._answer.extend(events)
            return events
        return list(plan[0])


def _damages(events: Sequence[bytes]) -> Iterator[tuple[list[bytes], str]]:
    """Yields the events with one value replaced by a strange value, and a description; then the same for the next value."""
    turn = 0
    for place, event in enumerate(events):
        try:
            value = msgspec.json.decode(event)
        except msgspec.DecodeError:
            continue  # the end mark of a stream, which is not JSON
        for path in _paths(value):
            for _ in range(_PER_PLACE):
                turn += 1
                strange = _STRANGE[turn % len(_STRANGE)]
                damaged = msgspec.json.encode(_replaced(value, path, strange))
                where = ".".join(map(str, path))
                yield [*events[:place], damaged, *events[place + 1 :]], f"{where} of event {place} is {strange!r}"


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _paths(inner, (*path, place))


def _replaced(value: Any, path: tuple[str | int, ...], strange: Any) -> Any:
    if not path:
        return strange
    first, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {name: _replaced(inner, rest, strange) if name == first else inner for name, inner in value.items()}
    return [_replaced(inner, rest, strange) if place == first else inner for place, inner in enumerate(value)]


@CHECKS.both
async def bytes_that_are_no_characters_are_an_error_or_passed_over(subject: Subject, stream: bool) -> None:
    async with stage(subject, [altered(RICH, _garbled(word)) for word in _WORDS]) as (provider, _):
        for word in _WORDS:
            await _reply_or_error(
                provider, request_of(subject, tools=TOOLS), stream, f"{word!r} has a byte that is not UTF-8"
            )


_WORDS = (b"see", b"add", b"first", b"second", b"call_1")


def _garbled(word: bytes) -> Callable[[list[bytes]], list[bytes]]:
    return lambda events: [event.replace(word, b"\xff" + word[1:]) for event in events]


@CHECKS.add()
async def events_that_are_lost_doubled_or_swapped_are_an_error_or_passed_over(subject: Subject) -> None:
    answer: list[bytes] = []
    plans: list[Any] = [None]
    async with stage(subject, lambda _: altered(RICH, _Next(answer, plans))) as (provider, _):
        request = request_of(subject, tools=TOOLS)
        await ask(provider, request, stream=True)
        for place in range(len(answer)):
            before, here, after = answer[:place], answer[place], answer[place + 1 :]
            plans.append(([*before, *after], ""))
            await _reply_or_error(provider, request, True, f"event {place} is lost")
            plans.append(([*before, here, here, *after], ""))
            await _reply_or_error(provider, request, True, f"event {place} is doubled")
            plans.append(([*before, *after[:1], here, *after[1:]], ""))
            await _reply_or_error(provider, request, True, f"event {place} comes after the next one")


async def _reply_or_error(provider: Provider, request: ModelRequest, stream: bool, what: str) -> None:
    try:
        await ask(provider, request, stream)
    except ProviderError:
        return
    except ContractError as error:
        raise ContractError(f"where {what}: {error}") from error
    except Exception as error:
        raise ContractError(f"where {what}: {type(error).__name__} instead of ProviderError: {error}") from error
