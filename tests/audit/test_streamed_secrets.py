"""Secrets that a streamed answer contains in pieces: sinks and subscribers never see one, wherever the pieces end."""

from __future__ import annotations

import asyncio
import base64
import random
import urllib.parse
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from toolcaddie.core.errors import ProviderError, ProviderUnavailableError
from toolcaddie.core.events import RunEvent, RunFailed, RunFinished, TextDelta
from toolcaddie.core.message import ModelDelta
from toolcaddie.guards.known_secrets import KNOWN, REDACTED, KnownSecrets
from toolcaddie.runtime import Runtime
from toolcaddie.testing import ScriptedProvider, say

pytestmark = pytest.mark.anyio

SECRET = "sk-live/Zq3+ß 'x\"y&9"
LONGER = f"{SECRET}-and-the-rest"
"""Another secret, which begins with the first."""
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: f"the key is {secret}, keep it",
    "url": lambda secret: f"https://host/?key={urllib.parse.quote(secret, safe='')}&n=1",
    "base64": lambda secret: f"key: {base64.b64encode(secret.encode()).decode()} end",
    "base64 in a longer text": lambda secret: base64.b64encode(f"user:{secret} and more".encode()).decode(),
    "hex": lambda secret: f"0x{secret.encode().hex()}.",
    "twice": lambda secret: f"{secret}{secret}",
    "after its own beginning": lambda secret: f"{secret[:9]}{secret[:3]}{secret} {secret[:5]}.",
}


@pytest.fixture
def known() -> KnownSecrets:
    KNOWN.add(SECRET, LONGER)
    return KNOWN


class Pieces(ScriptedProvider):
    """Streams an answer in the pieces of a request's text, with a turn for other runs between them."""

    def __init__(self, answers: dict[str, Sequence[str]], error: ProviderError | None = None) -> None:
        super().__init__([])
        self._answers = answers
        self._error = error

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        pieces = self._answers[request.messages[-1].text]
        for piece in pieces:
            yield ModelDelta(text=piece)
            await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        yield self._model_reply(request, say("".join(pieces)))


class Sink:
    """A sink that keeps the events of each run."""

    def __init__(self) -> None:
        self.events: dict[str, list[RunEvent]] = {}

    async def emit(self, event: RunEvent) -> None:
        self.events.setdefault(event.run_id, []).append(event)


async def texts_of(answers: dict[str, Sequence[str]], error: ProviderError | None = None) -> dict[str, str]:
    """Streams all answers at once, and returns what a sink was sent of each, by its request."""
    sink, subscriber = Sink(), Sink()
    async with Runtime(provider=Pieces(answers, error), sinks=[sink], attempts=1) as runtime:

        async def run(request: str) -> str:
            run_id = ""
            try:
                async for event in runtime.stream(request):
                    run_id = event.run_id
            except ProviderError:
                pass
            return run_id

        with runtime.subscribe(subscriber.emit):
            run_ids = await asyncio.gather(*(run(request) for request in answers))
    assert sink.events == subscriber.events
    for events in sink.events.values():
        assert isinstance(events[-1], RunFinished | RunFailed)
    return {
        request: "".join(event.text for event in sink.events[run_id] if isinstance(event, TextDelta))
        for request, run_id in zip(answers, run_ids, strict=True)
    }


def in_two(text: str) -> dict[str, Sequence[str]]:
    return {f"cut at {at}": (text[:at], text[at:]) for at in range(len(text) + 1)}


@pytest.mark.parametrize("secret", [SECRET, LONGER], ids=["secret", "longer secret"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_secret_in_pieces_is_removed_wherever_they_end(form: str, secret: str, known: KnownSecrets) -> None:
    text = FORMS[form](secret)
    chance = random.Random(form)
    cuts = [sorted(chance.sample(range(len(text)), 5)) for _ in range(20)]
    answers = {
        **in_two(text),
        "letters": tuple(text),
        **{f"random {number}": _cut(text, at) for number, at in enumerate(cuts)},
    }
    clean = known.redact(text)
    assert REDACTED in clean
    assert await texts_of(answers) == dict.fromkeys(answers, clean)


def _cut(text: str, places: Sequence[int]) -> Sequence[str]:
    ends = [0, *places, len(text)]
    return [text[begin:end] for begin, end in pairwise(ends)]


@pytest.mark.usefixtures("known")
async def test_an_answer_that_ends_or_fails_within_a_secret_shows_what_was_sent_and_no_more() -> None:
    answers = {f"{size} letters": tuple(f"It is {LONGER[:size]}") for size in range(len(SECRET))}
    expected = {request: "".join(pieces) for request, pieces in answers.items()}
    assert await texts_of(answers) == expected
    assert await texts_of(answers, ProviderUnavailableError("gone")) == expected
    within = {f"{size} letters": tuple(LONGER[:size]) for size in range(len(SECRET), len(LONGER))}
    assert all(text.startswith(REDACTED) for text in (await texts_of(within)).values())
    assert all(
        text.startswith(REDACTED) for text in (await texts_of(within, ProviderUnavailableError("gone"))).values()
    )


@pytest.mark.usefixtures("known")
async def test_a_text_without_secrets_arrives_whole_and_is_not_withheld_longer_than_it_must_be() -> None:
    answers = {"one": ("sk-", "live", "/Zq3 is", " not it"), "two": ("a", "", "b s", "k-l")}
    assert await texts_of(answers) == {"one": "sk-live/Zq3 is not it", "two": "ab sk-l"}
