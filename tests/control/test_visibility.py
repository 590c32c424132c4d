"""Restrictions of tools by roles and scope hold under every policy, on every way to a tool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from toolcaddie import Bot
from toolcaddie.control.bots import Bots
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask, View
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.meta_names import (
    EXECUTE_TOOL,
    GET_TOOL_SCHEMA,
    LIST_TOOLS,
    REQUEST_MORE_TOOLS,
    RESPOND,
    SEARCH_TOOLS,
)
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

ran: list[str] = []
GUEST, ADMIN = Principal(id="gus", role="guest"), Principal(id="ada", role="admin")


@tool(roles=["admin"], category="members", description="Erase all members of the club.")
def erase_members() -> str:
    ran.append("erase_members")
    return "erased"


@tool(scope="night-bot", category="members", description="Lock the doors behind all members.")
def lock_doors() -> str:
    ran.append("lock_doors")
    return "locked"


@tool(category="members", read_only=True, description="Count the members of the club.")
def count_members() -> int:
    ran.append("count_members")
    return 3


HIDDEN = ("erase_members", "lock_doors")


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    ran.clear()


class ShowsAll:
    """A policy that shows everything, and allows or asks."""

    version = "stranger"

    def __init__(self, verdict: Any = "allow", mask: bool = False) -> None:
        self._verdict = verdict
        self._mask = mask

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return np.ones(len(catalog), dtype=np.bool_) if self._mask else None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict=self._verdict)


STRANGER = ShowsAll()


def club(*steps: Any, preset: str = "default", policy: Any = STRANGER, **options: Any) -> Runtime:
    return Runtime(
        provider=ScriptedProvider([*steps, *([say("done")] * 3)]),
        sources=[erase_members, lock_doors, count_members],
        preset=preset,
        policy=policy,
        **options,
    )


def read_by_the_model(runtime: Runtime) -> str:
    """Returns everything that the model was sent, except for its own words."""
    requests = runtime.provider.requests  # type: ignore[attr-defined]
    said = [message.text for request in requests for message in request.messages if message.role == "tool"]
    return msgspec.json.encode([request.tools for request in requests]).decode() + " ".join(said)


@pytest.mark.parametrize("policy", [None, ShowsAll(), ShowsAll(mask=True), ShowsAll("ask")])
@pytest.mark.parametrize("preset", ["default", "budget", "keyword", "multibot", "forced", "compact"])
async def test_a_guest_is_never_shown_an_admins_tool_under_any_policy_or_preset(policy: Any, preset: str) -> None:
    runtime = club(preset=preset, policy=policy)
    assert [shown.name for shown in runtime.view(RunRequest(messages=(), principal=GUEST))] == ["count_members"]
    selection, delivery = runtime.preview("erase all members and lock the doors", principal=GUEST)
    assert not set(HIDDEN) & {*selection.names, *(sent.name for sent in delivery.tools)}
    assert runtime.explain("erase_members", "erase all members", principal=GUEST).stage == "hidden"
    await runtime.run("erase all members and lock the doors", principal=GUEST)
    assert not any(name in read_by_the_model(runtime) for name in HIDDEN)


@pytest.mark.parametrize("name", HIDDEN)
async def test_a_guest_runs_neither_by_a_direct_call_nor_through_execute_tool(name: str) -> None:
    runtime = club(call(name), call(EXECUTE_TOOL, {"tool_name": name}), preset="multibot")
    result = await runtime.run("go", principal=GUEST)
    wrapped = club(call(EXECUTE_TOOL, {"tool_name": name}), call(RESPOND, {"message": "x"}), preset="compact")
    await wrapped.run("go", principal=GUEST)
    assert (ran, result.tool_calls) == ([], ())
    assert f"There is no tool '{name}'" in read_by_the_model(runtime)
    assert f"There is no tool '{name}'" in read_by_the_model(wrapped)
    answer = await runtime.call(name, {}, principal=GUEST)
    assert (answer.error, ran) == ("unknown_tool", [])


async def test_a_guest_finds_it_neither_by_listing_nor_searching_nor_schema_nor_asking_for_more() -> None:
    runtime = club(
        call(LIST_TOOLS, {}),
        call(SEARCH_TOOLS, {"query": "erase members lock doors"}),
        call(GET_TOOL_SCHEMA, {"tool_name": "erase_members"}),
        call(RESPOND, {"message": "x"}),
        preset="compact",
    )
    await runtime.run("go", principal=GUEST)
    told = read_by_the_model(runtime)
    assert "count_members" in told
    assert "There is no tool 'erase_members'" in told
    assert "Erase all" not in told
    assert "lock_doors" not in told
    asking = club(call(REQUEST_MORE_TOOLS, {"categories": ["members"]}), preset="budget")
    await asking.run("nothing that fits", principal=GUEST)
    assert "Loaded 1 tools: count_members" in read_by_the_model(asking)


async def test_an_admin_and_the_bot_it_is_for_see_and_run_it_under_the_same_policy() -> None:
    runtime = club(call("erase_members"))
    await runtime.run("erase", principal=ADMIN)
    assert ran == ["erase_members"]
    await runtime.call("lock_doors", {}, principal=Principal(bot="night-bot"))
    assert ran == ["erase_members", "lock_doors"]


async def test_a_run_that_an_admin_left_is_not_carried_on_with_an_admins_tool_by_a_guest() -> None:
    runtime = club(call("erase_members", call_id="c1"), policy=ShowsAll("ask"))
    paused = await runtime.run("erase", principal=Principal(id="ann", role="admin"))
    assert paused.status == "pending"
    result = await runtime.resume(paused.run_id, approvals={"c1": True}, principal=Principal(id="ann", role="guest"))
    assert (ran, result.tool_calls) == ([], ())


async def test_a_tool_may_be_hidden_by_the_policy_as_well() -> None:
    class HidesCounting(ShowsAll):
        def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
            return np.array([shown.name != "count_members" for shown in catalog], dtype=np.bool_)

    runtime = club(policy=HidesCounting())
    assert [shown.name for shown in runtime.view(RunRequest(messages=(), principal=ADMIN))] == ["erase_members"]


def test_enabled_categories_hold_for_everyone_and_together_with_a_bots_own() -> None:
    tools = [tool(category=name)(_named(f"{name}_tool")) for name in ("notes", "web", "mail")]
    runtime = Runtime(
        provider=ScriptedProvider([]),
        sources=[FunctionSource("s", tools)],
        categories=["notes", "web"],
        bots={"writer": Bot(categories=("notes", "mail")), "all": Bot()},
    )
    for bot, visible in (("writer", ["notes_tool"]), ("all", ["notes_tool", "web_tool"])):
        view = runtime.view(RunRequest(messages=(), principal=Principal(bot=bot)))
        assert [shown.name for shown in view] == visible
    with pytest.raises(ConfigError, match=r"catalog\.categories: there is no category 'nots'; did you mean 'notes'"):
        Runtime(provider=ScriptedProvider([]), sources=[FunctionSource("s", tools)], categories=["nots"])


def test_a_callers_own_tools_belong_to_no_category_and_stay_where_categories_are_enabled() -> None:
    mine = Tool(name="open_door", description="Open the door.", source="client")
    runtime = Runtime(
        provider=ScriptedProvider([]),
        sources=[FunctionSource("s", [tool(category="notes")(_named("note")), tool(category="web")(_named("page"))])],
        categories=["notes"],
    )
    view = runtime.view(RunRequest(messages=(), client_tools=(mine,)))
    assert [shown.name for shown in view] == ["open_door", "note"]


def _named(name: str) -> Any:
    def run() -> str:
        return name

    run.__name__ = name
    run.__doc__ = f"Runs {name}."
    return run


# --- masks that are kept


def _restricted_catalog(number: int) -> Catalog:
    return Catalog.of([Tool(name=f"open_{number}"), Tool(name=f"admin_{number}", roles=("admin",))], ())


def test_an_unrestricted_catalog_needs_no_mask() -> None:
    assert Visibility(Bots()).mask(Catalog.of([Tool(name="open")], ()), GUEST) is None


def test_a_mask_is_made_once_for_a_role_and_bot() -> None:
    visibility, catalog = Visibility(Bots()), _restricted_catalog(1)
    mask = visibility.mask(catalog, GUEST)
    assert mask == bytes([1, 0])
    assert visibility.mask(catalog, Principal(id="another", role="guest")) is mask
    assert visibility.mask(catalog, ADMIN) is None  # everything is visible
    assert visibility.mask(catalog, GUEST) is mask


def test_masks_of_four_catalogs_are_kept_and_those_of_the_oldest_are_made_again() -> None:
    visibility, catalogs = Visibility(Bots()), [_restricted_catalog(number) for number in range(5)]
    masks = [visibility.mask(catalog, GUEST) for catalog in catalogs]
    assert all(visibility.mask(catalog, GUEST) is mask for catalog, mask in zip(catalogs[1:], masks[1:], strict=True))
    again = visibility.mask(catalogs[0], GUEST)
    assert again == masks[0]
    assert again is not masks[0]


def test_masks_of_a_thousand_callers_are_kept_and_all_of_them_are_right() -> None:
    visibility, catalog = Visibility(Bots()), _restricted_catalog(1)
    first = visibility.mask(catalog, GUEST)
    for number in range(999):
        assert visibility.mask(catalog, Principal(id="p", role=f"role-{number}")) == bytes([1, 0])
    assert visibility.mask(catalog, GUEST) is first
    assert visibility.mask(catalog, ADMIN) is None  # everything is visible
    again = visibility.mask(catalog, GUEST)
    assert again == first
    assert again is not first


@pytest.mark.parametrize("role", [None, "admin", "guest"])
@pytest.mark.parametrize("bot", [None, "front", "back", "closed"])
def test_one_tool_is_hidden_for_the_reason_for_which_the_mask_hides_it(role: str | None, bot: str | None) -> None:
    bots = Bots(
        {"front": Bot(disabled_tools=("open",)), "back": Bot(), "closed": Bot(categories=("rooms",))},
        categories=("rooms", "people"),
    )
    catalog = Catalog.of(
        [
            Tool(name="open", category="people"),
            Tool(name="rooms", category="rooms"),
            Tool(name="other", category="other"),
            Tool(name="without"),
            Tool(name="admins", category="rooms", roles=("admin",)),
            Tool(name="backs", category="rooms", scope="back"),
            Tool(name="clients", source=CLIENT_SOURCE),
        ]
    )
    principal, visibility = Principal(role=role, bot=bot), Visibility(bots)
    mask = visibility.mask(catalog, principal)
    assert mask is not None
    assert [visibility.restriction(tool, principal) is None for tool in catalog] == list(map(bool, mask))


OWNED = (
    Tool(name="everybodys"),
    Tool(name="of_the_north", tenant="north"),
    Tool(name="of_the_nurse", tenant="north", scope="nurse"),
    Tool(name="by_the_clerk", tenant="north", scope="nurse", creator="clerk"),
)


@pytest.mark.parametrize(
    ("principal", "seen"),
    [
        (Principal(tenant="south", bot="nurse"), "everybodys"),
        (Principal(tenant="south", bot="clerk"), "everybodys"),
        (Principal(tenant="north"), "everybodys of_the_north"),
        (Principal(tenant="north", bot="nurse"), "everybodys of_the_north of_the_nurse by_the_clerk"),
        (Principal(tenant="north", bot="clerk"), "everybodys of_the_north by_the_clerk"),
    ],
)
def test_a_tool_of_a_tenant_is_for_its_bots_and_for_the_one_that_wrote_it(principal: Principal, seen: str) -> None:
    catalog, visibility = Catalog.of(OWNED), Visibility(Bots())
    for _ in range(2):  # the second time from the cache, after the masks of others
        mask = visibility.mask(catalog, principal)
        assert [each.name for each in View(catalog=catalog, mask=mask)] == seen.split()
        visibility.mask(catalog, replace(principal, tenant="west"))
    for each in OWNED:
        restriction = visibility.restriction(each, principal)
        assert (restriction is None) == (each.name in seen.split())
        if principal.tenant == "south" and restriction is not None:
            assert restriction.rule == "tool.tenant"
