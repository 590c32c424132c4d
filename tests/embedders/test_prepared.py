"""Vectors kept ahead of a selection: in memory, in documents, and not at all where their source fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from structlog.testing import capture_logs

from tests.databases import database_url
from tests.embedders.models import Letters, RemoteLetters
from toolcaddie.core.errors import ConfigError, ProviderError
from toolcaddie.embedders.prepared import PAUSE, Prepared
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio

TEXTS = ["freeze a membership", "list branches", "send an email"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_text_is_embedded_once_and_its_vector_kept() -> None:
    model = Letters()
    prepared = Prepared(model)
    first = prepared.embed(TEXTS)
    assert prepared.embed(TEXTS[::-1]) == pytest.approx(first[::-1])
    assert prepared.embed(TEXTS[:1]) == pytest.approx(model.embed(TEXTS[:1]), abs=1e-3)
    assert model.asked == [*TEXTS, TEXTS[0]]  # the last one by this test itself


async def test_what_was_prepared_needs_nobody_when_it_is_looked_at() -> None:
    model = RemoteLetters()
    prepared = Prepared(model)
    await prepared.prepare(TEXTS)
    assert prepared.embed(TEXTS) == pytest.approx(Letters().embed(TEXTS), abs=1e-3)
    assert model.asked == TEXTS


async def test_a_text_that_nobody_prepared_has_nothing_to_say() -> None:
    prepared = Prepared(RemoteLetters())
    await prepared.prepare(TEXTS[:1])
    found = prepared.embed(TEXTS[:2])
    assert found[0].any()
    assert not found[1].any()


async def test_half_floats_move_no_cosine_by_more_than_a_ten_thousandth() -> None:
    model = Noise()
    texts = [str(number) for number in range(200)]
    exact, kept = model.embed(texts), Prepared(model).embed(texts)
    assert np.abs(exact @ exact.T - kept @ kept.T).max() < 1e-4


async def test_a_catalog_is_embedded_once_whatever_restarts(tmp_path: Any) -> None:
    url = database_url(tmp_path / "kept.sqlite")
    async with Database(url) as database:
        model = RemoteLetters()
        prepared = Prepared(model, database.store)
        await prepared.prepare_lasting(TEXTS)
        before = prepared.embed(TEXTS)
        assert model.asked == TEXTS
    async with Database(url) as database:
        again = RemoteLetters()
        restarted = Prepared(again, database.store)
        await restarted.prepare_lasting([*TEXTS, "a new tool"])
        assert again.asked == ["a new tool"]
        assert (restarted.embed(TEXTS) == before).all()


async def test_vectors_of_another_model_are_not_taken_for_its_own() -> None:
    documents = MemoryStore()
    await Prepared(Letters("one"), documents).prepare_lasting(TEXTS)
    other = Letters("another")
    await Prepared(other, documents).prepare_lasting(TEXTS)
    assert other.asked == TEXTS


async def test_what_requests_say_is_not_written_down() -> None:
    documents = MemoryStore()
    prepared = Prepared(Letters(), documents)
    await prepared.prepare(TEXTS)
    prepared.embed(["something private"])
    model = Letters()
    await Prepared(model, documents).prepare_lasting([*TEXTS, "something private"])
    assert model.asked == [*TEXTS, "something private"]


async def test_damaged_documents_are_made_again() -> None:
    good = MemoryStore()
    prepared = Prepared(Letters(), good)
    await prepared.prepare_lasting(TEXTS)
    for damage in (b"", b"short", np.full(26, np.nan, dtype=np.float16).tobytes()):
        model = Letters()
        await Prepared(model, Damaged(damage)).prepare_lasting(TEXTS)
        assert model.asked == TEXTS
    remote = RemoteLetters()
    await Prepared(remote, Damaged(b"")).prepare_lasting(TEXTS)
    assert remote.asked == TEXTS


async def test_a_source_that_fails_costs_vectors_and_is_said_once_and_asked_again_later() -> None:
    clock, model = Clock(), RemoteLetters()
    prepared = Prepared(model, clock=clock)
    model.fails = True
    with capture_logs() as logs:
        for _ in range(3):
            await prepared.prepare(TEXTS)
        clock.now += PAUSE
        await prepared.prepare(TEXTS)
    assert not prepared.embed(TEXTS).any()
    assert [entry["event"] for entry in logs] == ["embedder_failed"]
    assert model.times_asked == 2  # once, and once more after the pause
    model.fails = False
    clock.now += PAUSE
    with capture_logs() as logs:
        await prepared.prepare(TEXTS)
    assert prepared.embed(TEXTS).all(axis=0).any()
    assert [entry["event"] for entry in logs] == ["embedder_works_again"]


async def test_a_source_that_hangs_holds_nobody_up_for_longer_than_the_patience() -> None:
    model = RemoteLetters()
    model.hangs = True
    prepared = Prepared(model, patience=0.02)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            await prepared.prepare(TEXTS)
            await prepared.prepare(TEXTS)
    assert logs[0]["error"] == "no answer within 0.02 s"
    assert model.times_asked == 1


async def test_a_catalog_goes_on_where_it_broke_off() -> None:
    documents, clock, model = MemoryStore(), Clock(), RemoteLetters()
    texts = [f"tool {'x' * number}" for number in range(600)]
    model.fails_after = 256
    prepared = Prepared(model, documents, clock=clock)
    with pytest.raises(ProviderError):
        await prepared.prepare_lasting(texts)
    with pytest.raises(ProviderError, match="gets no request for a while"):
        await prepared.prepare_lasting(texts)
    model.fails_after = None
    clock.now += PAUSE
    await prepared.prepare_lasting(texts)
    assert model.asked == texts


@pytest.mark.parametrize(
    "made", [np.zeros((2, 3)), np.zeros(3), np.full((3, 3), np.nan), np.full((3, 3), 1e30)], ids=str
)
async def test_an_embedder_that_breaks_its_promise_is_named(made: npt.NDArray[Any]) -> None:
    model = Letters("broken")
    model.embed = lambda texts: made  # type: ignore[method-assign,assignment]
    with pytest.raises(ConfigError, match="broken"):
        await Prepared(model).prepare_lasting(TEXTS)
    with capture_logs() as logs:
        assert not Prepared(model).embed(TEXTS).any(), "a selection goes on, and is told nothing"
    assert "broken" in logs[0]["error"]


async def test_vectors_of_another_length_than_before_are_refused() -> None:
    model = RemoteLetters()
    prepared = Prepared(model)
    await prepared.prepare_lasting(TEXTS)
    model.longer = True
    with pytest.raises(
        ProviderError, match=r"of 27 numbers, but the stored ones have 26; set embedding\.dimensions to 27"
    ):
        await prepared.prepare_lasting(["another"])


class Noise:
    """384 numbers of chance for each text, as many as MiniLM gives."""

    name, dimensions, languages = "noise", 384, None

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        made = np.stack([np.random.default_rng(int(text)).normal(size=384) for text in texts])
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


class Damaged(MemoryStore):
    """Gives the same bytes for every key."""

    def __init__(self, value: bytes) -> None:
        super().__init__()
        self._given = value

    async def get_many(self, kind: str, keys: Any) -> dict[str, bytes]:
        return dict.fromkeys(keys, self._given)
