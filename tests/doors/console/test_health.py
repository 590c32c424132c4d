"""The health of the server in the console: what the process knows, and looks at what is outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import ON_POSTGRESQL, sqlite_only
from tests.doors.console.browser import browser
from tests.doors.console.full import ADMIN, OPERATOR, VIEWER, console
from tests.doors.console.test_catalog import data
from toolcaddie import __version__
from toolcaddie.app.settings import PartSettings
from toolcaddie.core.control import Principal
from toolcaddie.testing import ScriptedUpstream
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

HOME = "/console/health"


async def test_the_page_says_what_works_with_its_numbers(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        page = await vera.signs_in(VIEWER, then=HOME)
        assert "Health ready" in page.text
        assert ("postgresql://" if ON_POSTGRESQL else "console.sqlite") in page.text
        assert f"Toolcaddie {__version__}" in page.text
        assert not page.tree.css("a.button")
        health = (await data(server, replace(VIEWER, id="vic"), HOME))["health"]
        assert health["ready"]["ready"] is True
        assert health["database"]["size"] > 0
        assert health["process"]["memory"] > 10_000_000
        assert health["tools"] == len(server.parts.runtime.source.snapshot())
        (process,) = health["processes"]
        assert process["number"] == health["own_lease"]


@sqlite_only("a file that goes away under the process")
async def test_a_database_that_takes_no_write_is_not_ready_with_the_reason(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=HOME)
        assert "Health ready" in page.text
        (tmp_path / "console.sqlite").rename(tmp_path / "elsewhere.sqlite")
        page = await ada.opens(HOME)
        assert "Health ready" not in page.text
        (tmp_path / "elsewhere.sqlite").rename(tmp_path / "console.sqlite")
        assert "Health ready" in (await ada.opens(HOME)).text


async def test_a_source_that_does_not_work_is_named(tmp_path: Path) -> None:
    gone = PartSettings(type="mcp", config={"name": "gone", "command": "/no/such/program"})
    async with console(tmp_path, source=(gone,)) as server, browser(server) as vera:
        page = await vera.signs_in(VIEWER, then=HOME)
        assert "A source does not work: gone" in page.text


async def test_an_operator_asks_the_upstream_whether_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    async with (
        ScriptedUpstream([], models=("gpt-test", "gpt-other")) as upstream,
        console(tmp_path, upstream=upstream) as server,
        browser(server) as otto,
    ):
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/upstream")
        assert "works" in page.text
        assert "gpt-other" in page.text
        upstream.api_key = "another-key"
        page = await otto.opens(f"{HOME}/upstream")
        assert "fails" in page.text


async def test_an_operator_looks_at_the_sandbox_and_at_this_machine(tmp_path: Path) -> None:
    plain = PartSettings(type="plain", config={})
    host = PartSettings(type="host", config={"groups": ["response"]})
    async with console(tmp_path, sandbox=plain, source=(host,)) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=f"{HOME}/sandbox")
        assert "does not hold" in page.text
        page = await otto.opens(f"{HOME}/host")
        assert "It depends on nothing." in page.text


async def test_the_health_of_the_server_is_for_its_own_tenant_and_looks_are_for_operators(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera, browser(server) as other:
        await vera.signs_in(VIEWER, then=HOME)
        for look in ("upstream", "sandbox", "host"):
            assert (await vera.opens(f"{HOME}/{look}")).status == 403
        admin = Principal(id="ada", role="admin", tenant="acme")
        assert (await other.signs_in(admin, then=HOME)).status == 403
