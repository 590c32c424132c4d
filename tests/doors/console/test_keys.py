"""The console's pages of API keys: made once with their secret, limited, revoked; only by an admin of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.console.browser import browser
from tests.doors.console.full import ADMIN, OPERATOR, console
from toolcaddie.core.control import Principal
from toolcaddie.storage.audits import RowQuery

pytestmark = pytest.mark.anyio

KEYS = "/console/keys"
ADMIN_OF_ACME = Principal(id="ana", role="admin", tenant="acme")


async def test_an_admin_makes_a_key_whose_secret_is_shown_once_and_is_in_no_record(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=KEYS)
        made = await ada.sends(page, "add", name="laptop", role="staff", requests_per_minute="60")
        assert made.status == 201
        secret = made.tree.css_first("pre.code").text()
        key = await server.parts.keys.check(secret)
        assert key is not None
        assert (key.name, key.principal.role, dict(key.limits)) == ("laptop", "staff", {"requests_per_minute": 60})
        rows = [row.record.data async for row in server.parts.database.audits.rows(RowQuery())]
        assert any(row.get("path") == f"{KEYS}/add" for row in rows)
        assert secret not in str(rows)
        page = await ada.opens(KEYS)
        assert "60 requests per minute" in page.text
        assert secret not in page.html


async def test_a_revoked_key_stays_in_the_list_and_opens_nothing(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        await ada.signs_in(ADMIN, then=KEYS)
        secret = await server.key(OPERATOR)
        key = await server.parts.keys.check(secret)
        assert key is not None
        page = await ada.opens(f"{KEYS}/{key.id}")
        page = await ada.sends(page, "limit", dollars_per_day="2.5", tokens_per_day="none")
        assert "2.5 dollars per day" in page.text
        page = await ada.sends(page, "revoke")
        assert "Revoked." in page.text
        assert await server.parts.keys.check(secret) is None


async def test_a_wrong_limit_shows_the_form_again_with_the_reason_at_its_field(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        await ada.signs_in(ADMIN, then=KEYS)
        [key] = await server.parts.keys.list()
        page = await ada.opens(f"{KEYS}/{key.id}")
        page = await ada.sends(page, "limit", dollars_per_day="2.5", tokens_per_day="many")
        assert page.status == 400
        values = {each.attributes["name"]: each.attributes.get("value") for each in page.tree.css("main input[id]")}
        assert (values["dollars_per_day"], values["tokens_per_day"]) == ("2.5", "many")
        (wrong,) = page.tree.css("[aria-invalid]")
        assert wrong.attributes["name"] == "tokens_per_day"
        assert "write a number" in page.tree.css_first(f"#{wrong.attributes['aria-describedby']}").text()
        assert not (await server.parts.keys.list())[0].limits
        page = await ada.sends(page, "limit", dollars_per_day="2.5", tokens_per_day="100")
        assert "2.5 dollars per day" in page.text


async def test_an_admin_does_not_revoke_the_key_of_the_own_session(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        await ada.signs_in(ADMIN, then=KEYS)
        [key] = await server.parts.keys.list()
        page = await ada.opens(f"{KEYS}/{key.id}")
        assert "revoke" not in page.forms()
        answer = await ada.posts(f"{KEYS}/{key.id}/revoke", {"token": page.forms()["limit"]["token"]})
        assert answer.status == 400
        assert (await server.parts.keys.list())[0].revoked is None


@pytest.mark.parametrize("person", [OPERATOR, ADMIN_OF_ACME], ids=["operator", "admin of a tenant"])
async def test_only_an_admin_of_the_server_sees_or_makes_keys(tmp_path: Path, person: Principal) -> None:
    async with console(tmp_path) as server, browser(server) as other:
        page = await other.signs_in(person, then=KEYS)
        assert page.status == 403
        token = page.tree.css_first("form.who input").attributes["value"] or ""
        answer = await other.posts(f"{KEYS}/add", {"token": token, "name": "mine", "role": "admin"})
        assert answer.status == 403
        assert [key.name for key in await server.parts.keys.list()] == [f"{person.id} of {person.tenant}"]


async def test_the_first_key_of_a_server_is_that_of_an_admin(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as local:
        page = await local.opens(KEYS)
        page = await local.sends(page, "sign-in")
        page = await local.opens(KEYS)
        refused = await local.sends(page, "add", name="laptop")
        assert refused.status == 400
        assert "give it the role 'admin'" in refused.text
        made = await local.sends(page, "add", name="ada", role="admin")
        assert made.status == 201
        assert len(await server.parts.keys.list()) == 1


async def test_a_limit_that_is_no_number_names_what_to_write(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=KEYS)
        answer = await ada.sends(page, "add", name="laptop", tokens_per_day="many")
        assert answer.status == 400
        assert "write a number, none or default" in answer.text
        assert len(await server.parts.keys.list()) == 1
