"""Judges requests by a set of rules, and joins the outcomes of two sets, so that rules that do not look at arguments or
effects are judged once for all calls of a tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cedarpy
from msgspec import Struct

from toolcaddie.control.policy.cedar.statements import Statement, policy_set


class Outcome(Struct, frozen=True, kw_only=True):
    """What a set of rules says of a request."""

    allowed: bool
    rules: tuple[Statement, ...]
    """The rules that determined it: the forbidding ones, otherwise the permitting ones."""
    failed: bool
    """True if a rule cannot be evaluated; then the request must be refused."""
    errors: tuple[str, ...] = ()
    faulty: tuple[Statement, ...] = ()
    """The rules that cannot be evaluated."""


_SILENT = Outcome(allowed=False, rules=(), failed=False)
"""The outcome of no rules."""


class Rules:
    """A set of rules, as Cedar reads it."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = tuple(statements)
        self.policies = policy_set(statements)
        actions = [statement.actions for statement in statements]
        self._actions = None if None in actions else frozenset[str]().union(*filter(None, actions))
        """The actions that these rules are about; None: all."""

    def outcomes(self, requests: Sequence[dict[str, Any]], entities: cedarpy.Entities) -> Sequence[Outcome]:
        """Returns the outcome of each request. Requests for actions that no rule is about are not passed to Cedar."""
        asked = [request for request in requests if self._concerns(request)]
        results = iter(cedarpy.is_authorized_batch(asked, self.policies, entities) if asked else ())
        return [self._outcome(next(results)) if self._concerns(request) else _SILENT for request in requests]

    def _concerns(self, request: dict[str, Any]) -> bool:
        return self._actions is None or request["action"]["id"] in self._actions

    def _outcome(self, result: cedarpy.AuthzResult) -> Outcome:
        errors = tuple(result.diagnostics.errors)
        names = enumerate(self._statements) if errors else ()
        return Outcome(
            allowed=result.allowed,
            rules=tuple(self._statements[number] for number in sorted(map(_number, result.diagnostics.reasons))),
            failed=bool(errors) or result.decision == cedarpy.Decision.NoDecision,
            errors=errors,
            faulty=tuple(rule for place, rule in names if any(f"`policy{place}`" in error for error in errors)),
        )


def joined(one: Outcome, other: Outcome) -> Outcome:
    """Returns the outcome of both sets together: a rule that forbids in one of them takes precedence over all that permit."""
    forbidding = [each for each in (one, other) if not each.allowed and each.rules]
    permitting = [each for each in (one, other) if each.allowed]
    return Outcome(
        allowed=bool(permitting) and not forbidding,
        rules=tuple(rule for each in forbidding or permitting for rule in each.rules),
        failed=one.failed or other.failed,
        errors=one.errors + other.errors,
        faulty=one.faulty + other.faulty,
    )


def _number(name: str) -> int:
    """Returns the place of a rule, which Cedar names `policy0`, `policy1` and so on."""
    return int(name.removeprefix("policy"))
