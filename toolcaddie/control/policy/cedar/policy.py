"""The policy in Cedar, a language for permissions (cedarpolicy.com). A tool is visible if a rule permits `see`. A call runs if
`call` is permitted, and without a question to a person if `call_unasked` is permitted too."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import cedarpy

from toolcaddie.control.policy.cedar.entities import (
    Entity,
    arguments_of,
    document,
    principal_entity,
    principal_facts,
    principal_uid,
    tool_entity,
    uid,
)
from toolcaddie.control.policy.cedar.interest import entities_in, interest_of
from toolcaddie.control.policy.cedar.judging import Outcome, Rules, joined
from toolcaddie.control.policy.cedar.named import unknown_names
from toolcaddie.control.policy.cedar.short_forms import (
    CategoryName,
    EffectPattern,
    Pattern,
    Restrictions,
    approver_rule,
    matching,
    naming_rule,
    quoted,
    rules_of,
)
from toolcaddie.control.policy.cedar.statements import Statement, check_ids, statements_of
from toolcaddie.control.policy.cedar.unused import KnownCallers, Written, expression, unused
from toolcaddie.core.approval import Approval
from toolcaddie.core.assessment import effect_names
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_SEE, _CALL, _UNASKED, _APPROVE = "see", "call", "call_unasked", "approve"
_MOST_ENTITIES = 4_096
"""The largest number of cached pairs of tool and principal."""
_MOST_MASKS = 256
_AT_ONCE = 250
"""The number of tools judged in one call of Cedar, which lets no other thread run meanwhile."""

_Shape = tuple[Any, ...]
"""Attributes of a principal, or of a tool, that rules can see."""


class CedarPolicy:
    """Decides by Cedar rules.

    Deny beats ask beats allow. A rule that cannot be evaluated denies the call. Raises `ConfigError`, which names file and line,
    for a rule that cannot be read.

    - `files`: files with rules, in addition to `text`.
    - `defaults`: True for the rules in `default.cedar`: everything is visible and may be called, and a person is asked where a
      call may destroy something. False: nothing is allowed that no rule permits.
    - `never_ask`: tools about which the defaults do not ask although they may destroy something.
    - `deny`, `ask`, `categories`, `deny_effects`, `ask_effects`, `bots`, `roles`, `channels`: rules in short form, as in
      `Restrictions`.
    - `approvers`: the people who may approve calls, also of tools that they cannot see: ids of principals, and roles as
      `role:NAME`. None: everybody of the tenant who sees the tool. Nobody may approve a call of their own, whatever the rules
      are.
    """

    def __init__(
        self,
        *,
        files: Sequence[str] = (),
        text: str = "",
        defaults: bool = True,
        never_ask: Sequence[Pattern] = (),
        deny: Sequence[Pattern] = (),
        ask: Sequence[Pattern] = (),
        categories: Sequence[CategoryName] | None = None,
        deny_effects: Sequence[EffectPattern] = (),
        ask_effects: Sequence[EffectPattern] = (),
        bots: Mapping[str, Restrictions] | None = None,
        roles: Mapping[str, Restrictions] | None = None,
        channels: Mapping[str, Restrictions] | None = None,
        approvers: Sequence[str] | None = None,
    ) -> None:
        everyone = Restrictions(
            deny=tuple(deny),
            ask=tuple(ask),
            categories=_tuple(categories),
            deny_effects=tuple(deny_effects),
            ask_effects=tuple(ask_effects),
        )
        self._own = [*statements_of(text, "policy"), *(rule for file in files for rule in _read(Path(file)))]
        """The rules that were written in Cedar."""
        self._written = Written(
            tables={
                "policy": everyone,
                **{f"policy.bots.{name}": table for name, table in (bots or {}).items()},
                **{f"policy.roles.{name}": table for name, table in (roles or {}).items()},
                **{f"policy.channels.{name}": table for name, table in (channels or {}).items()},
            },
            never_ask=tuple(never_ask),
            bots=tuple(bots or ()),
            roles=tuple(roles or ()),
            channels=tuple(channels or ()),
            approvers=tuple(approvers or ()),
            ruled_roles=frozenset(name for rule in self._own for kind, name in entities_in(rule) if kind == "Role"),
        )
        self._effect_patterns = {
            name: expression(name)
            for table in self._written.tables.values()
            for name in (*table.deny_effects, *table.ask_effects)
        }
        short = rules_of(everyone, bots=bots or {}, roles=roles or {}, channels=channels or {})
        self._rules: list[Statement] = [
            *(_default_rules() if defaults else ()),
            *statements_of(f"{short}\n{approver_rule(approvers)}", "[policy]"),
            *self._own,
        ]
        check_ids(self._rules)
        self._all = Rules(self._rules)
        self._naming = Rules(
            [
                *statements_of(naming_rule(approvers), "[policy]"),
                *(rule for rule in self._rules if _names_approvers(rule)),
            ]
        )
        """The rules that name people who may approve calls of tools that they cannot see."""
        self._never_ask = _Names(never_ask)
        about_calls = [rule for rule in self._rules if rule.actions != frozenset({_APPROVE})]
        self._version = _version(about_calls, never_ask)
        self._interest = interest_of(about_calls)
        self._seeing = interest_of(rule for rule in self._rules if rule.actions is None or _SEE in rule.actions)
        looks = [interest_of([rule]).call for rule in about_calls]
        self._steady = Rules([rule for rule, look in zip(about_calls, looks, strict=True) if not look])
        """The rules whose outcome is the same whatever the arguments and effects are."""
        self._looking = Rules([rule for rule, look in zip(about_calls, looks, strict=True) if look])
        """The rules that look at arguments or effects."""
        self._pairs: Bounded[_Shape, cedarpy.Entities] = Bounded(_MOST_ENTITIES)
        self._outcomes: Bounded[_Shape, Sequence[Outcome]] = Bounded(_MOST_ENTITIES)
        """Outcomes of the steady rules."""
        self._decisions: Bounded[_Shape, Decision] = Bounded(_MOST_ENTITIES)
        """Decisions, if no rule looks at arguments or effects."""
        self._masks: Bounded[tuple[str, _Shape], tuple[Mask | None]] = Bounded(_MOST_MASKS)
        about_answers = [rule for rule in self._rules if rule.actions is None or _APPROVE in rule.actions]
        self._answers_look = interest_of(about_answers).call
        """True if a rule about answers looks at arguments or effects."""
        self._approvers: Bounded[_Shape, Outcome] = Bounded(_MOST_ENTITIES)
        """Outcomes of these rules, if none looks at arguments or effects."""
        self._single: Bounded[_Shape, bool] = Bounded(_MOST_ENTITIES)
        """True for a principal who sees a single tool."""

    @property
    def version(self) -> str:
        return self._version

    @property
    def rules(self) -> Sequence[Statement]:
        return self._rules

    def names_nothing(self, catalog: Catalog, callers: KnownCallers) -> Sequence[str]:
        """Returns a sentence for each name in short forms and rules that no tool, category, source, bot or caller has. With an
        empty catalog, names of tools, categories and sources are not judged."""
        return [*unused(self._written, catalog, callers), *unknown_names(self._own, catalog, callers)]

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """Returns the tools that a principal may see; None: all. The caller's own tools are always visible to it.

        Those of single tools are cached apart: questions about them would displace the masks of whole catalogs.
        """
        if len(catalog) == 1:
            [tool] = catalog.tools
            return None if tool.source == CLIENT_SOURCE or self._sees_single(principal, tool) else b"\0"
        key = (catalog.version, self._signature(principal))
        cached = self._masks.get(key)
        if cached is None:
            cached = (self._mask(catalog, principal),)
            self._masks.put(key, cached)
        return cached[0]

    async def decide(self, request: CallRequest) -> Decision:
        principal, tool, taint = request.context.principal, request.judged_tool, request.state.taint
        if self._interest.call:
            effects = request.assessment.effects
            return self.decision(principal, tool, request.arguments, taint=taint, effects=effects)
        key = (_pair_key(principal, tool), taint)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.decision(principal, tool, {}, taint=taint)
            self._decisions.put(key, decision)
        return decision

    def decision(
        self,
        principal: Principal,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        taint: Sequence[str] = (),
        effects: Sequence[str] = (),
    ) -> Decision:
        """Returns the decision on a call with these facts."""
        key = (_pair_key(principal, tool), tuple(taint))
        outcomes = self._outcomes.get(key)
        context: dict[str, Any] = {"tainted": bool(taint), "taint": sorted(set(taint))}
        if outcomes is None:
            outcomes = self._steady.outcomes(_calls(principal, tool, context), self._pair(principal, tool))
            self._outcomes.put(key, outcomes)
        if self._interest.call:
            context |= {"arguments": arguments_of(arguments, tool), "effects": self._effects(effects)}
            more = self._looking.outcomes(_calls(principal, tool, context), self._pair(principal, tool))
            outcomes = [joined(*both) for both in zip(outcomes, more, strict=True)]
        for outcome in outcomes:
            if outcome.failed:
                return self._failure(tool, outcome)
        call, unasked = outcomes
        if not call.allowed:
            return self._decision("deny", call, "no rule allows it")
        if not unasked.allowed:
            return self._decision("ask", unasked, "no rule allows it without a question")
        return self._decision("allow", unasked, "")

    def approver_decision(self, approval: Approval, person: Principal) -> Decision:
        """Returns whether the rules about `approve` allow this person to approve this call."""
        if (tool := approval.subject) is None:
            reason = "the question is from an older version of Toolcaddie; resume the run to ask again"
            return Decision(verdict="deny", reason=reason, rule="error", policy_version=self._version)
        outcome = self._approving(self._all, approval, tool, person)
        if outcome.failed:
            return self._failure(tool, outcome)
        return self._decision("allow" if outcome.allowed else "deny", outcome, "no rule allows it")

    def names_approver(self, approval: Approval, person: Principal) -> bool:
        """Returns True if `approvers`, or the head of a rule that permits only `approve`, names this person or their role."""
        if (tool := approval.subject) is None:
            return False
        outcome = self._approving(self._naming, approval, tool, person)
        return outcome.allowed and not outcome.failed

    def _approving(self, rules: Rules, approval: Approval, tool: Tool, person: Principal) -> Outcome:
        """Returns what rules say of an answer of this person."""
        if self._answers_look:
            return self._judged_answer(rules, approval, tool, person)
        taint = tuple(sorted(set(approval.taint)))
        key = (rules is self._naming, _pair_key(person, tool), approval.principal, taint)
        outcome = self._approvers.get(key)
        if outcome is None:
            # Without what the rules do not look at, so that nothing in one call can decide about the others.
            outcome = self._judged_answer(rules, replace(approval, arguments={}, effects=()), tool, person)
            self._approvers.put(key, outcome)
        return outcome

    def _judged_answer(self, rules: Rules, approval: Approval, tool: Tool, person: Principal) -> Outcome:
        context = {
            "tainted": bool(approval.taint),
            "taint": sorted(set(approval.taint)),
            "arguments": arguments_of(approval.arguments, tool),
            "effects": self._effects(approval.effects),
            "asker": principal_facts(approval.principal),
        }
        [outcome] = rules.outcomes([_request(person, _APPROVE, tool, context)], self._pair(person, tool))
        return outcome

    def _effects(self, effects: Sequence[str]) -> Sequence[str]:
        """Returns the effects of a call as rules see them: each as its text and as its kind, and the patterns of the settings
        that fit one of these names, because Cedar cannot look for a pattern in a set."""
        names = effect_names(effects)
        patterns = (each for each, fits in self._effect_patterns.items() if any(map(fits.fullmatch, names)))
        return sorted(names.union(patterns))

    def sees(self, principal: Principal, tool: Tool) -> tuple[bool, Sequence[Statement]]:
        """Returns True if a principal sees a tool, and the rules that determined it."""
        request = _request(principal, _SEE, tool, {})
        [outcome] = self._all.outcomes([request], self._pair(principal, tool))
        return outcome.allowed and not outcome.failed, outcome.rules

    def _sees_single(self, principal: Principal, tool: Tool) -> bool:
        key = _pair_key(principal, tool)
        cached = self._single.get(key)
        if cached is None:
            cached = self.sees(principal, tool)[0]
            self._single.put(key, cached)
        return cached

    def _decision(self, verdict: Any, outcome: Outcome, otherwise: str) -> Decision:
        """Returns a decision with the rules that determined it."""
        rules = outcome.rules
        reasons = dict.fromkeys(rule.reason for rule in rules if rule.reason)
        return Decision(
            verdict=verdict,
            reason="; ".join(reasons) or (otherwise if not rules else ""),
            rule=", ".join(rule.id for rule in rules) or "default",
            policy_version=self._version,
        )

    def _failure(self, tool: Tool, outcome: Outcome) -> Decision:
        """Returns the denial of a call that a rule cannot judge. The log has the details, which could tell a model of tools that
        are hidden from it."""
        log.warning("policy_failed", tool=tool.name, error="; ".join(outcome.errors)[:2_000])
        rules = [rule.id for rule in outcome.faulty]
        named = f"the rule {rules[0]!r}" if rules else "the policy"
        return Decision(
            verdict="deny",
            reason=f"{named} cannot be evaluated for this call",
            rule=", ".join(rules) or "error",
            policy_version=self._version,
        )

    # --- visibility --------------------------------------------------------------------------------------------------

    def _mask(self, catalog: Catalog, principal: Principal) -> Mask | None:
        if self._sees_everything(principal):
            return None
        shapes = {self._tool_shape(tool): tool for tool in catalog.tools if tool.source != CLIENT_SOURCE}
        visible = self._visible_shapes(shapes, principal)
        mask = bytes(tool.source == CLIENT_SOURCE or self._tool_shape(tool) in visible for tool in catalog.tools)
        return None if all(mask) else mask

    def _sees_everything(self, principal: Principal) -> bool:
        """Returns True if the rules permit `see` whatever the tool is: evaluated with the tool unknown."""
        name = f"Principal::{quoted(principal_uid(principal)['id'])}"
        request = {"principal": name, "action": f'Action::"{_SEE}"', "context": {}}
        result = cedarpy.is_authorized_partial(request, self._all.policies, _handle(principal_entity(principal)))
        residuals = result.diagnostics.nontrivial_residuals
        return result.allowed and not residuals and not result.diagnostics.errors

    def _visible_shapes(self, shapes: Mapping[_Shape, Tool], principal: Principal) -> frozenset[_Shape]:
        """Returns the shapes of tools that the principal may see. A rule that cannot be evaluated hides the tool."""
        visible: set[_Shape] = set()
        items = list(shapes.items())
        for start in range(0, len(items), _AT_ONCE):
            some = items[start : start + _AT_ONCE]
            entities = _handle(principal_entity(principal), *(self._entity(tool) for _, tool in some))
            requests = [_request(principal, _SEE, tool, {}) for _, tool in some]
            results = cedarpy.is_authorized_batch(requests, self._all.policies, entities)
            visible |= {
                shape
                for (shape, _), result in zip(some, results, strict=True)
                if result.allowed and not result.diagnostics.errors
            }
        return frozenset(visible)

    def _signature(self, principal: Principal) -> _Shape:
        """Returns what the rules about `see` can look at in a principal."""
        own = principal.id if self._seeing.principal_id else None
        return (principal.tenant, principal.role, principal.bot, principal.channel, own)

    def _tool_shape(self, tool: Tool) -> _Shape:
        """Returns what the rules about `see` can look at in a tool."""
        names = self._seeing.tool_names
        name = tool.name if names is None or tool.name in names else None
        return (name, tool.source, tool.category, tool.tags, *_hints(tool), tool.name in self._never_ask)

    # --- entities ----------------------------------------------------------------------------------------------------

    def _entity(self, tool: Tool) -> Entity:
        return tool_entity(tool, never_ask=tool.name in self._never_ask)

    def _pair(self, principal: Principal, tool: Tool) -> cedarpy.Entities:
        """Returns a principal and a tool as Cedar reads them."""
        key = _pair_key(principal, tool)
        pair = self._pairs.get(key)
        if pair is None:
            pair = _handle(principal_entity(principal), self._entity(tool))
            self._pairs.put(key, pair)
        return pair


def _names_approvers(rule: Statement) -> bool:
    """Returns True for a rule that permits named people, or people of a named role, to approve, and is about nothing else."""
    return rule.tree["effect"] == "permit" and rule.actions == frozenset({_APPROVE}) and rule.names_people


class _Names:
    """Names with `*`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        matching(patterns)  # raises an error for what is no pattern
        self._expressions = [expression(pattern) for pattern in patterns]

    def __contains__(self, name: str) -> bool:
        return any(each.fullmatch(name) for each in self._expressions)


def _calls(principal: Principal, tool: Tool, context: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the two questions about a call: may it run, and without a person's approval."""
    return [_request(principal, action, tool, context) for action in (_CALL, _UNASKED)]


def _request(principal: Principal, action: str, tool: Tool, context: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "principal": principal_uid(principal),
        "action": uid("Action", action),
        "resource": uid("Tool", tool.name),
        "context": context,
    }


def _pair_key(principal: Principal, tool: Tool) -> _Shape:
    return (principal, tool.name, tool.source, tool.category, tool.tags, *_hints(tool))


def _hints(tool: Tool) -> _Shape:
    annotations = tool.annotations
    return (annotations.read_only, tool.may_destroy, annotations.idempotent, annotations.open_world, tool.untrusted)


def _handle(*entities: Entity) -> cedarpy.Entities:
    return cedarpy.Entities.from_json_str(document(*entities))


def _default_rules() -> list[Statement]:
    text = files(__package__).joinpath("default.cedar").read_text(encoding="utf-8")
    return statements_of(text, "default.cedar")


def _read(path: Path) -> list[Statement]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"policy: the file {str(path)!r} cannot be read: {error}") from error
    return statements_of(text, str(path))


def _version(rules: Sequence[Statement], never_ask: Sequence[str]) -> str:
    """Returns a digest of the rules, whatever their files are called."""
    text = "\0".join([*(rule.text for rule in rules), *sorted(never_ask)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
