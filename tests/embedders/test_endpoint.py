"""Vectors over real sockets: from a server that behaves, and from every broken one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from toolcaddie.core.errors import (
    ConfigError,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.embedders.endpoint import Endpoint, endpoint

pytestmark = pytest.mark.anyio

KEY = "sk-secret-0123456789"


def vector_of(text: str) -> list[float]:
    """A direction of its own for each length of text."""
    return [float(len(text)), 1.0, 0.0]


def answer(texts: list[str]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(texts)]}


def served(httpserver: HTTPServer, reply: Callable[[list[str]], Any] = answer) -> None:
    """`reply` makes the answer's body of the texts; bytes go out as they are."""

    def handle(request: Request) -> Response:
        body = reply(json.loads(request.data)["input"])
        return Response(body if isinstance(body, bytes) else json.dumps(body), content_type="application/json")

    httpserver.expect_request("/v1/embeddings", method="POST").respond_with_handler(handle)


@asynccontextmanager
async def asking(httpserver: HTTPServer, **options: Any) -> AsyncIterator[Endpoint]:
    embedder = Endpoint(httpserver.url_for("/v1"), "embed-test", KEY, **{"longest_wait": 0.0, **options})
    try:
        yield embedder
    finally:
        await embedder.close()


def unit(numbers: list[float]) -> np.ndarray:
    return np.array(numbers) / np.linalg.norm(numbers)


async def test_each_text_gets_its_vector_brought_to_length_1(httpserver: HTTPServer) -> None:
    served(httpserver)
    async with asking(httpserver) as embedder:
        found = await embedder.fetch(["one", "three"])
    assert found == pytest.approx(np.stack([unit([3.0, 1.0, 0.0]), unit([5.0, 1.0, 0.0])]))
    assert (found.dtype, embedder.dimensions) == (np.float32, 3)
    [(request, _)] = httpserver.log
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(request.data)["model"] == "embed-test"


async def test_vectors_in_another_order_go_where_their_index_says(httpserver: HTTPServer) -> None:
    served(httpserver, lambda texts: {"data": answer(texts)["data"][::-1]})
    async with asking(httpserver) as embedder:
        found = await embedder.fetch(["one", "three", "seventeen"])
    assert found == pytest.approx(np.stack([unit(vector_of(text)) for text in ("one", "three", "seventeen")]))


async def test_many_texts_are_asked_for_in_several_requests_and_come_back_in_order(httpserver: HTTPServer) -> None:
    served(httpserver)
    texts = ["x" * (1 + number % 50) for number in range(300)]
    async with asking(httpserver) as embedder:
        found = await embedder.fetch(texts)
    assert len(httpserver.log) > 1
    assert found == pytest.approx(np.stack([unit(vector_of(text)) for text in texts]))


async def test_a_text_of_nothing_is_not_sent_and_has_zeros(httpserver: HTTPServer) -> None:
    served(httpserver)
    async with asking(httpserver) as embedder:
        found = await embedder.fetch(["", "one", "  \n"])
    assert json.loads(httpserver.log[0][0].data)["input"] == ["one"]
    assert not found[[0, 2]].any()
    assert found[1].any()


async def test_hostile_text_is_sent_cut_and_as_text(httpserver: HTTPServer) -> None:
    served(httpserver)
    async with asking(httpserver) as embedder:
        assert (await embedder.fetch(["half \ud83d", "x" * 1_000_000])).shape == (2, 3)
    assert len(httpserver.log[0][0].data) < 20_000


async def test_the_size_asked_for_is_sent_and_held_to(httpserver: HTTPServer) -> None:
    served(httpserver)
    async with asking(httpserver, dimensions=2) as embedder:
        with pytest.raises(ProviderProtocolError, match="3 numbers; 2 were expected"):
            await embedder.fetch(["one"])
    assert json.loads(httpserver.log[0][0].data)["dimensions"] == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"data": [{"index": 0, "embedding": [1.0]}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 2}, "2 vectors for 2 texts"),
        ({"data": [{"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}]}, "indexes are not 0 to 1"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "1 and 2 numbers"),
        ({"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}, "0 numbers"),
        (b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]}]}', "not a list of vectors"),
        (b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}', "numbers|not a list"),
        (b'{"data": [{"index": 0, "embedding": [null]}, {"index": 1, "embedding": [1]}]}', "not a list of vectors"),
        (b'{"data": [{"index": 0, "embedding": "AAAA"}]}', "not a list of vectors"),
        (b"<html>", "not a list of vectors"),
        (b'{"data": [', "not a list of vectors"),
    ],
)
async def test_an_answer_that_is_none_is_refused_and_says_why(httpserver: HTTPServer, body: Any, said: str) -> None:
    served(httpserver, lambda _: body)
    async with asking(httpserver) as embedder:
        with pytest.raises(ProviderProtocolError, match=said):
            await embedder.fetch(["one", "two"])
    assert len(httpserver.log) == 1


async def test_huge_and_tiny_numbers_are_a_direction_like_any_other(httpserver: HTTPServer) -> None:
    served(httpserver, lambda _: {"data": [{"index": 0, "embedding": [3e300, 4e300]}]})
    async with asking(httpserver) as embedder:
        assert (await embedder.fetch(["one"]))[0] == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_is_busy_is_asked_again(httpserver: HTTPServer, status: int) -> None:
    httpserver.expect_ordered_request("/v1/embeddings").respond_with_data("busy", status, {"Retry-After": "0"})
    httpserver.expect_ordered_request("/v1/embeddings").respond_with_json(answer(["one"]))
    async with asking(httpserver) as embedder:
        assert (await embedder.fetch(["one"])).any()


@pytest.mark.parametrize(
    ("status", "kind", "asked"),
    [
        (429, ProviderRateLimitError, 3),
        (502, ProviderUnavailableError, 3),
        (401, ProviderAuthError, 1),
        (404, ProviderRejectedError, 1),
    ],
)
async def test_what_does_not_pass_is_raised_with_the_address_and_never_the_key(
    httpserver: HTTPServer, status: int, kind: type[ProviderError], asked: int
) -> None:
    httpserver.expect_request("/v1/embeddings").respond_with_data(f"refused: {KEY} is wrong", status)
    async with asking(httpserver) as embedder:
        with pytest.raises(kind) as raised:
            await embedder.fetch(["one"])
    assert raised.value.status == status
    assert f"{httpserver.host}:{httpserver.port}/v1/embeddings" in str(raised.value)
    assert "refused: *** is wrong" in str(raised.value)
    assert KEY not in repr(raised.value) + repr(embedder)
    assert len(httpserver.log) == asked


async def test_retry_after_is_waited_for_no_longer_than_is_bearable(httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request("/v1/embeddings").respond_with_data("", 429, {"Retry-After": "86400"})
    httpserver.expect_ordered_request("/v1/embeddings").respond_with_json(answer(["one"]))
    async with asking(httpserver, longest_wait=0.01) as embedder:
        assert (await embedder.fetch(["one"])).any()


async def test_a_redirect_to_another_host_is_not_followed_with_the_key(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/v1/embeddings").respond_with_data("", 307, {"Location": "http://elsewhere.test/v1"})
    async with asking(httpserver) as embedder:
        with pytest.raises(ProviderRejectedError, match="redirects to another host"):
            await embedder.fetch(["one"])


async def test_nobody_listening_is_said_with_the_address() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        embedder = Endpoint(f"http://127.0.0.1:{port}/v1", "embed-test", KEY, longest_wait=0.0)
        with pytest.raises(ProviderUnavailableError, match=f"127.0.0.1:{port}/v1/embeddings cannot be reached"):
            await embedder.fetch(["one"])
        await embedder.close()


async def test_a_server_that_does_not_answer_is_given_up(httpserver: HTTPServer) -> None:
    done = threading.Event()

    def never(_: Request) -> Response:
        done.wait(10)
        return Response("")

    httpserver.expect_request("/v1/embeddings").respond_with_handler(never)
    try:
        async with asking(httpserver, seconds=0.05) as embedder:
            with pytest.raises(ProviderUnavailableError, match=r"did not answer within 0.05 s"):
                await embedder.fetch(["one"])
    finally:
        done.set()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "http://localhost:1/v1"}, "embedding.model"),
        ({"model": "embed-test"}, "embedding.url"),
        ({"url": "ftp://localhost", "model": "m"}, "must begin with http"),
        ({"url": "http://me:secret@localhost/v1", "model": "m"}, "holds credentials"),
        ({"url": "http://localhost/v1", "model": "m", "api_key": "sk-\nx"}, "copy the key again"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_start(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        endpoint(**settings)
    assert "secret" not in str(raised.value)


def test_models_servers_and_sizes_have_names_of_their_own() -> None:
    made = [
        Endpoint("http://here/v1", "a"),
        Endpoint("http://here/v1", "b"),
        Endpoint("http://there/v1", "a"),
        Endpoint("http://here/v1", "a", dimensions=256),
        Endpoint("http://here/other/v1", "a"),
    ]
    assert len({embedder.name for embedder in made}) == 5
