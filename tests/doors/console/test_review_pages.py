"""The pages of tools that bots wrote: a person reads everything that matters, and decides about exactly what was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.authoring import ANN, BOSS, COUNTS, TEXT, Server, changed_by_hand, reviewing, written
from tests.doors.console.browser import HOME, browser
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.doors.console.authored import PAGE
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio


async def test_the_list_begins_with_the_tools_that_wait(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        await written(server.service, "waits_long", taint=("web_fetch",))
        tool = await written(server.service, "is_approved")
        await server.service.approve("default", tool.id, digest=tool.digest)
        await written(server.service, "waits")
        page = await boss.signs_in(BOSS)
        rows = [row.text(strip=True) for row in page.tree.css("tbody th a")]
        assert rows == ["waits", "waits_long", "is_approved"]
        assert "ann, bot assistant (gateway) read untrusted content" in page.text
        assert "All 3 Pending 2 Approved 1 Rejected 0 Revoked 0" in page.text
        approved = await boss.opens(f"{HOME}?status=approved")
        assert [row.text(strip=True) for row in approved.tree.css("tbody th a")] == ["is_approved"]


async def test_a_long_list_has_several_pages_and_counts_all_tools(tmp_path: Path) -> None:
    async with reviewing(tmp_path, source={"max_tools_per_bot": 200}) as server, browser(server) as boss:
        for number in range(PAGE + 2):
            await written(server.service, f"tool_{number:03}")
        page = await boss.signs_in(BOSS)
        first = [row.text(strip=True) for row in page.tree.css("tbody th a")]
        assert (len(first), f"All {PAGE + 2} Pending {PAGE + 2}" in page.text) == (PAGE, True)
        page = await boss.opens(page.tree.css("a[rel=next]")[0].attributes["href"] or "")
        rest = [row.text(strip=True) for row in page.tree.css("tbody th a")]
        assert sorted([*first, *rest]) == [f"tool_{number:03}" for number in range(PAGE + 2)]
        assert not page.tree.css("a[rel=next]")


async def _asked(server: Server, key: str, text: str) -> str:
    """The answer of the model to a message."""
    body = {"model": "gpt-test", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession() as web,
        web.post(f"{server.url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        return str((await answer.json())["choices"][0]["message"]["content"])


def _offered(body: Any) -> Any:
    return say(" ".join(sorted(tool["function"]["name"] for tool in body["tools"])))


def _result(body: Any) -> Any:
    return say(body["messages"][-1]["content"])


@pytest.mark.proves("A-16", "R002-84")
async def test_a_tool_that_a_bot_writes_waits_until_a_person_approves_it_on_the_page(tmp_path: Path) -> None:
    arguments = {"description": "Counts the words of a text.", "source": COUNTS, "parameters": TEXT}
    script = [
        *(call("create_tool", {"name": "count_words", **arguments}), _result, _offered, _offered),
        *(call("create_tool", {"name": "count_lines", **arguments}), _result),
    ]
    async with (
        ScriptedUpstream(script) as upstream,
        reviewing(
            tmp_path,
            provider=OpenAIChat(upstream.base_url, "test-key"),
            policy=CedarPolicy(never_ask=["create_tool"]),
            source={"max_tools_per_bot": 1},
        ) as server,
        browser(server) as boss,
    ):
        key = await server.key(Principal(id="ann"))
        assert "count_words is written and waits" in await _asked(server, key, "write a tool that counts words")
        assert "count_words" not in (await _asked(server, key, "count the words")).split()
        page = await boss.signs_in(BOSS)
        page = await boss.opens(page.tree.css("tbody th a")[0].attributes["href"] or "")
        assert "count_words pending" in page.text
        assert "Asked by ann (gateway)" in page.text
        page = await boss.sends(page, "approve")
        assert "count_words" in (await _asked(server, key, "count the words")).split()
        await boss.sends(page, "revoke")
        refusal = await _asked(server, key, "write a tool that counts lines")
        assert "this bot has 1 tools already, whatever their status" in refusal


async def test_a_person_reads_a_tool_approves_it_sees_what_changed_and_revokes_it(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        source = "def run(text):\n    name = 'split'\n    return getattr(text, name)()\n"
        tool = await written(server.service, source=source, taint=("web_fetch",), scope="assistant")
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        for text in (
            "count_words pending",
            "Written after untrusted content.",
            "web_fetch",
            "ann, bot assistant (gateway)",
            "run_1",
            "Counts the words of a text.",
            tool.digest,
            "text string yes The text.",
            "It was never approved.",
        ):
            assert text in page.text
        numbers = [cell.text(strip=True) for cell in page.tree.css(".source .number")]
        assert numbers == ["1", "2", "3", "!"]
        assert "Look at this:" in page.tree.css(".source tr.note")[0].text()
        page = await boss.sends(page, "approve", note="read it\r\ntwice")
        assert (page.status, page.path) == (200, f"{HOME}/{tool.id}")
        assert "Approved. The next request offers it." in page.text
        approved = (await server.service.show("default", tool.id)).tool
        assert (approved.status, approved.note) == ("approved", "read it\ntwice")
        assert approved.decided_by is not None
        assert (approved.decided_by.id, approved.decided_by.channel) == ("boss", "console")

        changed_by_hand(tmp_path, tool, source.replace("split", "strip"))
        page = await boss.opens(f"{HOME}/{tool.id}")
        assert "It was approved before and has changed since." in page.text
        assert [line.text() for line in page.tree.css(".diff .added")] == ["+    name = 'strip'\n"]
        assert [line.text() for line in page.tree.css(".diff .removed")] == ["-    name = 'split'\n"]
        page = await boss.sends(page, "rollback")
        assert "The earlier version is back, and approved." in page.text
        page = await boss.sends(page, "revoke", note="no longer needed")
        assert "count_words revoked" in page.text
        assert "no longer needed" in page.text
        assert (await server.service.show("default", tool.id)).tool.status == "revoked"


async def test_what_changed_after_the_page_was_shown_is_not_approved(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        changed_by_hand(tmp_path, tool, COUNTS + "# more\n")
        late = await boss.sends(page, "approve")
        assert late.status == 409
        assert "This has changed meanwhile" in late.text
        assert "read it again" in late.text
        assert late.tree.css("a.button")[0].attributes["href"] == f"{HOME}/{tool.id}"
        assert (await server.service.show("default", tool.id)).tool.status == "pending"


async def test_a_tool_is_rejected_with_a_note(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.sends(await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}"), "reject", note="use wc")
        assert "count_words rejected Rejected." in page.text
        assert "use wc" in page.text
        assert "reject" not in page.forms()
        assert "approved" in (await boss.sends(page, "approve")).text


async def test_a_tool_is_deleted(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.sends(await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}"), "delete")
        assert page.path == HOME
        assert "The tool was deleted." in page.text
        assert (await boss.opens(f"{HOME}/{tool.id}")).status == 404


@pytest.mark.parametrize(("form", "field"), [("rename", "name"), ("scope", "scope")])
async def test_another_name_or_scope_must_be_approved_again(tmp_path: Path, form: str, field: str) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        await server.service.approve("default", tool.id, digest=tool.digest)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        page = await boss.sends(page, form, **{field: "other"})
        assert "Changed. It waits for an approval now." in page.text
        assert f"+{field}: other\n" in [line.text() for line in page.tree.css(".diff .added")]
        assert (await boss.sends(page, "approve")).status == 200
        assert (await server.service.show("default", tool.id)).tool.status == "approved"


@pytest.mark.parametrize(
    ("form", "field", "wrong", "reason"),
    [("rename", "name", "two words", "two words"), ("scope", "scope", "", "the id of one bot")],
)
async def test_a_wrong_name_or_scope_shows_the_form_again_with_the_reason_at_its_field(
    tmp_path: Path, form: str, field: str, wrong: str, reason: str
) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        page = await boss.sends(page, form, **{field: wrong})
        assert page.status == 400
        shown = page.tree.css_first(f"input[name={field}]")
        assert shown.attributes["value"] == wrong
        assert shown.attributes["aria-invalid"] == "true"
        assert reason in page.tree.css_first(f"#{shown.attributes['aria-describedby']}").text()
        assert len(page.tree.css("[role=alert]")) == 1
        page = await boss.sends(page, form, **{field: "other"})
        assert "Changed. It waits for an approval now." in page.text


async def test_a_source_that_is_never_accepted_has_no_form_to_approve_it(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        changed_by_hand(tmp_path, tool, "import os\n\n\ndef run(text):\n    return os.environ\n")
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        assert "The checks never accept this source" in page.text
        assert "approve" not in page.forms()
        fields = {**page.forms()["reject"], "digest": (await server.service.show("default", tool.id)).tool.digest}
        assert (await boss.posts(f"{HOME}/{tool.id}/approve", fields)).status == 422


async def test_nobody_approves_a_tool_of_their_own_but_may_withdraw_it(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as ann:
        tool = await written(server.service)
        page = await ann.signs_in(ANN, then=f"{HOME}/{tool.id}")
        assert "nobody approves a tool of their own" in page.text
        assert "approve" not in page.forms()
        fields = {**page.forms()["reject"], "digest": tool.digest}
        assert (await ann.posts(f"{HOME}/{tool.id}/approve", fields)).status == 403
        await server.service.approve("default", tool.id, digest=tool.digest)
        assert (await ann.posts(f"{HOME}/{tool.id}/rollback", {**fields, "version": "1"})).status == 403
        page = await ann.sends(await ann.opens(f"{HOME}/{tool.id}"), "revoke")
        assert "count_words revoked" in page.text


async def test_for_others_the_tool_does_not_exist(tmp_path: Path) -> None:
    policy = CedarPolicy(approvers=["boss"])
    async with reviewing(tmp_path, policy=policy) as server:
        tool = await written(server.service)
        for stranger in (Principal(id="boss", tenant="other"), Principal(id="carl")):
            async with browser(server) as web:
                page = await web.signs_in(stranger)
                assert "No bot has written a tool that you may see." in page.text
                fields = {**page.forms()["sign-out"], "digest": tool.digest}
                for path in (f"{HOME}/{tool.id}", f"{HOME}/count_words"):
                    assert (await web.opens(path)).status == 404
                    for verb in ("approve", "reject", "revoke", "rollback", "rename", "scope", "delete"):
                        assert (await web.posts(f"{path}/{verb}", {**fields, "version": "1"})).status == 404
        assert (await server.service.show("default", tool.id)).tool == tool


async def test_a_folder_that_no_bot_wrote_is_marked(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        await server.database.store.delete("authored-tool", f"default\0{tool.id}")
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        assert "No bot asked for this tool." in page.text


async def test_broken_folders_are_listed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        (tmp_path / "tools" / tool.id / "meta.json").write_text("{")
        page = await boss.signs_in(BOSS)
        assert "These folders hold no usable tool." in page.text
        assert "count_words: meta.json cannot be read" in page.text


async def test_there_is_no_other_page(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        await boss.signs_in(BOSS)
        for path in ("/console/nothing", f"{HOME}/x/y/z", f"{HOME}/", "/console/static/x.css"):
            assert (await boss.opens(path)).status == 404, path
