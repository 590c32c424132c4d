"""People sign in to the console with an API key; a session is theirs alone, and ends."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.doors.authoring import BOSS, reviewing, written
from tests.doors.console.browser import HOME, Browser, browser
from toolcaddie.control.bots import Bot
from toolcaddie.core.control import Principal
from toolcaddie.doors.console.sessions import SESSION_SECONDS

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that a test sets."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_person_signs_in_with_a_key_and_gets_to_the_page_that_was_asked_for(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        assert (page.status, page.path) == (200, f"{HOME}/{tool.id}")
        assert "boss Sign out" in page.text
        assert (await boss.opens("/console")).path == HOME
        assert (await boss.opens("/console/sign-in")).path == HOME


async def test_a_key_that_is_unknown_or_revoked_signs_nobody_in(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as eve:
        await server.key(BOSS)
        for key in ("", "tc_wrong", "<script>"):
            page = await eve.sends(await eve.opens(HOME), "sign-in", key=key)
            assert (page.status, page.path) == (403, "/console/sign-in")
            assert "This API key is unknown or revoked." in page.text
            assert key not in page.html or not key
        assert eve.cookie() == ""
        assert (await eve.opens(HOME)).path == "/console/sign-in"


async def test_a_wrong_key_then_the_right_key_signs_in(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        key = await server.key(BOSS)
        refused = await boss.sends(await boss.opens(HOME), "sign-in", key="tc_wrong")
        assert "This API key is unknown or revoked." in refused.text
        page = await boss.sends(refused, "sign-in", key=key)
        assert (page.status, page.path) == (200, HOME)


async def test_a_session_ends_when_the_person_signs_out(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss, browser(server) as thief:
        page = await boss.signs_in(BOSS)
        thief.has_cookie("toolcaddie-session", boss.cookie())
        assert (await thief.opens(HOME)).path == HOME
        assert (await boss.sends(page, "sign-out")).path == "/console/sign-in"
        assert boss.cookie() == ""
        assert (await thief.opens(HOME)).path == "/console/sign-in"


async def test_a_session_ends_after_eight_hours(tmp_path: Path) -> None:
    clock = Clock()
    async with reviewing(tmp_path, clock=clock) as server, browser(server) as boss:
        await boss.signs_in(BOSS)
        clock.now += SESSION_SECONDS - 1
        assert (await boss.opens(HOME)).path == HOME
        clock.now += 1
        assert (await boss.opens(HOME)).path == "/console/sign-in"


async def test_a_session_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        await boss.signs_in(BOSS)
        await server.key(Principal(id="another"))
        assert (await boss.opens(HOME)).path == HOME
        await server.database.keys.revoke("boss of default")
        assert (await boss.opens(HOME)).path == "/console/sign-in"


async def test_a_session_without_a_key_ends_with_the_first_key(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as anybody:
        page = await anybody.signs_in()
        assert "local Sign out" in page.text
        await server.key(BOSS)
        assert (await anybody.opens(HOME)).path == "/console/sign-in"


async def test_a_number_that_was_known_before_signing_in_is_no_session(tmp_path: Path) -> None:
    """Source: session fixation. A stranger who sets a cookie of the browser does not share the session that follows."""
    async with reviewing(tmp_path) as server, browser(server) as boss, browser(server) as eve:
        planted = "planted-by-a-stranger"
        boss.has_cookie("toolcaddie-session", planted)
        boss.has_cookie("toolcaddie-form", planted)
        page = await boss.signs_in(BOSS)
        assert page.path == HOME
        assert boss.cookie() not in ("", planted)
        eve.has_cookie("toolcaddie-session", planted)
        assert (await eve.opens(HOME)).path == "/console/sign-in"


async def test_signing_in_again_ends_the_earlier_session(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss, browser(server) as thief:
        key = await server.key(BOSS)
        await boss.signs_in(key=key)
        first = boss.cookie()
        async with browser(server) as fresh:
            form = await fresh.opens("/console/sign-in")
            boss.has_cookie("toolcaddie-form", fresh.cookie("toolcaddie-form"))
        await boss.sends(form, "sign-in", key=key)
        assert boss.cookie() not in ("", first)
        thief.has_cookie("toolcaddie-session", first)
        assert (await thief.opens(HOME)).path == "/console/sign-in"


async def test_two_cookies_of_one_name_are_none(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss, browser(server) as other:
        await boss.signs_in(BOSS)
        number = boss.cookie()
        cookies = {"cookie": f"toolcaddie-session={number}; toolcaddie-session=planted"}
        assert (await other.opens(HOME, **cookies)).path == "/console/sign-in"


async def _set_cookie(web: Browser, key: str, **headers: str) -> str:
    """The header that sets the cookie of a session."""
    form = await web.opens(HOME)
    data = {**form.forms()["sign-in"], "key": key}
    url = f"{web.server.url}/console/sign-in"
    headers = {"origin": web.server.url, **headers}
    async with web.web.post(url, data=data, headers=headers, allow_redirects=False) as answer:
        (cookie,) = [each for each in answer.headers.getall("set-cookie") if "session" in each]
    return cookie


async def test_the_cookie_is_only_for_the_console_and_no_script_reads_it(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        cookie = await _set_cookie(boss, await server.key(BOSS))
    assert cookie.startswith("toolcaddie-session=")
    assert cookie.endswith(f"; Path=/console; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}")


async def test_the_database_has_no_number_with_which_somebody_could_take_over_a_session(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        await boss.signs_in(BOSS)
        number = boss.cookie()
        page = await server.database.store.scan("console-session")
        (document,) = page.documents
        assert document.key == hashlib.sha256(number.encode()).hexdigest()
        assert number.encode() not in document.value


async def test_signing_in_leads_to_no_other_site(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        key = await server.key(BOSS)
        for target in (
            *(
                "https://evil.example/",
                "//evil.example",
                "/console/\\evil",
                "/console//evil",
                "/v1/models",
                "/console/x\n",
                "/console/../v1/models",
                "/console/x/%2E./../v1/models",
                "/console/%2e%2e/v1/models?x=1",
            ),
            "",
        ):
            form = await boss.opens(HOME)
            page = await boss.sends(form, "sign-in", key=key, next=target)
            assert (page.path, page.status) == (HOME, 200), target
            await boss.sends(page, "sign-out")


async def test_a_server_without_keys_says_that_everybody_is_the_same_person(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as anybody:
        tool = await written(server.service, author=Principal())
        page = await anybody.opens(HOME)
        assert "This server has no API keys" in page.text
        page = await anybody.sends(page, "sign-in")
        shown = await anybody.opens(f"{HOME}/{tool.id}")
        assert "This server has no API keys and cannot tell people apart" in shown.text
        assert "approve" not in shown.forms()
        fields = {**shown.forms()["reject"], "digest": tool.digest}
        refused = await anybody.posts(f"{HOME}/{tool.id}/approve", fields)
        assert refused.status == 403
        assert "nobody approves a tool of their own" in refused.text


async def test_without_keys_pages_of_other_sites_reach_nothing(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as anybody:
        await anybody.signs_in()
        for name, value in (
            ("host", "evil.example"),
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "cross-site"),
        ):
            assert (await anybody.opens(HOME, **{name: value})).status == 403, name


async def test_a_person_whose_key_names_no_bot_can_still_sign_out(tmp_path: Path) -> None:
    async with reviewing(tmp_path, bots={"helper": Bot()}) as server, browser(server) as boss:
        page = await boss.signs_in(BOSS)
        assert page.status == 400
        assert "The request names no bot" in page.text
        assert (await boss.sends(page, "sign-out")).path == "/console/sign-in"
        page = await boss.signs_in(Principal(id="chief", bot="helper"))
        assert (page.status, page.path) == (200, HOME)
