"""The playground of the console: answers with their tools, streamed or whole, through every gate, for the person alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doors.console.browser import Browser, Page, browser
from tests.doors.console.full import ADMIN, OPERATOR, VIEWER, Server, console
from tests.doors.console.test_catalog import Plain, reading
from tests.doors.console.test_hostile_text import ATTACK
from toolcaddie.control.bots import Bot
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import KeyUsage
from toolcaddie.testing import ScriptedUpstream, call, paced, say
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

HOME = "/console/playground"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")


@asynccontextmanager
async def playing(folder: Path, script: Sequence[Any]) -> AsyncIterator[tuple[ScriptedUpstream, Server, Browser]]:
    """A server in front of a model with a script, and a browser."""
    async with (
        ScriptedUpstream(script) as upstream,
        console(folder, upstream=upstream) as server,
        browser(server) as person,
    ):
        yield upstream, server, person


async def begun(person: Browser, page: Page, message: str, **fields: str) -> Page:
    """Begins a conversation without a script."""
    return await person.sends(page, "begin", message=message, **fields)


async def streamed(person: Browser, page: Page, address: str, message: str) -> list[dict[str, Any]]:
    """Sends a message as the script of the page does, and returns what it is told."""
    form = {"token": page.forms()["sign-out"]["token"], "message": message}
    headers = {"origin": person.server.url, "accept": "text/event-stream"}
    async with person.web.post(f"{person.server.url}{address}", data=form, headers=headers) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        text = await answer.text()
    return [json.loads(event[6:]) for event in text.split("\n\n") if event.startswith("data: ")]


async def test_without_a_script_the_page_comes_with_the_whole_answer_and_its_tools(tmp_path: Path) -> None:
    async with playing(tmp_path, [call("look", {"at": "the sky"}), say("It is blue."), say("Yes.")]) as (
        upstream,
        server,
        otto,
    ):
        await server.parts.runtime.add_source(Plain(reading("look"), answer="blue"))
        page = await otto.signs_in(OPERATOR, then=HOME)
        page = await begun(otto, page, "What colour is the sky?", model="gpt-test")
        assert page.path.startswith(f"{HOME}/")
        assert "look done" in page.text
        assert "It is blue." in page.text
        page = await otto.sends(page, "say", message="Sure?")
        assert "Yes." in page.text
        texts = [message["content"] for message in upstream.bodies[-1]["messages"]]
        assert [text for text in texts if "sky" in text or "blue" in text or "Sure" in text] == [
            "What colour is the sky?",
            "It is blue.",
            "Sure?",
        ]
        assert "What colour is the sky?" in (await otto.opens(HOME)).text


async def test_a_script_is_told_of_each_tool_as_it_is_chosen_and_called(tmp_path: Path) -> None:
    async with playing(tmp_path, [call("look", {"at": "the sky"}), say("It is blue.")]) as (_upstream, server, otto):
        await server.parts.runtime.add_source(Plain(reading("look"), answer="blue\u202e"))
        page = await otto.signs_in(OPERATOR, then=HOME)
        pieces = await streamed(otto, page, f"{HOME}/begin", "look at the sky")
        kinds = [piece["kind"] for piece in pieces]
        assert kinds[:2] == ["begin", "tools"]
        assert "look" in pieces[1]["names"]
        steps = [(piece["tool"], piece["outcome"]) for piece in pieces if piece["kind"] == "step"]
        assert steps == [("look", "called"), ("look", "done")]
        assert "".join(piece["text"] for piece in pieces if piece["kind"] == "text") == "It is blue."
        assert pieces[-1] == {"kind": "end", "status": "completed"}
        assert "\\u202e" in next(piece["text"] for piece in pieces if piece.get("outcome") == "done")
        assert "It is blue." in (await otto.opens(pieces[0]["path"])).text


async def test_an_answer_that_nobody_reads_on_is_stopped_and_says_so(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(3)
    async with playing(tmp_path, [paced(say("One two three four five."), gate)]) as (_upstream, server, otto):
        page = await otto.signs_in(OPERATOR, then=HOME)
        form = {"token": page.forms()["sign-out"]["token"], "message": "count"}
        headers = {"origin": server.url, "accept": "text/event-stream"}
        async with otto.web.post(f"{server.url}{HOME}/begin", data=form, headers=headers) as answer:
            first = json.loads((await answer.content.readuntil(b"\n\n"))[6:])
            while b'"kind":"text"' not in await answer.content.readuntil(b"\n\n"):
                pass
        page = await until(otto, first["path"], "It was stopped.")
        assert "One" in page.text


async def until(person: Browser, path: str, text: str) -> Page:
    """Opens a page again and again until it has a text."""
    async with asyncio.timeout(10):
        while text not in (page := await person.opens(path)).text:
            pass
    return page


async def test_a_call_that_needs_a_person_is_shown_inline_refused_inline_and_the_answer_goes_on(tmp_path: Path) -> None:
    script = [call("delete_client", {"client_id": 7}), say("Then I will not.")]
    async with playing(tmp_path, script) as (_upstream, server, otto):
        page = await otto.signs_in(OPERATOR, then=HOME)
        page = await begun(otto, page, "delete client 7")
        assert "waits for a person" in page.text
        assert '"client_id": 7' in page.text
        page = await otto.sends(page, "refuse", reason="he is a good client")
        assert "Then I will not." in page.text
        (question,) = await server.parts.runtime.approvals.list("default")
        assert (question.status, question.answer_reason) == ("refused", "he is a good client")


async def test_nobody_approves_a_call_of_their_own_and_the_answer_goes_on_after_somebody_else_has(
    tmp_path: Path,
) -> None:
    script = [call("wipe", {}), say("It is gone.")]
    async with playing(tmp_path, script) as (_upstream, server, otto):
        tool = replace(
            reading("wipe"), annotations=replace(reading("wipe").annotations, read_only=False, destructive=True)
        )
        source = Plain(tool, answer="gone")
        await server.parts.runtime.add_source(source)
        page = await otto.signs_in(OPERATOR, then=HOME)
        page = await begun(otto, page, "wipe it")
        assert "continue" not in page.forms()
        token = page.forms()["say"]["token"]
        early = await otto.posts(f"{page.path}/continue", {"token": token})
        assert (early.status, source.calls) == (409, [])
        (question,) = await server.parts.runtime.approvals.list("default")
        await server.parts.runtime.approvals.answer("default", question.id, approved=True, by=ADMIN)
        page = await otto.sends(await otto.opens(page.path), "continue")
        assert "It is gone." in page.text
        assert len(source.calls) == 1


async def test_a_failure_of_the_model_is_shown_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with playing(tmp_path, [say("Hello.")]) as (_upstream, _server, otto):
        page = await otto.signs_in(OPERATOR, then=HOME)
        page = await begun(otto, page, "hi", preset="keyword")
        assert "Hello." in page.text
        page = await otto.sends(page, "say", message="and now?")
        assert "The answer failed:" in page.text


async def test_a_conversation_belongs_to_the_person(tmp_path: Path) -> None:
    async with playing(tmp_path, [say("A secret.")]) as (_upstream, server, otto), browser(server) as ada:
        page = await begun(otto, await otto.signs_in(OPERATOR, then=HOME), "tell me")
        assert "A secret." in page.text
        await ada.signs_in(ADMIN, then=HOME)
        other = await ada.opens(page.path)
        assert (other.status, "secret" in other.text) == (404, False)
        assert "You have none yet." in (await ada.opens(HOME)).text
        await otto.sends(page, "delete")
        assert "You have none yet." in (await otto.opens(HOME)).text


async def test_a_viewer_has_no_playground(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        page = await vera.signs_in(VIEWER, then=HOME)
        assert page.status == 403


async def test_a_key_of_one_bot_talks_to_no_other(tmp_path: Path) -> None:
    bots = {"cook": Bot(description="cooks"), "clerk": Bot(description="counts")}
    async with ScriptedUpstream([say("Soup.")]) as upstream:
        async with (
            console(tmp_path, upstream=upstream, bots=bots, default_bot="clerk") as server,
            browser(server) as otto,
        ):
            person = Principal(id="otto", role="operator", bot="clerk")
            page = await otto.signs_in(person, then=HOME)
            assert [each.attributes["value"] for each in page.tree.css("#bot option")] == ["", "clerk"]
            refused = await begun(otto, page, "what is there to eat?", bot="cook")
            assert (refused.status, upstream.bodies) == (400, [])
            olga = replace(OPERATOR, id="olga")
        async with (
            console(tmp_path / "free", upstream=upstream, bots=bots, default_bot="clerk") as server,
            browser(server) as free,
        ):
            page = await begun(free, await free.signs_in(olga, then=HOME), "what is there to eat?", bot="cook")
            assert "Soup." in page.text
            assert "cook" in page.tree.css_first("dl").text()


async def test_the_tokens_count_against_the_limits_of_the_persons_key(tmp_path: Path) -> None:
    async with playing(tmp_path, [say("One."), say("Two.")]) as (upstream, server, otto):
        key = await limited(server, OPERATOR)
        page = await otto.opens(HOME)
        page = await otto.sends(page, "sign-in", key=key)
        page = await begun(otto, page, "first")
        assert "One." in page.text
        page = await otto.sends(page, "say", message="second")
        assert page.status == 409
        assert len(upstream.bodies) == 1


async def test_what_a_person_uses_here_and_at_the_gateway_is_counted_once(tmp_path: Path) -> None:
    async with playing(tmp_path, [say("One."), say("Two.")]) as (upstream, server, otto):
        key = await server.key(OPERATOR)
        page = await otto.sends(await otto.opens(HOME), "sign-in", key=key)
        await begun(otto, page, "first")
        body = {"model": "gpt-test", "messages": [{"role": "user", "content": "second"}]}
        headers = {"authorization": f"Bearer {key}"}
        async with otto.web.post(f"{server.url}/v1/chat/completions", json=body, headers=headers) as answer:
            used = (await answer.json())["usage"]
        (row,) = await settled(server, requests=2)
        assert (row.input_tokens, row.output_tokens) == (2 * used["prompt_tokens"], 2 * used["completion_tokens"])
        assert len(upstream.bodies) == 2


async def settled(server: Server, *, requests: int) -> Sequence[KeyUsage]:
    """The use of all keys, once so many requests are counted."""
    rows: Sequence[KeyUsage] = ()
    async with asyncio.timeout(10):
        while sum(row.requests for row in rows) < requests:
            rows = await server.parts.meter.usage(first="2000", last="9999")
    return rows


async def limited(server: Server, person: Principal) -> str:
    """The API key of a person that may make one request in a day."""
    return (await server.parts.keys.add("limited", person, limits={"requests_per_day": 1}))[1]


async def test_hostile_texts_of_a_conversation_stay_texts(tmp_path: Path) -> None:
    async with playing(tmp_path, [call("look", {"at": ATTACK}), say(f"{ATTACK}\u202e")]) as (_upstream, server, otto):
        await server.parts.runtime.add_source(Plain(reading("look"), answer=ATTACK))
        page = await begun(otto, await otto.signs_in(OPERATOR, then=HOME), ATTACK, model=ATTACK)
        for each in (page, await otto.opens(HOME)):
            assert [script.text() for script in each.tree.css("script")] == [""]
            assert not each.tree.css("main img")
            names = {name for node in each.tree.css("*") for name in node.attributes}
            assert not [name for name in names if name.startswith("on") or name == "style"]
            assert "\u202e" not in each.html
            assert "67087310" not in each.html
