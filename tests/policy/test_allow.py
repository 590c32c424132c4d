"""Allow everything; roles and scopes hide what is not for the caller."""

from __future__ import annotations

import pytest

from toolcaddie.catalog import Catalog, View
from toolcaddie.policy.allow import AllowAll
from toolcaddie.run import Decision, Principal, RunContext
from toolcaddie.tool_types import Tool, ToolCall


def seen(policy: AllowAll, catalog: Catalog, **principal: str) -> list[str]:
    mask = policy.visible(catalog, Principal(**principal))
    return [tool.name for tool in View(catalog=catalog, mask=mask)]


RESTRICTED = Catalog.of(
    [
        Tool(name="open"),
        Tool(name="admins", roles=("admin", "owner")),
        Tool(name="bot7", scope="bot7"),
        Tool(name="both", scope="bot7", roles=("admin",)),
    ]
)


@pytest.mark.anyio
async def test_every_call_is_allowed_by_rule_default() -> None:
    tool = Tool(name="wipe")
    catalog = Catalog.of([tool])
    context = RunContext(run_id="r", principal=Principal(), view=View(catalog=catalog), model="m")
    decision = await AllowAll().decide(ToolCall(id="1", name="wipe"), tool, {}, context)
    assert isinstance(decision, Decision)
    assert (decision.verdict, decision.rule) == ("allow", "default")


def test_a_catalog_without_restrictions_needs_no_mask() -> None:
    assert AllowAll().visible(Catalog.of([Tool(name="a")]), Principal()) is None


def test_roles_and_scope_decide_what_is_seen() -> None:
    policy = AllowAll()
    assert seen(policy, RESTRICTED) == ["open"]
    assert seen(policy, RESTRICTED, role="owner") == ["open", "admins"]
    assert seen(policy, RESTRICTED, bot="bot7") == ["open", "bot7"]
    assert seen(policy, RESTRICTED, bot="bot7", role="admin") == ["open", "admins", "bot7", "both"]
    assert seen(policy, RESTRICTED, bot="all") == ["open"]


def test_the_mask_of_a_role_and_bot_is_made_once_and_cannot_be_changed() -> None:
    policy = AllowAll()
    mask = policy.visible(RESTRICTED, Principal(id="a", role="admin"))
    assert mask is not None
    assert policy.visible(RESTRICTED, Principal(id="b", role="admin")) is mask
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = False


def test_catalogs_that_come_and_go_are_not_kept() -> None:
    policy = AllowAll()
    for number in range(50):
        catalog = Catalog.of([Tool(name=f"t{number}", roles=("admin",)), Tool(name="open")])
        assert seen(policy, catalog) == ["open"]
    assert seen(policy, RESTRICTED) == ["open"]
    assert len(policy._known) <= 4
