"""Explains a policy: the outcome of a call, and the calls of the past that would end otherwise under it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from toolcaddie.control.policy.cedar.policy import CedarPolicy
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord
from toolcaddie.core.tool import Tool

Outcome = Literal["allow", "ask", "deny", "hidden"]
REPLAYED = ("run_started", "call_decided")
"""The kinds of records that a replay needs."""


class Explanation(Struct, frozen=True, kw_only=True):
    """What happens to a call: `hidden` if the caller does not even see the tool."""

    outcome: Outcome
    rules: Sequence[str]
    reason: str


class Difference(Struct, frozen=True, kw_only=True):
    """A recorded decision, and the outcome of the same call under another policy."""

    run_id: str
    call_id: str
    principal: str
    tool: str
    arguments: str
    recorded: str
    outcome: Outcome
    rules: Sequence[str]
    reason: str


class Replay(Struct, kw_only=True):
    """The recorded calls under another policy."""

    calls: int = 0
    differences: list[Difference] = []
    unknown_tools: dict[str, int] = {}
    """Numbers of calls of tools that the catalog does not have, by name. They were not judged."""
    cut: int = 0
    """Number of calls whose recorded arguments are not whole, judged by their tool and caller alone."""


def explained(
    policy: CedarPolicy,
    visibility: Visibility,
    tool: Tool,
    principal: Principal,
    arguments: Mapping[str, Any],
    taint: Sequence[str],
    effects: Sequence[str] = (),
) -> Explanation:
    """Returns the outcome of a call with these facts, and the rules or settings that determined it. `visibility`: the
    restrictions of tools and bots, as a run has them."""
    if (hidden := visibility.restriction(tool, principal)) is not None:
        return Explanation(outcome="hidden", rules=[hidden.rule], reason=hidden.reason)
    visible, rules = policy.sees(principal, tool)
    if not visible:
        reasons = "; ".join(rule.reason for rule in rules if rule.reason)
        reason = reasons or "no rule permits it, or one cannot be evaluated"
        return Explanation(outcome="hidden", rules=[rule.id for rule in rules], reason=reason)
    decision = policy.decision(principal, tool, arguments, taint=taint, effects=effects)
    return Explanation(outcome=decision.verdict, rules=decision.rule.split(", "), reason=decision.reason)


def replay(
    records: Iterable[EventRecord], policy: CedarPolicy, visibility: Visibility, catalog: Catalog, result: Replay
) -> None:
    """Judges the recorded calls of some runs by a policy, and adds them to `result`. Records of one run are in order. A call that
    was judged several times, because its run was resumed, counts once."""
    callers: dict[str, Principal] = {}
    judged: set[tuple[str, str]] = set()
    for record in records:
        if record.kind == "run_started":
            callers[record.run_id] = Principal(**record.data["principal"])
        elif record.kind == "call_decided" and (call := (record.run_id, record.data["id"])) not in judged:
            judged.add(call)
            result.differences.extend(_judged(record, callers.get(record.run_id), policy, visibility, catalog, result))


def _judged(
    record: EventRecord,
    caller: Principal | None,
    policy: CedarPolicy,
    visibility: Visibility,
    catalog: Catalog,
    result: Replay,
) -> Iterator[Difference]:
    data = record.data
    tool = catalog.get(data["name"])
    if tool is None or caller is None:
        result.unknown_tools[data["name"]] = result.unknown_tools.get(data["name"], 0) + 1
        return
    result.calls += 1
    arguments = _arguments(data)
    result.cut += arguments is None
    taint, effects = data.get("taint", ()), data.get("effects", ())
    explanation = explained(policy, visibility, tool, caller, arguments or {}, taint, effects)
    if explanation.outcome != data["verdict"]:
        yield Difference(
            run_id=record.run_id,
            call_id=data["id"],
            principal=caller.id,
            tool=tool.name,
            arguments=data.get("arguments", ""),
            recorded=data["verdict"],
            outcome=explanation.outcome,
            rules=explanation.rules,
            reason=explanation.reason,
        )


def _arguments(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the arguments of a recorded call; None: the record does not have them whole."""
    if "arguments_sha256" in data:
        return None
    try:
        arguments = json.loads(data.get("arguments") or "")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None
