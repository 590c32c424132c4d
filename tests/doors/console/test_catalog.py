"""The catalog in the console: searched as the model sees it, paged, explained, and tried through every gate."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.console.browser import Browser, Page, browser
from tests.doors.console.full import ADMIN, OPERATOR, VIEWER, Server, console
from tests.doors.console.test_hostile_text import ATTACK
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult
from toolcaddie.doors import console as console_package
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

HOME = "/console/catalog"


class Plain:
    """A source whose tools return their arguments, for tests."""

    revision = 1

    def __init__(self, *tools: Tool, name: str = "plain", answer: str = "") -> None:
        self.name, self._tools, self._answer = name, tools, answer
        self.calls: list[Mapping[str, Any]] = []

    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    def categories(self) -> tuple[()]:
        return ()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self.calls.append({**arguments, "principal": context.principal.id})
        return ToolResult(content=self._answer or f"did {sorted(arguments.items())}")


def reading(name: str, **fields: Any) -> Tool:
    """A tool that only reads."""
    return Tool(name=name, source="plain", annotations=ToolAnnotations(read_only=True), **fields)


FORM = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say."},
        "times": {"type": "integer"},
        "loud": {"type": "boolean"},
        "colour": {"enum": ["red", "green"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["text"],
}


async def data(server: Server, person: Principal, path: str) -> Any:
    """The data of a page."""
    headers = {"authorization": f"Bearer {await server.key(person)}", "accept": "application/json"}
    async with aiohttp.ClientSession(base_url=server.url) as web, web.get(path, headers=headers) as answer:
        return await answer.json()


def names(page: Page) -> list[str]:
    return [row.text(strip=True) for row in page.tree.css("tbody th a")]


async def test_a_search_says_which_tools_fit_why_and_whether_a_request_is_sent_them(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        page = await vera.signs_in(VIEWER, then=HOME)
        assert f"Tools: {len(server.parts.runtime.source.snapshot())}" in page.text
        page = await vera.opens(f"{HOME}?q=freeze+a+membership&preset=keyword")
        assert names(page)[0] == "freeze_membership"
        finding = (await data(server, replace(VIEWER, id="vic"), f"{HOME}?q=freeze+a+membership"))["finding"]
        first = finding["hits"][0]
        assert (first["name"], first["sent"]) == ("freeze_membership", True)
        assert first["score"] > 0
        assert first["reasons"]
        page = await vera.opens(f"{HOME}?q=x&preset=nonsense")
        assert (page.status, "no preset" in page.text) == (400, True)


async def test_ten_thousand_tools_are_read_page_by_page_each_once(tmp_path: Path) -> None:
    async with console(tmp_path) as server:
        tools = [reading(f"tool_{number:05}", category=f"part_{number % 7}") for number in range(10_000)]
        await server.parts.runtime.add_source(Plain(*tools))
        address, seen = f"{HOME}?source=plain&category=part_3", []
        headers = {"authorization": f"Bearer {await server.key(VIEWER)}", "accept": "application/json"}
        async with aiohttp.ClientSession(base_url=server.url) as web:
            after = ""
            while after is not None:
                async with web.get(f"{address}&after={after}", headers=headers) as answer:
                    page = await answer.json()
                seen += [tool["name"] for tool in page["tools"]]
                after = page["next"]
        assert seen == [tool.name for tool in tools if tool.category == "part_3"]


async def test_a_tool_that_a_person_may_not_see_is_shown_to_an_admin_of_the_server_only(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera, browser(server) as ada:
        await server.parts.runtime.add_source(Plain(reading("secret_ledger", roles=("chief",))))
        page = await vera.signs_in(VIEWER, then=f"{HOME}/secret_ledger")
        assert page.status == 404
        assert "there is no tool" in page.text.lower()
        page = await ada.signs_in(ADMIN, then=f"{HOME}/secret_ledger")
        assert "tool.roles" in page.text
        assert "Only the roles: chief" in page.text
        assert not page.tree.css("#try")
        page = await ada.opens(f"{HOME}?source=plain")
        assert "hidden from you" in page.text


async def test_the_form_of_a_tool_follows_its_schema_and_calls_it_in_the_name_of_the_person(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        source = Plain(reading("say", input_schema=FORM))
        await server.parts.runtime.add_source(source)
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/say")
        fields = {each.attributes.get("name") for each in page.tree.css("#try form:first-of-type [name]")}
        assert {"arg.text", "arg.times", "arg.loud", "arg.colour", "arg.tags"} <= fields
        given = {"arg.text": "hi", "arg.times": "2", "arg.loud": "true", "arg.colour": '"red"', "arg.tags": '["a"]'}
        page = await tried(otto, page, **given)
        assert source.calls == [
            {"text": "hi", "times": 2, "loud": True, "colour": "red", "tags": ["a"], "principal": "otto"}
        ]
        assert "The tool has answered." in page.text
        assert "('times', 2)" in page.text
        await otto.opens(page.path)
        assert len(source.calls) == 1


async def test_arguments_that_do_not_fit_are_refused_by_the_check_of_every_call(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        source = Plain(reading("say", input_schema=FORM))
        await server.parts.runtime.add_source(source)
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/say")
        shown = await tried(otto, page, **{"arg.text": "hi", "arg.times": "many"})
        assert "invalid_arguments" in shown.text
        shown = await tried(otto, page, **{"arg.text": "hi", "arg.tags": "[a"})
        assert "the argument 'tags' is not json" in shown.text.lower()
        assert source.calls == []


async def test_a_call_that_a_person_must_allow_waits_and_links_to_the_questions(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/delete_client")
        fields = {each.attributes["name"]: "1" for each in page.tree.css("#try input[name^='arg.']")}
        page = await tried(otto, page, **fields)
        assert "waits for a person" in page.text
        assert page.tree.css_first("#result a").attributes["href"] == "/console/approvals"
        (question,) = await server.parts.runtime.approvals.list("default")
        assert (question.tool, question.principal.id) == ("delete_client", "otto")
        assert question.id in page.text


async def test_a_viewer_can_call_nothing(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        source = Plain(reading("say", input_schema=FORM))
        await server.parts.runtime.add_source(source)
        page = await vera.signs_in(VIEWER, then=f"{HOME}/say")
        assert not page.tree.css("#try")
        token = page.forms()["sign-out"]["token"]
        page = await vera.posts(f"{HOME}/say/try", {"token": token, "arg.text": "hi"})
        assert page.status == 403
        assert source.calls == []


async def test_the_last_failures_of_a_tool_are_counted_with_their_runs(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:

        class Broken(Plain):
            async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
                return ToolResult(content="the ledger is closed", is_error=True, error="failed")

        await server.parts.runtime.add_source(Broken(reading("ledger")))
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/ledger")
        await tried(otto, page)
        use = (await data(server, replace(VIEWER, id="vic"), f"{HOME}/ledger"))["use"]
        assert (use["calls"], use["failures"]) == (1, 1)
        assert use["last_failures"][0]["text"] == "the ledger is closed"
        assert use["last_failures"][0]["run_id"].startswith("run_")
        other = (await data(server, Principal(id="eve", role="viewer", tenant="other"), f"{HOME}/ledger"))["use"]
        assert other["calls"] == 0


async def test_a_result_is_shown_to_the_person_alone(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto, browser(server) as olga:
        await server.parts.runtime.add_source(Plain(reading("say", input_schema=FORM)))
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/say")
        form = {**page.forms()["try"], "arg.text": "hi"}
        async with otto.web.post(
            f"{server.url}{HOME}/say/try", data=form, headers={"origin": server.url}, allow_redirects=False
        ) as answer:
            place = answer.headers["location"].partition("#")[0]
        assert "did [" in (await otto.opens(place)).text
        await olga.signs_in(replace(OPERATOR, id="olga"), then=f"{HOME}/say")
        assert "no longer stored" in (await olga.opens(place)).text


async def test_hostile_texts_of_a_tool_and_its_result_stay_texts(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        schema = {
            "type": "object",
            "properties": {
                ATTACK: {"type": "string", "description": ATTACK, "default": ATTACK},
                "kind": {"enum": [ATTACK]},
            },
        }
        tool = reading("evil", description=ATTACK, category=ATTACK, input_schema=schema, hints=(ATTACK,))
        await server.parts.runtime.add_source(Plain(tool, answer=f"{ATTACK}\u202e\x1b[2J"))
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/evil")
        pages = [page, await otto.opens(HOME), await otto.opens(f"{HOME}?q=evil"), await tried(otto, page)]
        for each in pages:
            assert each.status == 200
            assert [script.text() for script in each.tree.css("script")] == [""]
            assert not each.tree.css("main img")
            names_of = {name for node in each.tree.css("*") for name in node.attributes}
            assert not [name for name in names_of if name.startswith("on") or name == "style"]
            assert "67087310" not in each.html
            assert not re.search("[\u202e\x1b]", each.html)


async def tried(person: Browser, page: Page, **fields: str) -> Page:
    """Fills in and sends the first form with which the tool of a page is tried."""
    address = page.tree.css_first("#try form").attributes["action"] or ""
    token = page.forms()["sign-out"]["token"]
    return await person.posts(address, {"token": token, **fields})


@pytest.mark.parametrize("language", ["es", "pt"])
@pytest.mark.parametrize("section", ["catalog", "playground", "sources", "health"])
def test_every_text_of_the_pages_is_translated(section: str, language: str) -> None:
    folder = Path(console_package.__file__).parent
    words = tomllib.loads((folder / "words" / f"{language}.toml").read_text())
    texts = {
        text
        for template in (folder / "templates" / section).glob("*.html")
        for text in re.findall(r'_\("([^"]+)"\)', template.read_text())
    }
    assert texts
    assert texts - words.keys() == set()
