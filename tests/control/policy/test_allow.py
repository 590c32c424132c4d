"""The shipped policy allows everything; what tools themselves restrict is no policy's to open."""

from __future__ import annotations

import pytest

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.run import RunContext, RunState
from toolcaddie.core.tool import Tool, ToolCall


@pytest.mark.anyio
async def test_every_call_is_allowed_by_rule_default() -> None:
    tool = Tool(name="wipe")
    catalog = Catalog.of([tool])
    context = RunContext(run_id="r", principal=Principal(), view=View(catalog=catalog), model="m")
    call = ToolCall(id="1", name="wipe")
    request = CallRequest(call=call, tool=tool, arguments={}, context=context, state=RunState(run_id="r"))
    decision = await AllowAll().decide(request)
    assert isinstance(decision, Decision)
    assert (decision.verdict, decision.rule) == ("allow", "default")


def test_nothing_is_hidden() -> None:
    assert AllowAll().visible(Catalog.of([Tool(name="a", roles=("admin",))]), Principal()) is None
