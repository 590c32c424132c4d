"""Tools that bots write, from the first draft to the last: nothing runs that a person has not approved to the byte."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.databases import database_url
from tests.tools.authored.service import ANN, BEN, COUNT, TEXT, a_tool, approved, service
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.sandbox.plain import Plain
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.authored.values import Author, AuthoredLimits

pytestmark = pytest.mark.anyio


async def test_a_new_tool_waits_and_tells_who_asked_from_which_run_after_which_untrusted_results(
    tmp_path: Path,
) -> None:
    authorship = service(tmp_path)
    written = await authorship.create(a_tool(), ANN)
    (listed,) = await authorship.list("default")
    assert listed == written
    assert (listed.status, listed.author) == ("pending", ANN)
    assert listed.author is not None
    assert listed.author.taint == ("web_fetch",)


async def test_a_source_whose_lines_readers_would_count_differently_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="carriage return"):
        await service(tmp_path).create(a_tool(source="def run(text):\r    return 1\n"), ANN)


@pytest.mark.proves("R002-85")
async def test_each_tool_has_a_folder_with_meta_and_source(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    python = await authorship.create(a_tool(), ANN)
    command = await authorship.create(a_tool("count_lines", "wc -l {{text}}", of="command"), ANN)
    meta = json.loads((tmp_path / python.id / "meta.json").read_text())
    assert meta["name"] == "count_words"
    assert {"id", "description", "type", "scope", "parameters", "created_by", "created_at"} < set(meta)
    assert (tmp_path / python.id / "tool.py").read_text() == COUNT
    assert json.loads((tmp_path / command.id / "tool.json").read_text()) == ["wc", "-l", "{{text}}"]
    assert json.loads((tmp_path / python.id / "state.json").read_text())["status"] == "pending"


async def test_a_reviewer_sees_source_schema_findings_the_asker_and_the_difference(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    (tmp_path / tool.id / "tool.py").write_text("def run(text):\n    open(text)\n    return 1\n")
    review = await authorship.show("default", "count_words")
    assert review.tool.status == "pending"
    assert review.tool.definition.parameters == TEXT
    assert review.tool.author == ANN
    assert [finding.line for finding in review.findings] == [2]
    assert "-    return len(text.split())\n" in review.diff
    assert "+    open(text)\n" in review.diff


async def test_only_the_state_that_the_reviewer_read_is_approved(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await authorship.create(a_tool(), ANN)
    (tmp_path / tool.id / "tool.py").write_text("def run(text):\n    return 'other'\n")
    with pytest.raises(RequestError, match="not what you read") as error:
        await authorship.approve("default", tool.id, digest=tool.digest)
    assert error.value.code == "changed"
    assert (await authorship.show("default", tool.id)).tool.status == "pending"


@pytest.mark.proves("R002-88", "R002-89")
async def test_a_person_approves_rejects_with_a_note_revokes_and_approves_again(tmp_path: Path) -> None:
    store = MemoryStore()
    authorship = service(tmp_path, store)
    tool = await authorship.create(a_tool(), ANN)
    rejected = await authorship.reject("default", tool.id, by=BEN, note="count letters instead")
    assert (rejected.status, rejected.note, rejected.decided_by) == ("rejected", "count letters instead", BEN)
    again = await authorship.approve("default", tool.id, digest=tool.digest, by=BEN, note="after all")
    assert (again.status, [version.number for version in again.versions]) == ("approved", [1])
    with pytest.raises(RequestError, match="revoke"):
        await authorship.reject("default", tool.id)
    revoked = await authorship.revoke("default", tool.id, by=BEN, note="wrong sums")
    assert revoked.status == "revoked"
    with pytest.raises(RequestError, match="not approved"):
        await authorship.revoke("default", tool.id)
    assert [each.status for each in await service(tmp_path, store).list("default")] == ["revoked"]


FILES = ("meta.json", "tool.py")


@pytest.mark.parametrize("name", FILES)
async def test_any_changed_byte_of_a_file_asks_again(tmp_path: Path, name: str) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    file = tmp_path / tool.id / name
    content = file.read_bytes()
    for changed in (content + b" ", content.replace(b"text", b"test"), content.replace(b"\n", b"\n\n", 1)):
        file.write_bytes(changed)
        assert (await authorship.show("default", tool.id)).tool.status == "pending"
    file.write_bytes(content)
    assert (await authorship.show("default", tool.id)).tool.status == "approved"


@pytest.mark.parametrize(
    "changes",
    [{"description": "Other."}, {"scope": "other"}, {"parameters": {"type": "object"}}, {"name": "other_name"}],
)
async def test_name_description_schema_and_scope_are_part_of_what_was_approved(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    meta = json.loads((tmp_path / tool.id / "meta.json").read_text())
    (tmp_path / tool.id / "meta.json").write_text(json.dumps({**meta, **changes}))
    now = (await authorship.show("default", tool.id)).tool
    assert (now.status, now.digest == tool.digest) == ("pending", False)


@pytest.mark.proves("A-17")
async def test_another_scope_needs_another_approval(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship, a_tool(scope="helper"))
    shared = await authorship.change_scope("default", tool.id, "all", by=BEN)
    assert (shared.status, shared.definition.scope) == ("pending", "all")
    assert "-scope: helper\n+scope: all\n" in await authorship.diff("default", tool.id)
    with pytest.raises(RequestError):
        await authorship.approve("default", tool.id, digest=tool.digest)
    assert (await authorship.approve("default", tool.id, digest=shared.digest)).status == "approved"


async def test_a_renamed_tool_waits_and_its_old_name_is_free(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    renamed = await authorship.rename("default", "count_words", "word_count", by=BEN)
    assert (renamed.id, renamed.status, renamed.definition.name) == (tool.id, "pending", "word_count")
    await authorship.create(a_tool("count_words"), ANN)
    with pytest.raises(RequestError, match="already"):
        await authorship.create(a_tool("word_count"), ANN)


async def test_a_rollback_puts_the_approved_bytes_back_and_approves_them(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    first = await approved(authorship)
    (tmp_path / first.id / "tool.py").write_text("def run(text):\n    return 2\n")
    second = (await authorship.show("default", first.id)).tool
    await authorship.approve("default", first.id, digest=second.digest)
    back = await authorship.rollback("default", first.id, 1, by=BEN)
    assert (back.status, back.digest, back.definition.source) == ("approved", first.digest, COUNT)
    assert (await authorship.show("default", first.id)).tool == back
    assert [version.number for version in back.versions] == [1, 2]
    with pytest.raises(RequestError, match="no version 3; it has 1, 2"):
        await authorship.rollback("default", first.id, 3)


async def test_a_rollback_with_a_digest_puts_back_only_what_its_reader_saw(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    seen = await authorship.version("default", tool.id, 1)
    assert (seen.digest, seen.definition) == (tool.digest, tool.definition)
    with pytest.raises(RequestError, match="is not what you read") as caught:
        await authorship.rollback("default", tool.id, 1, digest="0" * 64)
    assert caught.value.code == "changed"
    assert (await authorship.rollback("default", tool.id, 1, digest=seen.digest)).digest == tool.digest


async def test_a_version_whose_bytes_were_changed_is_not_put_back(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    (tmp_path / tool.id / "versions" / "1" / "tool.py").write_text("def run(text):\n    return 'evil'\n")
    with pytest.raises(RequestError, match="changed"):
        await authorship.rollback("default", tool.id, 1)
    assert (await authorship.show("default", tool.id)).tool.definition.source == COUNT


async def test_a_difference_of_very_many_equal_lines_is_shown_soon(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    source = f"{COUNT}{''.join(f'# {n % 100}' + chr(10) + f'# a{n}' + chr(10) for n in range(3_000))}"
    tool = await authorship.create(a_tool("many_lines", source=source), ANN)
    await authorship.approve("default", tool.id, digest=tool.digest)
    (tmp_path / tool.id / "tool.py").write_text(source.replace("# a", "# b"))
    began = time.process_time()
    diff = await authorship.diff("default", tool.id)
    assert "-# a2999\n" in diff
    assert "+# b2999\n" in diff
    assert time.process_time() - began < 5


async def test_a_version_that_was_changed_to_hide_a_difference_is_not_compared(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    for file in (tmp_path / tool.id / "tool.py", tmp_path / tool.id / "versions" / "1" / "tool.py"):
        file.write_text("def run(text):\n    return 'evil'\n")
    assert "not those that were approved" in await authorship.diff("default", tool.id)


async def test_the_oldest_versions_go_when_there_are_too_many(tmp_path: Path) -> None:
    authorship = service(tmp_path, limits=AuthoredLimits(versions=2))
    tool = await approved(authorship)
    for number in range(3):
        (tmp_path / tool.id / "tool.py").write_text(f"def run(text):\n    return {number}\n")
        now = (await authorship.show("default", tool.id)).tool
        tool = await authorship.approve("default", tool.id, digest=now.digest)
    assert [version.number for version in tool.versions] == [3, 4]
    assert sorted(path.name for path in (tmp_path / tool.id / "versions").iterdir()) == ["3", "4"]


async def test_a_deleted_tool_leaves_nothing_and_gives_its_name_free(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    await authorship.delete("default", "count_words", by=BEN)
    assert not (tmp_path / tool.id).exists()
    assert not await authorship.list("default")
    assert (await authorship.create(a_tool(), ANN)).status == "pending"


@pytest.mark.proves("R002-82")
@pytest.mark.parametrize(
    "name", [*RESERVED_NAMES, "search_tools", "Count", "a__b", "a-b", "1a", "_a", "a_", "", "a" * 65, "ä"]
)
async def test_names_are_in_snake_case_and_none_of_the_reserved_ones(tmp_path: Path, name: str) -> None:
    authorship = service(tmp_path)
    with pytest.raises(RequestError) as error:
        await authorship.create(a_tool(name), ANN)
    assert error.value.param == "name"


@pytest.mark.proves("R002-82")
async def test_a_name_is_taken_once_in_all_tenants_and_by_all_processes(tmp_path: Path) -> None:
    store = MemoryStore()
    others = Author(principal=Principal(tenant="other", bot="helper"))
    outcomes = await asyncio.gather(
        *(service(tmp_path, store).create(a_tool(), author) for author in (ANN, others) * 4), return_exceptions=True
    )
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    assert {outcome.code for outcome in outcomes if isinstance(outcome, RequestError)} == {"taken"}


@pytest.mark.proves("R002-81")
async def test_a_bot_has_at_most_so_many_tools_whatever_their_status(tmp_path: Path) -> None:
    authorship = service(tmp_path, limits=AuthoredLimits(tools_per_bot=4))
    tools = [await authorship.create(a_tool(f"tool_{number}"), ANN) for number in range(4)]
    await authorship.approve("default", tools[0].id, digest=tools[0].digest)
    await authorship.revoke("default", tools[0].id)
    await authorship.reject("default", tools[1].id)
    with pytest.raises(RequestError, match="4 tools already") as error:
        await authorship.create(a_tool("one_more"), ANN)
    assert error.value.code == "limit"
    await authorship.create(a_tool("one_more"), replace(ANN, principal=Principal(bot="another")))
    await authorship.delete("default", tools[0].id)
    await authorship.create(a_tool("yet_another"), ANN)


async def test_tools_written_at_the_same_moment_never_exceed_the_limit(tmp_path: Path) -> None:
    store, limits = MemoryStore(), AuthoredLimits(tools_per_bot=3)
    await asyncio.gather(
        *(service(tmp_path, store, limits=limits).create(a_tool(f"tool_{number}"), ANN) for number in range(12)),
        return_exceptions=True,
    )
    assert len(await service(tmp_path, store).list("default")) <= 3


@pytest.mark.parametrize(
    ("definition", "param"),
    [
        (a_tool(source="x = 1\n" + "#" * 64_000), "source"),
        (a_tool(description="x" * 2_001), "description"),
        (a_tool(description=" "), "description"),
        (a_tool(parameters={"type": "object", "description": "x" * 16_000}), "parameters"),
        (a_tool(parameters={"type": "string"}), "parameters"),
        (a_tool(parameters={"type": "object", "$ref": "file:///etc/passwd"}), "parameters"),
        (a_tool(source="a\0b"), "source"),
        (a_tool(source="\ud800"), "source"),
        (a_tool(scope=""), "scope"),
        (a_tool(source="echo" + " a" * 100, of="command"), "source"),
    ],
)
async def test_what_is_too_large_or_no_tool_is_refused_by_name(tmp_path: Path, definition: Any, param: str) -> None:
    authorship = service(tmp_path)
    with pytest.raises(RequestError) as error:
        await authorship.create(definition, ANN)
    assert error.value.param == param
    assert not await authorship.list("default")


@pytest.mark.proves("R002-83")
@pytest.mark.parametrize(
    ("source", "of"),
    [
        ("import os\ndef run(): ...", "python"),
        ("def run(): eval('1')", "python"),
        ("def run(:", "python"),
        ("sudo ls", "command"),
    ],
)
async def test_a_source_that_reaches_for_the_machine_is_refused_before_anybody_sees_it(
    tmp_path: Path, source: str, of: Any
) -> None:
    authorship = service(tmp_path)
    with pytest.raises(RequestError, match="never accepted"):
        await authorship.create(a_tool(source=source, of=of), ANN)


async def test_a_folder_that_was_edited_into_a_refused_source_is_not_approved(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await authorship.create(a_tool(), ANN)
    (tmp_path / tool.id / "tool.py").write_text("import os\ndef run(text):\n    return os.listdir('/')\n")
    now = (await authorship.show("default", tool.id)).tool
    with pytest.raises(RequestError, match="never accepted"):
        await authorship.approve("default", tool.id, digest=now.digest)


async def test_hidden_characters_in_what_a_model_reads_are_refused(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    for definition in (
        a_tool(description="Counts.\U000e0041"),
        a_tool(parameters={"type": "object", "title": "a\u200bb"}),
    ):
        with pytest.raises(RequestError, match="nobody sees"):
            await authorship.create(definition, ANN)


async def test_tools_of_another_tenant_cannot_be_seen_or_touched(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    assert not await authorship.list("other")
    for attempt in (
        authorship.show("other", tool.id),
        authorship.diff("other", tool.id),
        authorship.approve("other", tool.id, digest=tool.digest),
        authorship.reject("other", tool.id),
        authorship.revoke("other", tool.id),
        authorship.rollback("other", tool.id, 1),
        authorship.rename("other", tool.id, "mine"),
        authorship.change_scope("other", tool.id, "mine"),
        authorship.delete("other", tool.id),
        authorship.dry_run("other", tool.id, {"text": "a"}),
    ):
        with pytest.raises(RequestError) as error:
            await attempt
        assert error.value.code == "unknown_tool"
    assert (await authorship.show("default", tool.id)).tool == tool


async def test_of_two_people_who_decide_at_the_same_moment_one_is_told(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    outcomes = await asyncio.gather(
        *(authorship.revoke("default", tool.id, note=str(number)) for number in range(5)), return_exceptions=True
    )
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1


async def test_a_waiting_tool_can_be_tried_in_a_sandbox_that_holds_and_in_no_other(tmp_path: Path) -> None:
    store = MemoryStore()
    authorship = service(tmp_path, store)
    tool = await authorship.create(a_tool(), ANN)
    result = await authorship.dry_run("default", tool.id, {"text": "a b c"}, digest=tool.digest)
    assert (result.text, result.is_error) == ("3", False)
    wrong = await authorship.dry_run("default", tool.id, {"txt": "a"})
    assert wrong.text.startswith("The arguments of count_words are wrong: ")
    with pytest.raises(RequestError, match="not what you read"):
        await authorship.dry_run("default", tool.id, {"text": "a"}, digest="0" * 64)
    open_box = service(tmp_path, store, sandbox=Plain())
    with pytest.raises(RequestError, match="contains nothing"):
        await open_box.dry_run("default", tool.id, {"text": "a"})


async def test_decisions_in_a_database_are_those_of_every_process_that_opens_it(tmp_path: Path) -> None:
    url, folder = database_url(tmp_path / "decisions.sqlite"), tmp_path / "tools"
    async with Database(url) as one, Database(url) as other:
        tool = await approved(service(folder, one.store))
        people = service(folder, other.store)
        assert await people.list("default") == [tool]
        outcomes = await asyncio.gather(
            people.revoke("default", tool.id),
            service(folder, one.store).revoke("default", tool.id),
            return_exceptions=True,
        )
        assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    async with Database(url) as again:
        assert [each.status for each in await service(folder, again.store).list("default")] == ["revoked"]
