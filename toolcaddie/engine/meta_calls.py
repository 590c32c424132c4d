"""Answers the calls of meta tools, such as `request_more_tools`, one after another and before any tool runs."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from toolcaddie.control.arguments import checked_arguments
from toolcaddie.core.content import with_text
from toolcaddie.core.events import MetaCalled
from toolcaddie.core.run import PendingCall, RunState
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.tool import Reveal, ToolCall, ToolResult
from toolcaddie.engine.choice import forced_names
from toolcaddie.engine.engine import Planned, Run, planned_for
from toolcaddie.engine.reveal import MOST_REVEALED, callable_now, schemas, with_effect
from toolcaddie.ports import CallWrapper, MetaScene, MetaTool, ProgramTool
from toolcaddie.util.replacing import replace


class MetaAnswers(Struct, frozen=True, kw_only=True):
    """The run after its meta calls, and all calls of the answer; the meta calls among them have results."""

    state: RunState
    outcomes: list[PendingCall]
    planned: Planned | None


async def answer_meta_calls(run: Run, state: RunState, planned: Planned | None) -> MetaAnswers:
    """Answers the meta calls. Wrappers such as `execute_tool` are left to the gates, because the call inside them runs a tool;
    programs are left as well, because their calls do."""
    outcomes = list(state.pending)
    for index, pending in enumerate(outcomes):
        call = pending.call
        if pending.result is not None or call.name not in state.meta:
            continue
        tool = run.engine.meta_tools[call.name]
        if isinstance(tool, (CallWrapper, ProgramTool)):
            continue
        planned = planned_for(run, state, planned)
        result = _with_schemas(run, state, await _answer(run, state, planned, tool, call))
        state = with_effect(state, result)
        added = result.effect.names if isinstance(result.effect, Reveal) else ()
        if added:
            state = replace(state, revealed=added)
        await run.emit(MetaCalled(run_id=state.run_id, call=call, result=result, added=added))
        outcomes[index] = replace(pending, result=result)
        await asyncio.sleep(0)  # an answer may have hundreds of meta calls, and other runs need the loop too
    return MetaAnswers(state=state, outcomes=outcomes, planned=planned)


async def _answer(run: Run, state: RunState, planned: Planned, tool: MetaTool, call: ToolCall) -> ToolResult:
    arguments = checked_arguments(call, run.engine.meta_definition(call.name))
    if isinstance(arguments, ToolResult):
        return arguments
    return await tool.answer(arguments.values, _scene(run, state, planned))


def _with_schemas(run: Run, state: RunState, result: ToolResult) -> ToolResult:
    """Returns the result with the schemas of the tools that it reveals, if this run shows them as text."""
    if state.later_by != "text" or state.allowed is not None or not isinstance(result.effect, Reveal):
        return result
    tools = [tool for name in result.effect.names if (tool := run.context.view.get(name)) is not None]
    return replace(result, content=with_text(result.content, f"\n{schemas(tools)}"))


def _scene(run: Run, state: RunState, planned: Planned) -> MetaScene:
    """Returns the view of the run that a meta tool works with."""
    engine, context, preset = run.engine, run.context, run.preset
    budget, sparing = preset.budget, preset.delivery != "direct" and state.allowed is None
    if sparing:
        most = MOST_REVEALED if budget.max_tools is None else min(budget.max_tools, MOST_REVEALED)
        budget = replace(budget, max_tools=most)
    return MetaScene(
        view=context.view,
        principal=context.principal,
        selector=engine.selector,
        prepare=engine.prepare,
        held=engine.held,
        budget=budget,
        delivered=callable_now(state),
        known=state.known,
        fixed_tokens=planned.delivery.tokens,
        fixed_meta=len(state.meta),
        meta_tokens=definition_tokens(engine.meta_definition(name) for name in state.meta),
        pinned=(*forced_names(context.tool_choice), *context.essential),
        sparing=sparing,
        page_size=preset.page_size,
        expandable=engine.expandable,
        expand_by=preset.expand_by,
    )
