"""Texts of bots on the pages of the console: they stay texts, with every character in sight; no page runs or loads anything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.doors.authoring import BOSS, changed_by_hand, reviewing, written
from tests.doors.console.browser import HOME, Page, browser
from toolcaddie.core.control import Principal
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import Request, Visit

pytestmark = pytest.mark.anyio

ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7654*8765 }}{% raw %}</textarea></pre>&lt;b&gt;"
ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "link",
        "script",
        "body",
        "footer",
        "a",
        "header",
        "div",
        "img",
        "nav",
        "form",
        "span",
        "small",
    ),
    *(
        "input",
        "button",
        "main",
        "p",
        "h1",
        "h2",
        "section",
        "blockquote",
        "dl",
        "dt",
        "dd",
        "time",
        "code",
        "pre",
        "br",
    ),
    *("table", "thead", "tbody", "tr", "th", "td", "strong", "details", "summary", "label", "textarea", "ul", "li"),
}


def elements(page: Page) -> set[str]:
    return {node.tag for node in page.tree.css("*") if node.tag}


def attributes(page: Page) -> set[str]:
    return {name for node in page.tree.css("*") for name in node.attributes}


def check_harmless(page: Page) -> None:
    """Fails if the page has anything that its templates do not have."""
    assert elements(page) <= ALLOWED
    assert not [name for name in attributes(page) if name.startswith("on") or name in ("style", "srcdoc", "srcset")]
    assert [each.attributes["src"] for each in page.tree.css("img")] == [
        each.attributes["href"] for each in page.tree.css("link[rel=icon]")
    ]
    links = [each.attributes["href"] or "" for each in page.tree.css("a, link")]
    assert all(link.startswith(("/console/", "#")) for link in links)
    assert "67087310" not in page.html
    (script,) = page.tree.css("script")
    assert (script.attributes["src"] or "").startswith("/console/static/console-")
    assert not script.text()


def with_meta(folder: Path, tool_id: str, **changes: Any) -> None:
    """Changes what the folder of a tool says, past all checks of the service."""
    file = folder / "tools" / tool_id / "meta.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


async def test_texts_of_a_bot_stay_texts_wherever_they_stand(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {ATTACK: {"type": "string", "description": ATTACK, "default": ATTACK}}}
    async with reviewing(tmp_path) as server, browser(server) as boss:
        author = Principal(id=ATTACK, bot=ATTACK, channel=ATTACK)
        tool = await written(server.service, author=author, taint=(ATTACK,))
        await server.service.approve("default", tool.id, digest=tool.digest, by=Principal(id=ATTACK), note=ATTACK)
        with_meta(tmp_path, tool.id, description=ATTACK, parameters=schema, scope=ATTACK[:200])
        changed_by_hand(tmp_path, tool, f"# {ATTACK}\n\n\ndef run(text):\n    return {ATTACK!r}\n")
        page = await boss.signs_in(BOSS)
        check_harmless(page)
        assert ATTACK in page.text
        page = await boss.opens(f"{HOME}/{tool.id}")
        assert page.status == 200
        check_harmless(page)
        assert page.text.count(ATTACK) >= 8
        assert page.tree.css(".source code")[0].text() == f"# {ATTACK}"


@pytest.mark.parametrize("note", [ATTACK, "a\u202eb", "</textarea>"])
async def test_the_note_of_a_person_stays_a_text(tmp_path: Path, note: str) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.sends(await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}"), "reject", note=note)
        check_harmless(page)
        assert (await server.service.show("default", tool.id)).tool.note == note
        shown = next(each.parent.css("dd")[0].text() for each in page.tree.css("dt") if each.text() == "Note")
        assert shown == note.replace("\u202e", r"\u202e")


async def test_addresses_are_not_repeated_as_markup(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        await boss.signs_in(BOSS)
        for path in (f"{HOME}/<script>alert(1)</script>", "/console/<script>", f"{HOME}?status=<script>&done=<script>"):
            check_harmless(await boss.opens(path))


async def test_characters_that_nobody_sees_are_spelled_out_and_marked(tmp_path: Path) -> None:
    hidden = "\u202e\u2066\u200b\u3164\u00ad\x1b\ufeff\U000e0041\u00a0\u2028"
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        (tmp_path / "tools" / tool.id / "tool.py").write_bytes(f"def run(text):\n    return '{hidden}'\n".encode())
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        assert not set(hidden) & set(page.html)
        marks = [mark.text() for mark in page.tree.css(".source .hidden-character")]
        assert marks == [r"\u202e\u2066\u200b\u3164\xad\x1b\ufeff\U000e0041\xa0\u2028"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "100 %(name)s %d %", "<b>\u202e"])
def test_a_text_that_is_to_be_translated_but_comes_from_elsewhere_stays_a_text(text: str) -> None:
    visit = Visit(request=Request.of({"method": "GET", "path": "/console/x", "headers": []}), token="", language="es")
    answer = Renderer().page("error.html", visit, heading=text, message="m", back="/console/")
    assert isinstance(answer.body, bytes)
    tree = LexborHTMLParser(answer.body.decode())
    (heading,) = tree.css("h1")
    assert heading.text().strip() == text.replace("\u202e", r"\u202e")
    assert not heading.css("script, b")


async def test_no_page_may_run_load_or_be_framed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        signing = await boss.opens(HOME)
        await boss.signs_in(BOSS)
        style = signing.tree.css("link[rel=stylesheet]")[0].attributes["href"] or ""
        pages = [signing, *[await boss.opens(path) for path in (HOME, f"{HOME}/{tool.id}", f"{HOME}/nothing", style)]]
        for page in pages:
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert "script-src 'self';" in policy
            assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
            assert page.headers["x-content-type-options"] == "nosniff"
            assert page.headers["referrer-policy"] == "same-origin"
        assert all(page.headers["cache-control"] == "no-store" for page in pages[:-1])
        assert "immutable" in pages[-1].headers["cache-control"]
        assert not re.search(r"url\(|@import|https?:", pages[-1].html)
        assert not any("<style" in page.html or "style=" in page.html for page in pages[:-1])


async def test_every_field_has_a_label_and_every_page_one_heading(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        pages = [await boss.opens(HOME), await boss.signs_in(BOSS), await boss.opens(f"{HOME}/{tool.id}")]
        for page in pages:
            labels = {label.attributes["for"] for label in page.tree.css("label")}
            fields = [each.attributes["id"] for each in page.tree.css("textarea, input:not([type=hidden])")]
            assert set(fields) == labels
            assert len(set(fields)) == len(fields)
            assert len(page.tree.css("h1")) == 1
            assert page.tree.css("html")[0].attributes["lang"] == "en"
            targets = [each.attributes["aria-labelledby"] for each in page.tree.css("[aria-labelledby]")]
            assert all(page.tree.css(f"#{target}") for target in targets)
