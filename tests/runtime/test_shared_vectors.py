"""Large catalogs whose vectors are in PostgreSQL: made once for all processes, searched there, and missed by no request."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests import databases, postgresql, vectors
from tests.embedders.test_runtime import Changing
from tests.vectors import ASKED, MANY, MOST, WANTED, Words, reports, runtime, sent
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import ToolsSelected
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.runtime import Runtime
from toolcaddie.storage.copying import copy_database
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, say

pytestmark = pytest.mark.anyio

TOOLS = [WANTED, *reports(60)]
_DAY = 86_400.0


@pytest.fixture
def url() -> Iterator[str]:
    with vectors.schema() as url:
        yield url


@pytest.mark.parametrize("count", [60, MANY])
async def test_a_tool_is_found_that_shares_no_word_with_the_request(url: str, count: int) -> None:
    """60: all vectors are fetched once; thousands: those near to each request."""
    made = runtime(url, [WANTED, *reports(count)])
    await made.prepare()
    await made.run(ASKED)
    assert WANTED.name in sent(made)
    assert made.degraded == ()
    await made.close()


async def test_the_same_tools_are_selected_as_in_memory(url: str) -> None:
    tools = [WANTED, *reports(MANY)]
    shared, in_memory = runtime(url, tools), runtime(None, tools)
    for text in (ASKED, "figures 4000 and 571", "the report about area 12", "freeze it"):
        await shared.run(text)
        await in_memory.run(text)
        ours, others = set(sent(shared)), set(sent(in_memory))
        assert len(ours & others) >= 0.9 * len(others)
        assert sent(shared)[:1] == sent(in_memory)[:1]
    await shared.close()


@pytest.mark.parametrize("count", [60, MANY])
async def test_a_tool_that_the_caller_may_not_see_takes_no_place_of_another(url: str, count: int) -> None:
    """The nearest 300 are hidden, so the search must look further than for a caller who sees all."""
    nearest = [Tool(name=f"halt_{n}", description="Freeze a membership.", input_schema={}) for n in range(300)]
    tools = [*nearest, WANTED, *reports(count)]
    made = runtime(url, tools)
    await made.run(RunRequest(messages=_messages(ASKED), disabled_tools=tuple(tool.name for tool in nearest)))
    assert WANTED.name in sent(made)
    assert not [name for name in sent(made) if name.startswith("halt_")]
    await made.close()


async def test_what_is_fetched_for_a_request_takes_little_memory(url: str) -> None:
    made = runtime(url, [WANTED, *reports(MANY)])
    await made.prepare()
    await made.run(ASKED)
    tracemalloc.start()
    try:
        for number in range(20):
            await made.run(f"figures {number} of area {number}")
        assert tracemalloc.get_traced_memory()[0] < 20 * 250_000
    finally:
        tracemalloc.stop()
    await made.close()


async def test_processes_that_start_together_embed_each_text_once(url: str) -> None:
    embedders = [Words() for _ in range(3)]
    replicas = [runtime(url, [WANTED, *reports(400)], embedder) for embedder in embedders]
    await asyncio.gather(*(replica.prepare() for replica in replicas))
    described = [text for embedder in embedders for text in embedder.asked if ":" in text]
    assert len(described) == len(set(described)) == 401
    assert databases.rows(url, "SELECT count(*), count(DISTINCT digest) FROM tool_vectors") == [(401, 401)]
    for replica in replicas:
        await replica.run(ASKED)
        assert WANTED.name in sent(replica)
        await replica.close()


async def test_a_process_that_starts_later_embeds_only_tools_that_are_new(url: str) -> None:
    await _prepared(url, TOOLS)
    embedder = Words()
    await _prepared(url, [*TOOLS, *reports(1, first=60)], embedder)
    assert [text for text in embedder.asked if ":" in text] == ["report 60: Figures 60 and 8 of area 1."]


async def test_the_work_of_a_process_that_is_gone_is_done_by_another(url: str) -> None:
    hanging = Hanging()
    first, second = runtime(url, TOOLS, hanging), runtime(url, TOOLS)
    gone = asyncio.create_task(first.prepare())
    await hanging.is_asked.wait()
    preparing = asyncio.create_task(second.prepare())
    # The server ends the connections of the first one, as it does when its machine is gone.
    databases.change(url, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    async with asyncio.timeout(30):
        await preparing
    await second.run(ASKED)
    assert WANTED.name in sent(second)
    gone.cancel()
    await asyncio.wait({gone})
    await first.close()
    await second.close()


async def test_vectors_of_another_embedder_are_never_compared(url: str) -> None:
    await _prepared(url, TOOLS, Words("first"))
    embedder = Words("second")
    await _prepared(url, TOOLS, embedder)
    assert len([text for text in embedder.asked if ":" in text]) == len(TOOLS)
    assert databases.rows(url, "SELECT count(*), count(DISTINCT space) FROM tool_vectors") == [(2 * len(TOOLS), 2)]


async def test_the_vector_of_a_tool_that_vanished_is_removed_after_a_month(url: str) -> None:
    now = 100 * _DAY
    await _prepared(url, [*TOOLS, *reports(5, first=100)], clock=lambda: now)
    now += 29 * _DAY
    await _prepared(url, TOOLS, clock=lambda: now)
    assert databases.rows(url, "SELECT count(*) FROM tool_vectors") == [(len(TOOLS) + 5,)]
    now += 2 * _DAY
    await _prepared(url, TOOLS, clock=lambda: now)
    assert databases.rows(url, "SELECT count(*) FROM tool_vectors") == [(len(TOOLS),)]


async def test_vectors_that_vanish_are_made_again(url: str) -> None:
    made = runtime(url, TOOLS)
    await made.prepare()
    databases.change(url, "DELETE FROM tool_vectors")
    for _ in range(2):  # the first one finds that they are gone
        await made.run(ASKED)
    assert databases.rows(url, "SELECT count(*) FROM tool_vectors") == [(len(TOOLS),)]
    assert WANTED.name in sent(made)
    await made.close()


async def test_the_tools_of_a_client_are_found_and_not_written_down(url: str) -> None:
    made = runtime(url, TOOLS)
    await made.prepare()
    own = Tool(name="print_it", description="Secret bill.", input_schema={}, source=CLIENT_SOURCE)
    for _ in range(2):
        await made.run(RunRequest(messages=_messages("the invoice"), client_tools=(own,)))
        assert own.name in sent(made)
    assert databases.rows(url, "SELECT count(*) FROM tool_vectors") == [(len(TOOLS),)]
    await made.close()


async def test_a_source_that_changes_is_followed_at_once(url: str) -> None:
    source = Changing("work", TOOLS)
    made = Runtime(
        provider=ScriptedProvider([say("done")] * 9),
        sources=[source],
        embedder=Words(),
        vector_index=vectors.PostgresVectors(url),
        most_in_memory=MOST,
        patience=60.0,
    )
    await made.run("the invoice")
    assert "print_it" not in sent(made)
    source.put(*TOOLS[1:], Tool(name="print_it", description="Bill.", input_schema={}))
    await made.run("the invoice")
    assert "print_it" in sent(made)
    await made.run(ASKED)
    assert WANTED.name not in sent(made)
    await made.close()


async def test_without_the_database_words_find_the_tools_and_the_trail_says_so_but_not_where_it_is() -> None:
    """Tenants read the trail of their requests, and addresses and users are no business of theirs."""
    events: list[Any] = []
    with postgresql.server() as own:
        made = runtime(own, [WANTED, *reports(MANY)], sinks=[Listening(events)])
        await made.prepare()
        await made.run("figures 7 and 1")
    for text in ("report 8", "report 9"):  # the server is gone
        result = await made.run(text)
        assert result.status == "completed"
        assert f"report_{text[-1]}" in sent(made)
    (problem,) = made.degraded
    assert "the database of vectors failed (" in problem
    await made.run(RunRequest(messages=_messages("report 10"), use_catalog=False, client_tools=tuple(reports(5))))
    sentence = "the database of vectors failed; words and the table of word vectors find the tools"
    assert [event.selection.degraded for event in events if isinstance(event, ToolsSelected)] == [
        (),
        (sentence,),
        (sentence,),
        (),  # few tools, whose vectors are in memory
    ]
    await made.close()


async def test_without_the_extension_vectors_are_in_memory_and_that_is_said() -> None:
    with vectors.without_extension() as url, capture_logs() as lines:
        made = runtime(url, TOOLS)
        await made.run(ASKED)
        assert WANTED.name in sent(made)
        (problem,) = made.degraded
        assert "CREATE EXTENSION vector" in problem
        assert "embedding.most_in_memory" in problem
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["vectors_not_shared"]
        with pytest.raises(ConfigError, match="CREATE EXTENSION vector"):
            await made.check_vectors()
        await made.close()


async def test_a_catalog_that_fits_in_memory_needs_no_database() -> None:
    made = runtime("postgresql://nobody@127.0.0.1:1/nothing", TOOLS[:MOST])
    await made.run(ASKED)
    await made.check_vectors()
    assert made.degraded == ()
    await made.close()


async def test_vectors_that_are_too_long_for_the_database_are_in_memory(url: str) -> None:
    class Long(Words):
        dimensions = 5_000

        def embed(self, texts: Sequence[str]) -> Any:
            short = super().embed(texts)
            return vectors.np.pad(short, ((0, 0), (0, self.dimensions - short.shape[1])))

    made = runtime(url, TOOLS, Long())
    for text in ("the first request", ASKED):
        await made.run(text)
    assert WANTED.name in sent(made)
    assert "5,000 numbers" in made.degraded[0]
    await made.close()


async def test_a_copy_of_the_database_has_no_vectors_and_makes_them_again(url: str) -> None:
    async with Database(url):
        await _prepared(url, TOOLS)
    with vectors.schema() as target:
        await asyncio.to_thread(copy_database, url, target)
        embedder = Words()
        await _prepared(target, TOOLS, embedder)
        assert len([text for text in embedder.asked if ":" in text]) == len(TOOLS)


class Hanging:
    """`Words` behind an address that never answers."""

    name = "words"
    dimensions = 128
    languages = None

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()

    async def fetch(self, texts: Sequence[str]) -> Any:
        self.is_asked.set()
        await asyncio.Event().wait()

    async def close(self) -> None: ...


class Listening:
    """A sink that keeps what it hears."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    async def emit(self, event: Any) -> None:
        self._events.append(event)


def _messages(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


async def _prepared(url: str, tools: Sequence[Tool], embedder: Any = None, **options: Any) -> None:
    made = runtime(url, tools, embedder, **options)
    await made.prepare()
    await made.close()
