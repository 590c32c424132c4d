"""Rules that look at arguments are judged apart from the others: both together decide like one set."""

from __future__ import annotations

from typing import Any

import cedarpy
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.entities import document, principal_entity, principal_uid, tool_entity, uid
from toolcaddie.control.policy.cedar.statements import policy_set
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import Tool, ToolAnnotations

ANN = Principal(id="ann", role="staff")
PAY = Tool(
    name="pay",
    input_schema={"type": "object", "properties": {"amount": {"type": "integer"}}},
    annotations=ToolAnnotations(destructive=True),
)
CONDITIONS = (
    "true",
    "resource.may_destroy",
    'principal in Role::"staff"',
    "context.tainted",
    "context.arguments has amount",
    "context.arguments.amount > 5",
    'context.arguments.missing == "x"',
    "principal.missing",
)
rule = st.builds(
    "{} (principal, action{}, resource) when {{ {} }};".format,
    st.sampled_from(["permit", "forbid"]),
    st.sampled_from(["", ' == Action::"call"', ' == Action::"call_unasked"']),
    st.sampled_from(CONDITIONS),
)


def as_one_set(policy: CedarPolicy, arguments: dict[str, Any], tainted: bool) -> str:
    """Returns the verdict of all rules together, without a split and without caches."""
    entities = cedarpy.Entities.from_json_str(document(principal_entity(ANN), tool_entity(PAY, never_ask=False)))
    context = {"tainted": tainted, "taint": ["web"] if tainted else [], "arguments": arguments}
    rules, allowed = policy_set(policy.rules), []
    for action in ("call", "call_unasked"):
        asked = {"principal": principal_uid(ANN), "action": uid("Action", action), "resource": uid("Tool", "pay")}
        result = cedarpy.is_authorized({**asked, "context": context}, rules, entities)
        if result.diagnostics.errors:
            return "deny"
        allowed.append(result.allowed)
    call, unasked = allowed
    return ("allow" if unasked else "ask") if call else "deny"


@settings(max_examples=150, deadline=None)
@given(
    rules=st.lists(rule, max_size=5),
    defaults=st.booleans(),
    calls=st.lists(
        st.tuples(st.sampled_from([{}, {"amount": 1}, {"amount": 9}]), st.booleans()), min_size=1, max_size=4
    ),
)
def test_both_sets_decide_like_one(rules: list[str], defaults: bool, calls: list[tuple[dict[str, Any], bool]]) -> None:
    policy = CedarPolicy(text="\n".join(rules), defaults=defaults)
    for arguments, tainted in calls:
        decision = policy.decision(ANN, PAY, arguments, taint=["web"] if tainted else [])
        assert decision.verdict == as_one_set(policy, arguments, tainted)
