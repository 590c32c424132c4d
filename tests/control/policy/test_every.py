"""Several policies as one: deny beats ask beats allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toolcaddie.control.decisions import joined
from toolcaddie.control.policy.every import EveryPolicy
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, say

CATALOG = Catalog.of([Tool(name="a"), Tool(name="b"), Tool(name="c")])


class Says:
    def __init__(self, verdict: Any, version: str = "1", hides: str = "") -> None:
        self.verdict, self.version, self._hides = verdict, version, hides

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return np.array([tool.name not in self._hides for tool in catalog], dtype=np.bool_) if self._hides else None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict=self.verdict, reason=self.version)


@pytest.mark.parametrize(
    ("verdicts", "strongest"),
    [(["allow"], "allow"), (["allow", "ask", "allow"], "ask"), (["ask", "deny", "allow"], "deny"), ([], "deny")],
)
def test_deny_beats_ask_beats_allow(verdicts: list[Any], strongest: str) -> None:
    assert joined(Decision(verdict=verdict) for verdict in verdicts).verdict == strongest


def test_of_equally_strong_decisions_the_first_gives_the_reason() -> None:
    decisions = [
        Decision(verdict="allow"),
        Decision(verdict="ask", reason="one"),
        Decision(verdict="ask", reason="two"),
    ]
    assert joined(decisions).reason == "one"


@pytest.mark.anyio
@pytest.mark.parametrize(("other", "ran"), [("allow", True), ("deny", False)])
async def test_a_call_runs_only_if_every_policy_lets_it(other: str, ran: bool) -> None:
    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    provider = ScriptedProvider([call("pay"), say("done")])
    policy = EveryPolicy(Says("allow", "a"), Says(other, "b"))
    await Runtime(provider=provider, sources=[pay], policy=policy).run("go")
    answer = provider.requests[-1].messages[-1].content
    assert answer == ("paid" if ran else "Not allowed: b.")
    assert policy.version == "a+b"


def test_a_tool_that_one_policy_hides_is_hidden() -> None:
    policy = EveryPolicy(Says("allow", hides="a"), Says("allow"), Says("allow", hides="c"))
    mask = policy.visible(CATALOG, Principal())
    assert mask is not None
    assert list(mask) == [False, True, False]
    assert EveryPolicy(Says("allow"), Says("allow")).visible(CATALOG, Principal()) is None
