"""`select`, `preview` and `explain` answer the same inside and outside of an event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.databases import database_url
from tests.embedders.models import Meanings, RemoteMeanings
from tests.embedders.test_runtime import ASKED, WANTED, names, runtime
from toolcaddie.embedders.endpoint import Endpoint
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore


def looked_at(made: Any) -> tuple[Any, ...]:
    selection, delivery = made.preview(ASKED)
    selected = made.select(ASKED)
    scores = [
        [(chosen.tool.name, chosen.score, chosen.reasons) for chosen in one.tools] for one in (selected, selection)
    ]
    explained = made.explain(WANTED, ASKED)
    return scores, delivery.definitions, (explained.stage, explained.score, explained.rank, explained.signals)


@pytest.mark.parametrize("embedder", [Meanings, RemoteMeanings])
def test_the_same_request_finds_the_same_tools_inside_and_outside_of_a_loop(embedder: Any) -> None:
    outside = looked_at(runtime(embedder()))

    async def inside() -> tuple[Any, ...]:
        return looked_at(runtime(embedder()))

    assert asyncio.run(inside()) == outside
    assert outside[0][0][0][0] == WANTED


@pytest.mark.anyio
async def test_an_embedder_that_fails_leaves_the_choice_to_the_words_in_a_loop_as_well() -> None:
    embedder = RemoteMeanings()
    embedder.fails = True
    assert names(runtime(embedder).select(ASKED)) == names(runtime().select(ASKED))
    assert embedder.times_asked == 1


@pytest.mark.anyio
async def test_a_request_under_way_keeps_its_connections_while_another_looks(httpserver: HTTPServer) -> None:
    """A real endpoint, asked from the loop of the run and from that of the look, one after the other and back."""
    httpserver.expect_request("/v1/embeddings").respond_with_handler(_embedded)
    endpoint = Endpoint(httpserver.url_for("/v1"), "meanings")
    made = runtime(endpoint)
    assert (await made.run(ASKED)).status == "completed"
    assert names(made.select(ASKED + "!"))[0] == WANTED
    assert (await made.run(ASKED + "?")).status == "completed"
    assert names(made.select(ASKED))[0] == WANTED
    await made.close()


@pytest.mark.anyio
async def test_vectors_kept_in_a_database_are_read_in_a_loop_without_waiting_for_it(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "vectors.sqlite")) as database:
        first = Meanings()
        assert names(runtime(first, documents=database.store).select(ASKED))[0] == WANTED
        again = Meanings()
        assert names(runtime(again, documents=database.store).select(ASKED))[0] == WANTED
        assert again.asked == [ASKED]


@pytest.mark.anyio
async def test_several_who_look_at_once_from_threads_and_the_loop_all_find_it() -> None:
    made = runtime(Meanings(), documents=MemoryStore())
    jobs = [asyncio.to_thread(made.select, f"{ASKED} {number}") for number in range(4)]
    threads = asyncio.gather(*jobs)
    here = made.select(ASKED)
    assert [names(found)[0] for found in (here, *await threads)] == [WANTED] * 5


def _embedded(request: Request) -> Response:
    texts = msgspec.json.decode(request.data)["input"]
    vectors = np.asarray(Meanings().embed(texts))
    data = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(vectors)]
    return Response(msgspec.json.encode({"data": data}), content_type="application/json")
