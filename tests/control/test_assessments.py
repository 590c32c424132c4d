"""What a source says of a call by its arguments, before the policy decides: its behaviour, a preview, or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.control import Principal
from toolcaddie.core.events import CallDecided, RunEvent
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolAnnotations
from toolcaddie.ports import ToolSource
from toolcaddie.runtime import Runtime
from toolcaddie.sources.arranged import arranged
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.sources.life import OptionalSource
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.testing.part_contracts.subject import context

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", tenant="house")
BOSS = Principal(id="boss", tenant="house")
READS = Assessment(annotations=ToolAnnotations(read_only=True))


class Notes:
    """A file that a tool overwrites."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("old")

    def source(self) -> FunctionSource:
        @tool(destructive=True)
        def overwrite(text: str) -> str:
            """Overwrite the notes."""
            self.path.write_text(text)
            return "done"

        return FunctionSource("notes", [overwrite], assess=self.assess)

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        match arguments["text"]:
            case "same as before":
                return READS
            case "forbidden":
                return Assessment(refusal="the notes never say this")
            case "broken":
                raise OSError("the disk is gone")
            case text:
                return Assessment(preview=f"-{self.path.read_text()}\n+{text}")


def asking(source: ToolSource, text: str, *, name: str = "overwrite", events: list[RunEvent] | None = None) -> Runtime:
    """Returns a runtime whose model overwrites the notes with this text, under the policy that ships."""

    class Sink:
        async def emit(self, event: RunEvent) -> None:
            if events is not None:
                events.append(event)

    provider = ScriptedProvider([call(name, {"text": text}, call_id="c1"), say("finished"), say("finished")])
    return Runtime(provider=provider, sources=[source], sinks=[Sink()])


async def test_a_call_that_only_reads_runs_unasked_although_its_tool_may_destroy(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    async with asking(notes.source(), "same as before") as runtime:
        assert (await runtime.run("go", principal=ANN)).status == "completed"
    assert notes.path.read_text() == "same as before"


async def test_a_question_shows_what_the_call_would_do(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    async with asking(notes.source(), "new") as runtime:
        paused = await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
        assert (paused.status, approval.preview) == ("pending", "-old\n+new")
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
        assert (await runtime.resume(paused.run_id)).text == "finished"
    assert notes.path.read_text() == "new"


async def test_an_approval_does_not_count_once_the_call_would_do_something_else(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    async with asking(notes.source(), "new") as runtime:
        paused = await runtime.run("go", principal=ANN)
        [approval] = await runtime.approvals.list("house", status="open")
        await runtime.approvals.answer("house", approval.id, approved=True, by=BOSS)
        notes.path.write_text("changed meanwhile")
        assert (await runtime.resume(paused.run_id)).status == "pending"
        [second] = await runtime.approvals.list("house", status="open")
    assert second.preview == "-changed meanwhile\n+new"
    assert notes.path.read_text() == "changed meanwhile"


async def test_a_refusal_of_the_source_is_not_put_to_a_person_and_is_on_record(tmp_path: Path) -> None:
    notes, events = Notes(tmp_path / "notes"), list[RunEvent]()
    async with asking(notes.source(), "forbidden", events=events) as runtime:
        result = await runtime.run("go", principal=ANN)
        assert await runtime.approvals.list("house") == []
    assert result.text == "finished"
    [decided] = [event for event in events if isinstance(event, CallDecided)]
    assert (decided.decision.verdict, decided.decision.rule) == ("deny", "source")
    assert result.state.messages[-2].text == "Not allowed: the notes never say this."
    assert notes.path.read_text() == "old"


async def test_a_source_that_fails_to_judge_a_call_refuses_it(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    async with asking(notes.source(), "broken") as runtime:
        result = await runtime.run("go", principal=ANN)
    assert "overwrite cannot judge this call: OSError: the disk is gone" in result.state.messages[-2].text
    assert notes.path.read_text() == "old"


async def test_a_source_is_asked_also_behind_other_names_and_inside_other_sources(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    wrapped = CombinedSource([arranged(notes.source(), prefix="my")], name="outer")
    async with asking(wrapped, "forbidden", name="my__overwrite") as runtime:
        result = await runtime.run("go", principal=ANN)
    assert "the notes never say this" in result.state.messages[-2].text


async def test_a_source_that_need_not_open_is_asked_while_it_is_open(tmp_path: Path) -> None:
    class Opened:
        """The notes as a source that connects to something."""

        name, revision, categories = "notes", 0, staticmethod(tuple)

        def __init__(self, source: FunctionSource) -> None:
            self.tools, self.call_tool, self.assess = source.tools, source.call_tool, source.assess

        async def open(self) -> None: ...
        async def close(self) -> None: ...

    notes = Notes(tmp_path / "notes")
    source = Opened(notes.source())
    optional = OptionalSource(source, lambda status: None)
    [definition] = source.tools()
    assert await optional.assess(definition, {"text": "forbidden"}, context()) == NOTHING
    await optional.open()
    assert (await optional.assess(definition, {"text": "forbidden"}, context())).refusal
    await optional.close()
