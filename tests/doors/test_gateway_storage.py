"""The gateway while its database is locked, deleted or broken: nothing runs unrecorded, and nothing runs twice."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.databases import ON_POSTGRESQL, change, database_url, locked, rows, sqlite_only

sys.path.insert(0, str(Path(__file__).parent))

from serving import Gateway, gateway

from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedUpstream, call, calls, say

pytestmark = pytest.mark.anyio

FILE = "gateway.sqlite"
BUSY = 0.05
ASKED: list[Any] = [{"role": "user", "content": "reserve figs and send the parcel"}]


def url_in(folder: Path) -> str:
    """The URL of the gateway's database."""
    return database_url(folder / FILE)


class Shop:
    """Two tools that act. The first one runs `then` when it has acted."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.done: list[str] = []

        @tool
        def reserve_stock(item: str) -> str:
            """Reserve some stock of one item."""
            self.done.append(f"reserved {item}")
            then()
            return f"reserved {item}"

        @tool
        def send_parcel(item: str) -> str:
            """Send a parcel with one item."""
            self.done.append(f"sent {item}")
            return f"sent {item}"

        self.source = FunctionSource("shop", [reserve_stock, send_parcel])


RESERVE, SEND = ("reserve_stock", {"item": "figs"}), ("send_parcel", {"item": "figs"})


async def ask(client: openai.AsyncOpenAI, *, stream: bool = False) -> str:
    if not stream:
        answer = await client.chat.completions.create(model="gpt-test", messages=ASKED)
        return answer.choices[0].message.content or ""
    chunks = await client.chat.completions.create(model="gpt-test", messages=ASKED, stream=True)
    return "".join([piece.delta.content or "" async for chunk in chunks for piece in chunk.choices])


async def ready(served: Gateway) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{served.base_url}/readyz") as answer:
        return answer.status, await answer.text()


def recorded(folder: Path, kind: str) -> list[str]:
    """The names of the calls in the rows of one kind, as another process finds them."""
    found = rows(url_in(folder), f"select data from events where kind = '{kind}' order by id")
    return [json.loads(data)["name"] for (data,) in found]


# --- a run that acted is not sent again -------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("together", [False, True], ids=["in two answers", "in one answer"])
async def test_a_run_whose_second_intent_cannot_be_written_is_not_sent_again_by_the_official_client(
    tmp_path: Path, together: bool, stream: bool
) -> None:
    holder = contextlib.ExitStack()
    shop = Shop(then=lambda: holder.enter_context(locked(url_in(tmp_path))))
    script = [calls(RESERVE, SEND)] if together else [call(*RESERVE), call(*SEND)]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], busy=BUSY) as served,
    ):
        with holder, pytest.raises(openai.InternalServerError) as raised:
            await ask(served.client.with_options(max_retries=3), stream=stream)
    assert (raised.value.status_code, raised.value.response.headers["x-should-retry"]) == (503, "false")
    assert shop.done == ["reserved figs"]


async def test_a_stream_that_breaks_off_after_a_tool_ran_says_in_its_error_that_it_must_not_be_sent_again(
    tmp_path: Path,
) -> None:
    holder = contextlib.ExitStack()
    shop = Shop(then=lambda: holder.enter_context(locked(url_in(tmp_path))))
    script = [call(*RESERVE, text="One moment."), call(*SEND)]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], busy=BUSY) as served,
    ):
        with holder, pytest.raises(openai.APIError) as raised:
            await ask(served.client.with_options(max_retries=3), stream=True)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["should_retry"] is False
    assert shop.done == ["reserved figs"]


class FailsAtTheSecond:
    """A policy of a stranger, with a bug."""

    version = "1"
    asked = 0

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        self.asked += 1
        if self.asked > 1:
            raise KeyError("a bug")
        return Decision(verdict="allow")


async def test_an_error_nobody_foresaw_after_a_tool_ran_is_a_500_that_is_not_sent_again(tmp_path: Path) -> None:
    shop = Shop()
    async with (
        ScriptedUpstream([call(*RESERVE), call(*SEND)]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], policy=FailsAtTheSecond()) as served,
    ):
        with pytest.raises(openai.InternalServerError) as raised:
            await ask(served.client.with_options(max_retries=3))
    assert (raised.value.status_code, raised.value.response.headers["x-should-retry"]) == (500, "false")
    assert shop.done == ["reserved figs"]


async def test_a_run_that_failed_before_anything_acted_may_be_sent_again(tmp_path: Path) -> None:
    shop = Shop()
    async with (
        ScriptedUpstream([call(*RESERVE), call(*RESERVE), say("Done.")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], busy=BUSY) as served,
    ):
        await served.database.leases.own()  # taken by the first run
        with locked(url_in(tmp_path)), pytest.raises(openai.InternalServerError) as raised:
            await ask(served.client)
        assert raised.value.status_code == 503
        assert "x-should-retry" not in raised.value.response.headers
        await served.database.events.flush()
        assert await ask(served.client) == "Done."
    assert shop.done == ["reserved figs"]


# --- a locked database ------------------------------------------------------------------------------------------------


async def test_a_server_whose_database_is_locked_is_not_ready_and_is_again_when_the_lock_is_gone(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream([]) as upstream, gateway(tmp_path, upstream.base_url, busy=BUSY) as served:
        assert (await ready(served))[0] == 200
        with locked(url_in(tmp_path)):
            status, said = await ready(served)
            assert status == 503
            assert ("lock timeout" if ON_POSTGRESQL else "locked") in said
            assert "\\n" not in said
        assert (await ready(served))[0] == 200


async def test_a_server_whose_trail_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    shop = Shop()
    async with (
        ScriptedUpstream([call(*RESERVE)]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], busy=BUSY) as served,
    ):
        change(url_in(tmp_path), "alter table events rename to away")
        with pytest.raises(openai.InternalServerError):
            await ask(served.client)
        assert (await ready(served))[0] == 503
        change(url_in(tmp_path), "alter table away rename to events")
        assert (await ready(served))[0] == 200
    assert shop.done == []


async def test_a_refused_call_is_not_written_as_intended_when_the_database_is_free_again(tmp_path: Path) -> None:
    shop = Shop()
    async with (
        ScriptedUpstream([call(*RESERVE)]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], busy=BUSY) as served,
    ):
        await served.database.leases.own()  # taken by the first run
        with locked(url_in(tmp_path)), pytest.raises(openai.InternalServerError, match="lock"):
            await ask(served.client)
        await served.database.events.flush()
    assert shop.done == []
    assert recorded(tmp_path, "call_decided") == ["reserve_stock"]
    assert recorded(tmp_path, "call_intended") == []


# --- a database that is gone ------------------------------------------------------------------------------------------


@sqlite_only("a file that goes away under the process")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
async def test_nothing_runs_when_a_file_of_the_database_was_deleted_under_the_server(
    tmp_path: Path, suffix: str
) -> None:
    shop = Shop()
    script = lambda body: say("Done.") if body["messages"][-1]["role"] == "tool" else call(*RESERVE)  # noqa: E731
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source]) as served,
    ):
        assert await ask(served.client) == "Done."
        path = tmp_path / f"{FILE}{suffix}"
        path.rename(tmp_path / "away")
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="is gone") as raised:
                await ask(served.client, stream=stream)
            assert raised.value.status_code == 503
        status, said = await ready(served)
        assert (status, shop.done) == (503, ["reserved figs"])
        assert "is gone" in said
        assert not path.exists()

        (tmp_path / "away").rename(path)
        assert (await ready(served))[0] == 200
        assert await ask(served.client) == "Done."
    assert len(recorded(tmp_path, "call_intended")) == 2


@sqlite_only("a file that goes away under the process")
async def test_nothing_runs_when_another_file_was_put_in_the_place_of_the_database(tmp_path: Path) -> None:
    shop = Shop()
    async with (
        ScriptedUpstream(lambda body: call(*RESERVE)) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source]) as served,
    ):
        (tmp_path / FILE).rename(tmp_path / "away")
        (tmp_path / FILE).touch()
        with pytest.raises(openai.InternalServerError, match="was replaced"):
            await ask(served.client)
        assert (await ready(served))[0] == 503
        (tmp_path / "away").rename(tmp_path / FILE)
    assert shop.done == []


@sqlite_only("a file that goes away under the process")
async def test_a_gateway_that_cannot_read_its_keys_answers_in_openais_shape(tmp_path: Path) -> None:
    async with ScriptedUpstream([]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        (tmp_path / FILE).rename(tmp_path / "away")
        for ask_for in (lambda: ask(served.client), served.client.models.list):
            with pytest.raises(openai.InternalServerError, match="is gone") as raised:
                await ask_for()
            assert raised.value.status_code == 503
        (tmp_path / "away").rename(tmp_path / FILE)
