"""Forms of the console are accepted only from its own pages, from the browser that was shown them, and as what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from tests.doors.authoring import ANN, BOSS, reviewing, written
from tests.doors.console.browser import HOME, browser

pytestmark = pytest.mark.anyio

VERBS = ("approve", "reject", "delete", "rename", "scope", "revoke", "rollback")


@pytest.mark.parametrize("token", [None, "", "0" * 64], ids=["none", "empty", "wrong"])
async def test_a_form_without_the_token_of_the_browser_does_nothing(tmp_path: Path, token: str | None) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        waiting, approved = await written(server.service), await written(server.service, "approved_one")
        approved = await server.service.approve("default", approved.id, digest=approved.digest)
        await boss.signs_in(BOSS)
        for tool in (waiting, approved):
            for verb in VERBS:
                fields = {"digest": tool.digest, "name": "other", "scope": "other", "version": "1"}
                fields |= {} if token is None else {"token": token}
                page = await boss.posts(f"{HOME}/{tool.id}/{verb}", fields)
                assert page.status == 403
                assert "nothing was done" in page.text
            assert (await server.service.show("default", tool.id)).tool == tool


async def test_the_token_of_another_session_is_refused(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss, browser(server) as ann:
        tool = await written(server.service)
        await boss.signs_in(BOSS)
        await ann.signs_in(ANN)
        hers = await ann.opens(f"{HOME}/{tool.id}")
        fields = {**hers.forms()["reject"], "digest": tool.digest}
        assert (await boss.posts(f"{HOME}/{tool.id}/approve", fields)).status == 403


async def test_the_token_of_an_earlier_session_is_refused(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        key = await server.key(BOSS)
        first = await boss.signs_in(key=key, then=f"{HOME}/{tool.id}")
        await boss.sends(first, "sign-out")
        await boss.signs_in(key=key)
        assert (await boss.sends(first, "approve")).status == 403


FOREIGN: Sequence[tuple[str | None, Mapping[str, str]]] = (
    ("https://evil.example", {}),
    ("http://127.0.0.1:1", {}),
    ("null", {}),
    (None, {}),
    ("", {"sec-fetch-site": "same-site"}),
    ("", {"sec-fetch-site": "cross-site"}),
    (None, {"sec-fetch-site": "none"}),
    ("ftp://127.0.0.1", {}),
    ("http://[", {}),
)
"""What browsers say of forms that are not on a page of this server. An empty origin: that of this server."""


async def test_a_form_of_another_page_is_refused_even_with_the_token(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        for origin, headers in FOREIGN:
            fields = page.forms()["approve"]
            refused = await boss.posts(f"{HOME}/{tool.id}/approve", fields, origin=origin, **headers)
            assert refused.status == 403, (origin, headers)
        assert (await server.service.show("default", tool.id)).tool.status == "pending"


async def test_a_browser_that_sends_no_origin_but_says_that_the_page_is_ours_is_believed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        fields = {**page.forms()["approve"]}
        headers = {"sec-fetch-site": "same-origin"}
        assert (await boss.posts(f"{HOME}/{tool.id}/approve", fields, origin=None, **headers)).status == 200


async def test_signing_in_needs_a_token_too(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss, browser(server) as other:
        key = await server.key(BOSS)
        page = await boss.opens(HOME)
        assert (await boss.sends(page, "sign-in", key=key, token=None)).status == 403
        assert (await boss.sends(page, "sign-in", key=key, origin="https://evil.example")).status == 403
        assert (await other.sends(page, "sign-in", key=key)).status == 403
        assert boss.cookie() == other.cookie() == ""


async def test_signing_out_needs_a_token_too(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        page = await boss.signs_in(BOSS)
        assert (await boss.sends(page, "sign-out", token=None)).status == 403
        assert (await boss.opens(HOME)).path == HOME


async def test_a_form_of_a_session_that_is_over_does_nothing_and_says_so(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        await server.database.keys.revoke("boss of default")
        late = await boss.sends(page, "approve")
        assert late.status == 401
        assert "Your session is over, and nothing was done" in late.text
        assert (await server.service.show("default", tool.id)).tool.status == "pending"


_FORM = "application/x-www-form-urlencoded"
WRONG_BODIES = (
    (b'{"token": "x"}', "application/json", 400),
    (b"token=x", "text/plain", 400),
    (b"token=x&" + b"a" * 70_000, _FORM, 413),
    (b"&".join(b"a%d=1" % number for number in range(60)), _FORM, 400),
    (b"token=%ff", _FORM, 400),
    ("token=ü".encode(), _FORM, 400),
)


async def test_a_body_that_is_no_small_form_is_refused(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        await boss.signs_in(BOSS)
        url = f"{server.url}{HOME}/{tool.id}/approve"
        for body, kind, status in WRONG_BODIES:
            headers = {"origin": server.url, "content-type": kind}
            async with boss.web.post(url, data=body, headers=headers) as answer:
                assert answer.status == status, body[:40]


@pytest.mark.parametrize(
    "query", ["next=%FF", "next=%ED%A0%80", "&".join(["a=1"] * 60), "%C3"], ids=["byte", "surrogate", "many", "half"]
)
async def test_an_address_that_cannot_be_read_is_refused_like_a_form_and_not_an_error_of_the_server(
    tmp_path: Path, query: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        good = await boss.signs_in(BOSS)
        for path in ("/console/sign-in", HOME):
            async with boss.web.get(URL(f"{server.url}{path}?{query}", encoded=True)) as answer:
                assert (answer.status, "The address cannot be read" in await answer.text()) == (400, True)
                for name in ("content-security-policy", "x-frame-options", "cache-control"):
                    assert answer.headers[name] == good.headers[name]
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_no_odd_text_in_a_path_cookie_or_field_is_an_error_of_the_server(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        for text in ("\0", "\r\nx: y", "\u202e", "\U0001f4a9" * 500, "١", "²", "a" * 20_000):
            for path in (f"{HOME}/{quote(text[:1_000], safe='')}", f"/console/{quote(text[:1_000], safe='')}"):
                async with boss.web.get(URL(f"{server.url}{path}", encoded=True)) as answer:
                    assert answer.status == 404, path
            for verb in VERBS:
                fields = {**page.forms()["approve"], "version": text, "note": text, "name": text, "scope": text}
                if verb != "delete":
                    assert (await boss.posts(f"{HOME}/{tool.id}/{verb}", fields)).status < 500, (verb, text)
        for cookie in ("=;;=", "toolcaddie-session", "toolcaddie-session=a; toolcaddie-session=b", "toolcaddie-form=ü"):
            async with aiohttp.request("GET", f"{server.url}/console/sign-in", headers={"cookie": cookie}) as answer:
                assert answer.status == 200, cookie


async def test_other_methods_are_refused(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        await boss.signs_in(BOSS)
        for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
            async with boss.web.request(method, f"{server.url}{HOME}") as answer:
                assert answer.status == 405


async def test_a_page_only_looks(tmp_path: Path) -> None:
    """Source: CSRF. Nothing changes by an address that is only opened."""
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        await boss.signs_in(BOSS)
        for verb in VERBS:
            assert (await boss.opens(f"{HOME}/{tool.id}/{verb}")).status == 405
        assert (await boss.opens("/console/sign-out")).status == 405
        assert (await boss.opens(HOME)).path == HOME
