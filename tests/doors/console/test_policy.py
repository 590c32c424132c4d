"""The console's pages of the policy: rules, check, explanation of a decision, other rules on the calls of the past."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.console.browser import browser
from tests.doors.console.full import OPERATOR, VIEWER, console
from toolcaddie.app.settings import PartSettings
from toolcaddie.core.control import Principal

pytestmark = pytest.mark.anyio

POLICY = "/console/policy"
QUIET = '@id("quiet")\nforbid (principal, action, resource)\nwhen { false };'
RULES = PartSettings(type="cedar", config={"deny": ["delete_*"], "text": QUIET})
FORBID = 'forbid (principal, action == Action::"call", resource);'


async def test_the_rules_stand_there_with_their_places_and_line_numbers(tmp_path: Path) -> None:
    async with console(tmp_path, policy=RULES) as server, browser(server) as vera:
        page = await vera.signs_in(VIEWER, then=POLICY)
        assert "quiet policy:1" in page.text
        assert "3 when { false };" in page.text


async def test_a_decision_is_explained_for_a_person_a_tool_and_arguments(tmp_path: Path) -> None:
    async with console(tmp_path, policy=RULES) as server, browser(server) as vera:
        await vera.signs_in(VIEWER, then=POLICY)
        address = f"{POLICY}/explain?person=ann&tool=delete_client&arguments=%7B%22client_id%22%3A7%7D"
        answer = json.loads((await vera.opens(address, accept="application/json")).html)
        assert answer["explanation"]["outcome"] in ("deny", "hidden")
        assert answer["explanation"]["rules"]
        assert "delete_client" in (await vera.opens(address)).text
        page = await vera.opens(f"{POLICY}/explain?person=ann&tool=delete_clint")
        assert page.status == 400
        assert "did you mean delete_client" in page.text


async def test_a_check_names_what_nothing_has(tmp_path: Path) -> None:
    policy = PartSettings(type="cedar", config={"deny": ["no_such_tool"]})
    async with console(tmp_path, policy=policy) as server, browser(server) as vera:
        await vera.signs_in(VIEWER, then=POLICY)
        assert "no_such_tool" in (await vera.opens(f"{POLICY}/check")).text


async def test_other_rules_are_tried_on_the_calls_of_the_past_and_nothing_changes(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        version = server.parts.runtime.policy.version
        await server.parts.runtime.run("what classes are there?", principal=Principal(id="ann"))
        await otto.signs_in(OPERATOR, then=POLICY)
        page = await otto.opens(f"{POLICY}/try")
        same = await otto.sends(page, "try", text="")
        assert "0 of 1 recorded calls would be decided otherwise" in same.text
        other = await otto.sends(page, "try", text=FORBID)
        assert "1 of 1 recorded calls would be decided otherwise" in other.text
        wrong = await otto.sends(page, "try", text="forbid everything;")
        assert wrong.status == 400
        assert "policy:1" in wrong.text
        assert server.parts.runtime.policy.version == version


async def test_people_of_a_tenant_and_viewers_do_not_try_rules(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera, browser(server) as otis:
        page = await vera.signs_in(VIEWER, then=f"{POLICY}/try")
        assert page.status == 403
        page = await otis.signs_in(Principal(id="otis", role="operator", tenant="acme"), then=POLICY)
        assert page.status == 403
