"""What a principal sees is the same, whether tools are judged together by what rules look at, or one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import Tool, ToolAnnotations

CONDITIONS = [
    "resource.read_only",
    "resource.may_destroy",
    'resource.name like "a*"',
    'resource.name == "b1"',
    'resource == Tool::"a2"',
    '[Tool::"b1", Tool::"a1"].contains(resource)',
    'resource in Category::"x"',
    'resource has category && resource.category == "y"',
    'resource.tags.contains("t")',
    'resource.source == "s"',
    'resource in Source::"local"',
    'principal in Role::"admin"',
    'principal == Principal::"ann"',
    'principal.id == "bob"',
    'principal has bot && principal.bot == "shop"',
    'principal in Tenant::"acme"',
    'principal in Channel::"mcp"',
    "resource.category == resource.source",
    "principal == resource",
    "context.tainted",
]
SCOPES = ["action", 'action == Action::"see"', 'action in [Action::"see", Action::"call"]', 'action == Action::"call"']

rules = st.lists(
    st.tuples(
        st.sampled_from(["permit", "forbid"]), st.sampled_from(SCOPES), st.sampled_from(CONDITIONS), st.booleans()
    ),
    max_size=5,
)
annotations = st.builds(
    ToolAnnotations, read_only=st.sampled_from([None, True]), destructive=st.sampled_from([None, False, True])
)
tools = st.lists(
    st.builds(
        Tool,
        name=st.sampled_from(["a1", "a2", "b1", "b2", "c"]),
        category=st.sampled_from([None, "x", "y", "s"]),
        source=st.sampled_from(["s", "local"]),
        tags=st.sampled_from([(), ("t",)]),
        annotations=annotations,
    ),
    max_size=5,
    unique_by=lambda tool: tool.name,
)
principals = st.lists(
    st.builds(
        Principal,
        id=st.sampled_from(["ann", "bob"]),
        role=st.sampled_from([None, "admin"]),
        bot=st.sampled_from([None, "shop"]),
        tenant=st.sampled_from(["default", "acme"]),
        channel=st.sampled_from([None, "mcp"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(rules, tools, principals, st.booleans())
def test_a_mask_shows_what_each_tool_alone_would_show(
    drawn: list[Any], catalog_tools: list[Tool], callers: list[Principal], defaults: bool
) -> None:
    text = "\n".join(
        f"{effect} (principal, {scope}, resource) {'unless' if negated else 'when'} {{ {condition} }};"
        for effect, scope, condition, negated in drawn
    )
    policy, catalog = CedarPolicy(text=text, defaults=defaults), Catalog.of(catalog_tools)
    for caller in callers:
        mask = policy.visible(catalog, caller)
        shown = [True] * len(catalog) if mask is None else [bool(each) for each in mask]
        assert shown == [policy.sees(caller, tool)[0] for tool in catalog.tools]
