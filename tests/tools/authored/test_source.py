"""A bot writes a tool, a person approves it, and the next request has it; what people decide later reaches the catalog too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.tools.authored.service import ANN, BEN, COUNT, TEXT, Contained, a_tool, approved, service
from toolcaddie import Runtime, tool
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.parts import Parts
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox.plain import Plain
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.tools.authored import AuthoredSource, authored, authorship

pytestmark = pytest.mark.anyio
WRITING = {"name": "count_words", "description": "Counts the words.", "source": COUNT, "parameters": TEXT}
PEOPLE = Principal(id="ann", bot="helper")


def parts(store: MemoryStore, sandbox: Sandbox | None = None) -> Parts:
    box = sandbox or Contained()
    return Parts(store=store, sandbox=lambda: box)


def source(folder: Path, store: MemoryStore, sandbox: Sandbox | None = None, **options: Any) -> AuthoredSource:
    made = authored(parts=parts(store, sandbox), store_path=str(folder), **options)
    assert isinstance(made, AuthoredSource)
    return made


def names(runtime: Runtime, **principal: Any) -> list[str]:
    """What a principal may see in a request that begins now."""
    request = RunRequest(messages=[], principal=Principal(**{"bot": "helper", **principal}))
    return [each.name for each in runtime.view(request)]


@pytest.mark.proves("R002-80", "R002-86", "R002-87", "R002-88", "R002-108")
async def test_a_bot_writes_a_tool_a_person_approves_it_and_the_next_request_calls_it_unasked(tmp_path: Path) -> None:
    store = MemoryStore()
    script = [call("create_tool", WRITING), say("it waits"), call("count_words", {"text": "a b c"}), say("three")]
    provider = ScriptedProvider(script)
    async with Runtime(provider=provider, sources=[source(tmp_path, store)]) as runtime:
        first = await runtime.run("write a tool that counts words", principal=PEOPLE)
        assert "waits" in first.messages[1].text
        assert names(runtime) == ["create_tool"]
        people = service(tmp_path, store)  # another process
        (written,) = await people.list("default")
        assert written.author is not None
        assert (written.author.principal, written.author.run_id) == (PEOPLE, first.run_id)
        await people.approve("default", "count_words", digest=written.digest, by=BEN)
        assert names(runtime) == ["create_tool", "count_words"]
        second = await runtime.run("count the words of a b c", principal=PEOPLE)
    assert (second.status, second.text, second.tool_calls) == ("completed", "three", ("count_words",))
    assert [message.text for message in second.messages if message.role == "tool"] == ["3"]


@tool(untrusted=True, read_only=True)
def read_page() -> str:
    """Reads a page."""
    return "words of strangers"


async def test_the_untrusted_results_that_the_model_had_read_are_told_to_the_reviewer(tmp_path: Path) -> None:
    store = MemoryStore()
    provider = ScriptedProvider([call("read_page", {}), call("create_tool", WRITING), say("it waits")])
    async with Runtime(provider=provider, sources=[read_page, source(tmp_path, store)]) as runtime:
        await runtime.run("read the page and do what it says", principal=PEOPLE)
    (written,) = await service(tmp_path, store).list("default")
    assert written.author is not None
    assert written.author.taint == ("read_page",)


async def test_results_of_written_tools_count_as_untrusted(tmp_path: Path) -> None:
    store = MemoryStore()
    await approved(service(tmp_path, store))
    provider = ScriptedProvider([call("count_words", {"text": "a"}), say("one")])
    async with Runtime(provider=provider, sources=[source(tmp_path, store)]) as runtime:
        result = await runtime.run("count", principal=PEOPLE)
    assert result.state.taint == ("count_words",)


async def test_in_a_sandbox_that_contains_nothing_every_call_is_asked_about(tmp_path: Path) -> None:
    store = MemoryStore()
    await approved(service(tmp_path, store))
    provider = ScriptedProvider([call("count_words", {"text": "a"}), say("one")])
    async with Runtime(provider=provider, sources=[source(tmp_path, store, Plain())], policy=CedarPolicy()) as runtime:
        result = await runtime.run("count", principal=PEOPLE)
    assert result.status == "pending"


def context(runtime: Runtime) -> RunContext:
    return RunContext(
        run_id="run_1", principal=PEOPLE, view=runtime.view(RunRequest(messages=[], principal=PEOPLE)), model="scripted"
    )


@pytest.mark.proves("R002-87", "R002-89", "R002-90")
@pytest.mark.parametrize(
    "change", ["revoke", "delete", "rename", "change_scope", "a byte of the source", "a byte of the meta"]
)
async def test_a_tool_that_is_no_longer_approved_is_gone_from_the_next_request_and_its_calls_are_revoked(
    tmp_path: Path, change: str
) -> None:
    store = MemoryStore()
    people = service(tmp_path, store)
    written = await approved(people)
    own = source(tmp_path, store)
    async with Runtime(provider=ScriptedProvider([]), sources=[own]) as runtime:
        before = context(runtime)
        known = before.view.get("count_words")
        assert known is not None
        match change:
            case "revoke":
                await people.revoke("default", written.id)
            case "delete":
                await people.delete("default", written.id)
            case "rename":
                await people.rename("default", written.id, "word_count")
            case "change_scope":
                await people.change_scope("default", written.id, "another")
            case "a byte of the source":
                (tmp_path / written.id / "tool.py").write_text(COUNT + " ")
            case _:
                file = tmp_path / written.id / "meta.json"
                file.write_text(file.read_text() + " ")
        answer = await own.call_tool(known, {"text": "a"}, before)
        assert (answer.is_error, answer.error) == (True, "revoked")
        for _ in range(500 if change.startswith("a byte") else 0):  # edited files are looked at ten times a second
            if names(runtime) == ["create_tool"]:
                break
            await asyncio.sleep(0.01)
        assert names(runtime) == ["create_tool"]


@pytest.mark.proves("R002-90")
async def test_a_renamed_tool_comes_back_under_its_new_name_when_it_is_approved(tmp_path: Path) -> None:
    store = MemoryStore()
    people = service(tmp_path, store)
    written = await approved(people)
    async with Runtime(provider=ScriptedProvider([]), sources=[source(tmp_path, store)]) as runtime:
        renamed = await people.rename("default", written.id, "word_count")
        await people.approve("default", written.id, digest=renamed.digest)
        assert names(runtime) == ["create_tool", "word_count"]


@pytest.mark.proves("R002-89")
async def test_only_approved_tools_are_loaded_at_the_start_and_a_new_approval_replaces_the_loaded_one(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    people = service(tmp_path, store)
    written = await approved(people)
    await people.create(a_tool("waits"), ANN)
    rejected = await people.create(a_tool("rejected"), ANN)
    await people.reject("default", rejected.id)
    own = source(tmp_path, store)
    async with Runtime(provider=ScriptedProvider([]), sources=[own]) as runtime:
        assert names(runtime) == ["create_tool", "count_words"]
        (tmp_path / written.id / "tool.py").write_text("def run(text):\n    return 'new'\n")
        now = (await people.show("default", written.id)).tool
        await people.approve("default", written.id, digest=now.digest)
        known = context(runtime).view.get("count_words")
        assert known is not None
        assert (await own.call_tool(known, {"text": "a"}, context(runtime))).text == "new"


async def test_a_forged_approval_in_the_folder_loads_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    people = service(tmp_path, store)
    waiting = await people.create(a_tool(), ANN)
    state = tmp_path / waiting.id / "state.json"
    state.write_text(state.read_text().replace('"pending"', '"approved"'))
    elsewhere = await approved(service(tmp_path / "elsewhere"), a_tool("other"))
    (tmp_path / "elsewhere" / elsewhere.id).rename(tmp_path / elsewhere.id)
    async with Runtime(provider=ScriptedProvider([]), sources=[source(tmp_path, store)]) as runtime:
        assert names(runtime) == ["create_tool"]


async def test_an_old_approval_that_is_put_back_after_it_was_revoked_runs_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    people = service(tmp_path, store)
    written = await approved(people)
    state = (tmp_path / written.id / "state.json").read_bytes()
    own = source(tmp_path, store)
    async with Runtime(provider=ScriptedProvider([]), sources=[own]) as runtime:
        known = context(runtime).view.get("count_words")
        assert known is not None
        await people.revoke("default", written.id)
        (tmp_path / written.id / "state.json").write_bytes(state)
        assert (await own.call_tool(known, {"text": "a"}, context(runtime))).error == "revoked"


@pytest.mark.proves("R002-94")
async def test_a_bot_sees_tools_for_all_its_own_and_those_that_it_wrote_of_its_tenant(tmp_path: Path) -> None:
    store = MemoryStore()
    people = service(tmp_path, store)
    for scope in ("all", "helper", "nurse"):
        await approved(people, a_tool(f"for_{scope}", scope=scope))
    async with Runtime(provider=ScriptedProvider([]), sources=[source(tmp_path, store, types=())]) as runtime:
        assert names(runtime) == ["for_all", "for_helper", "for_nurse"]
        assert names(runtime, bot="nurse") == ["for_all", "for_nurse"]
        assert names(runtime, bot="clerk") == names(runtime, bot=None) == ["for_all"]
        assert names(runtime, tenant="other") == names(runtime, tenant="other", bot="nurse") == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "read_page"}, "already"),
        ({"name": "exec"}, "reserved"),
        ({"source": "import os\ndef run(): ..."}, "never accepted"),
        ({"type": "command", "source": "sh -c {{text}}"}, "never accepted"),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "nonsense"}}}}, "Schema"),
    ],
)
async def test_what_is_wrong_with_a_draft_is_told_to_the_model_so_that_it_can_mend_it(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    store = MemoryStore()
    provider = ScriptedProvider([call("create_tool", {**WRITING, **changes}), say("I shall change it")])
    async with Runtime(provider=provider, sources=[read_page, source(tmp_path, store)]) as runtime:
        result = await runtime.run("write a tool", principal=PEOPLE)
    assert reason in result.messages[1].text
    assert not await service(tmp_path, store).list("default")


async def test_values_that_the_application_injects_are_not_passed_to_written_tools(tmp_path: Path) -> None:
    store = MemoryStore()
    await approved(service(tmp_path, store), a_tool(source="def run(**given):\n    return sorted(given)\n"))
    provider = ScriptedProvider([call("count_words", {"text": "a"}), say("one")])
    async with Runtime(provider=provider, sources=[source(tmp_path, store)]) as runtime:
        result = await runtime.run("count", principal=PEOPLE, injected={"token": "secret"})
    assert [message.text for message in result.messages if message.role == "tool"] == ['["text"]']


async def test_the_scope_is_that_of_the_bot_itself_unless_it_says_otherwise(tmp_path: Path) -> None:
    store = MemoryStore()
    provider = ScriptedProvider([call("create_tool", WRITING), say("it waits")])
    async with Runtime(provider=provider, sources=[source(tmp_path, store)]) as runtime:
        await runtime.run("write a tool", principal=PEOPLE)
    (written,) = await service(tmp_path, store).list("default")
    assert written.definition.scope == "helper"


def test_without_a_store_or_a_sandbox_the_source_says_at_the_start_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="store"):
        authored(parts=Parts())
    with pytest.raises(ConfigError, match="sandbox"):
        authored(parts=Parts(store=MemoryStore()), store_path=str(tmp_path))


async def test_a_decision_through_the_service_of_the_same_settings_counts(tmp_path: Path) -> None:
    store = MemoryStore()
    people = authorship(parts=parts(store), store_path=str(tmp_path), max_tools_per_bot=1)
    written = await people.create(a_tool(), ANN)
    await people.approve("default", written.id, digest=written.digest)
    async with Runtime(provider=ScriptedProvider([]), sources=[source(tmp_path, store)]) as runtime:
        assert names(runtime) == ["create_tool", "count_words"]
