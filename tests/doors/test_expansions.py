"""Number of times that a conversation needed more tools, as an operator sees it: in the metrics and in `eval usage`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.databases import database_url, new_url
from tests.doors.commandline import CommandLine
from tests.doors.serving import gateway
from tests.engine.test_expansion import source
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.storage import EventRecord
from toolcaddie.evaluation.recorded import read_log
from toolcaddie.evaluation.usage import usage_of
from toolcaddie.storage.database import Database
from toolcaddie.telemetry import PrometheusSink
from toolcaddie.testing import ScriptedProvider, call, say

MORE = call(REQUEST_MORE_TOOLS, {"categories": ["github"], "reason": "the issue lives there"})
NOTHING = call(REQUEST_MORE_TOOLS, {"categories": ["nowhere"], "reason": "a guess"})
OTHER = call(REQUEST_MORE_TOOLS, {"categories": ["web"], "reason": "the page lives there"})


@pytest.mark.proves("R000-47")
def test_expansions_are_counted_per_conversation_in_the_metrics_and_in_eval_usage(toolcaddie: CommandLine) -> None:
    """One conversation adds tools in two of its turns, a second one asks in vain, a third one needs nothing more."""
    registry = CollectorRegistry()
    asyncio.run(_three_conversations(Path.cwd(), registry))

    def at_least(number: str) -> float | None:
        return registry.get_sample_value("toolcaddie_conversations_total", {"expansions_at_least": number})

    assert (at_least("0"), at_least("1"), at_least("2"), at_least("3")) == (3, 1, 1, None)
    address = database_url(Path.cwd() / "gateway.sqlite")
    usage = toolcaddie.json("eval", "usage", "--database-url", address)
    assert usage["runs"] == 4
    assert usage["expansions"] == {"conversations": 3, "mean": 2 / 3, "most": 2, "several": 1 / 3}
    shown = toolcaddie.ok("eval", "usage", "--database-url", address)
    assert "3 conversations: 0.67 expansions each (searches that added tools), most 2; 33% with more than one" in shown


async def _three_conversations(folder: Path, registry: CollectorRegistry) -> None:
    replies = [MORE, say("closed"), OTHER, say("published"), NOTHING, say("sorry"), say("hello")]
    sink = PrometheusSink(registry)
    sources = [source(notes=10, github=7, web=7)]
    async with gateway(folder, ScriptedProvider(replies), sources=sources, preset="budget", sinks=[sink]) as door:
        first = [{"role": "user", "content": "take notes and close issue 7"}]
        answer = await door.client.chat.completions.create(model="m", messages=first)
        second = [*first, answer.choices[0].message.model_dump(exclude_none=True)]
        second.append({"role": "user", "content": "publish the notes"})
        await door.client.chat.completions.create(model="m", messages=second)
        for text in ("notes, please", "no notes today"):
            await door.client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


@pytest.mark.anyio
async def test_runs_of_older_versions_are_joined_by_their_messages() -> None:
    rows = [
        ("1", "run_started", {"message": "close issue 7"}),
        ("1", "tools_selected", {"tools": [{"name": "a"}]}),
        ("1", "meta_called", {"name": REQUEST_MORE_TOOLS, "added": ["b"]}),
        ("2", "run_started", {"message": "publish", "history": [{"role": "user", "text": "close issue 7"}]}),
        ("2", "tools_selected", {"tools": [{"name": "a"}]}),
        ("2", "meta_called", {"name": REQUEST_MORE_TOOLS, "added": ["c"]}),
    ]
    async with Database(new_url()) as database:
        for seq, (run_id, kind, data) in enumerate(rows, start=1):
            database.events.append(EventRecord(run_id=run_id, seq=seq, at=float(seq), kind=kind, data=data))
        expansions = usage_of((await read_log(database.events)).runs).expansions
    assert (expansions.conversations, expansions.most) == (1, 2)
