"""A round of a run: one model call. The next state is completed, or has the calls of the answer in `pending`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import aclosing

from msgspec.structs import replace

from toolcaddie.core.delivery import Delivery
from toolcaddie.core.events import ClientCallDelta, LimitReached, ModelAnswered, ModelAsked, TextDelta, ToolsDelivered
from toolcaddie.core.message import Force, Message, ModelReply, ModelRequest
from toolcaddie.core.meta_names import LOOKING
from toolcaddie.core.run import PendingCall, RunState
from toolcaddie.core.tool import failed
from toolcaddie.engine.applying import completed
from toolcaddie.engine.callids import StreamedCalls, with_unique_ids
from toolcaddie.engine.engine import Run, Step, planned_for
from toolcaddie.engine.limits import check_budget, check_idle, check_tokens
from toolcaddie.engine.outsized import check_deltas, check_reply
from toolcaddie.engine.requests import model_request

FALLBACK_TEXT = "I could not finish this within the allowed number of steps."
"""The answer of a run whose model gave no text in its last round."""


async def ask_round(run: Run, step: Step) -> Step:
    """Asks the model once, and returns the next step. If the rounds are used up, the model is asked without tools, so that it
    answers."""
    state = step.state
    await check_tokens(run, state)
    await check_idle(run, state)
    await check_budget(run, state)
    planned = planned_for(run, state, step.planned)
    delivery = planned.delivery
    over = _are_used_up(run, state)
    offer = bool(delivery.definitions) and not over and not state.closing
    if offer and delivery.prefix_digest != state.prefix_digest:
        state = replace(state, prefix_digest=delivery.prefix_digest)
        await run.emit(ToolsDelivered(run_id=state.run_id, round=state.rounds + 1, delivery=delivery))
    elif delivery.definitions and over:
        await run.emit(LimitReached(run_id=state.run_id, limit="rounds", detail=f"{state.rounds} rounds"))
    last = () if offer else _last_tools(run, delivery)
    request = model_request(run, state, delivery, offer=offer, last=last)
    reply = await _reply(run, state, request, offer=offer)
    if offer:
        state = await _after(run, state, delivery, reply, request.force)
    else:
        state = await _last_answer(run, _with_usage(state, reply), reply, delivery, last)
    return Step(state=state, planned=planned, raw=reply.raw)


def _are_used_up(run: Run, state: RunState) -> bool:
    """Returns True if the run may have no further round with tools. Some rounds in which the model only looked for tools do not
    count."""
    limits = run.limits
    counted = state.rounds - min(state.looking_rounds, limits.looking_rounds)
    return limits.rounds is not None and counted >= limits.rounds


def _last_tools(run: Run, delivery: Delivery) -> tuple[str, ...]:
    """Returns the names of the tools that may be called in a round without tools: essential tools that the caller runs, such as
    an output tool whose call is the answer. Such a call ends the run, so no further round follows."""
    delivered_names = {tool.name for tool in delivery.tools}
    return tuple(name for name in run.context.essential if name in delivered_names and run.belongs_to_caller(name))


def _with_usage(state: RunState, reply: ModelReply) -> RunState:
    """Returns the state with the tokens of this model call, and with the model, the provider and the finish reason of its
    answer."""
    return replace(
        state,
        usage=state.usage + reply.usage,
        last_usage=reply.usage,
        model=reply.model or state.model,
        provider=reply.provider,
        finish_reason=reply.finish_reason,
    )


async def _after(run: Run, state: RunState, delivery: Delivery, reply: ModelReply, force: Force | None) -> RunState:
    """Returns the state after an answer: completed, or with the calls of the answer in `pending`."""
    state = _with_usage(state, reply)
    if force is not None:
        state = await _with_attempts(run, state, reply, force)
    state = replace(state, rounds=state.rounds + 1)
    if not reply.message.tool_calls:
        return completed(state, reply.message)
    message = with_unique_ids(reply.message, state.messages)
    looks = all(call.name in LOOKING and call.name in state.meta for call in message.tool_calls)
    return replace(
        state,
        looking_rounds=state.looking_rounds + looks,
        delivered=delivery.tools,
        messages=(*state.messages, message),
        pending=tuple(_pending_calls(run, message)),
    )


def _pending_calls(run: Run, message: Message) -> Iterator[PendingCall]:
    limit = run.engine.bounds.calls_run
    refusal = f"Not run: an answer may hold {limit} calls; make the others in the next one."
    for number, call in enumerate(message.tool_calls):
        over = number >= limit and not run.belongs_to_caller(call.name)
        yield PendingCall(call=call, result=failed(refusal, "limit") if over else None)


async def _reply(run: Run, state: RunState, request: ModelRequest, *, offer: bool) -> ModelReply:
    """Asks the provider, streamed or not, and records the question and the answer as events. Raises `ProviderProtocolError` for
    an answer that is too large."""
    provider = run.engine.provider
    await run.emit(
        ModelAsked(
            run_id=state.run_id,
            round=state.rounds + 1,
            provider=provider.name,
            model=request.model,
            tools=len(request.tools),
        )
    )
    started = time.perf_counter()
    reply = await (_streamed(run, request, state, offer=offer) if run.live else provider.complete(request))
    check_reply(reply, run.engine.bounds, provider=reply.provider or provider.name)
    await run.emit(
        ModelAnswered(
            run_id=state.run_id,
            round=state.rounds + 1,
            text=reply.message.text,
            calls=reply.message.tool_calls,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            model=reply.model,
            seconds=time.perf_counter() - started,
            provider=reply.provider,
            attempts=reply.attempts,
        )
    )
    return reply


async def _streamed(run: Run, request: ModelRequest, state: RunState, *, offer: bool) -> ModelReply:
    """Streams an answer. Its text, and the calls of tools that the caller runs, are emitted as they arrive; other calls are
    not."""
    provider, run_id = run.engine.provider, run.context.run_id
    calls = StreamedCalls(run.context.view, state.meta, request.messages)
    reply: ModelReply | None = None
    async with aclosing(provider.stream(request)) as items:  # type: ignore[type-var]
        async for item in items:
            if isinstance(item, ModelReply):
                reply = item
                continue
            if item.text or item.raw is not None or item.event:
                await run.emit(TextDelta(run_id=run_id, text=item.text, raw=item.raw, event=item.event, wire=item.wire))
            if item.calls:
                check_deltas(item.calls, run.engine.bounds, provider=provider.name)
                for delta in calls.of_the_caller(item.calls):
                    if offer:
                        await run.emit(ClientCallDelta(run_id=run_id, delta=delta))
    assert reply is not None, f"provider {provider.name} ended its stream without a reply"
    return dataclasses.replace(reply, message=calls.with_ids(reply.message))


async def _with_attempts(run: Run, state: RunState, reply: ModelReply, force: Force) -> RunState:
    """Returns the state with the number of forced attempts in which no tool was called. An answer that only searches for tools
    counts as one. If the attempts are used up without a call, an event records it."""
    missed = sum(attempt.outcome == "not_called" for attempt in reply.attempts)
    already_counted = bool(reply.attempts) and reply.attempts[-1].outcome == "not_called"
    calls = reply.message.tool_calls
    only_looked = not already_counted and bool(calls) and all(call.name in force.ignored for call in calls)
    forced = state.forced + missed + only_looked
    if not calls:
        detail = f"no tool was called in {forced} attempt{'s' if forced != 1 else ''}"
        await run.emit(LimitReached(run_id=state.run_id, limit="forced_attempts", detail=detail))
    return replace(state, forced=forced)


async def _last_answer(
    run: Run, state: RunState, reply: ModelReply, delivery: Delivery, last: tuple[str, ...]
) -> RunState:
    """Returns the state after the last round: completed with an answer in words, or with calls of tools that the caller runs."""
    calls = tuple(call for call in reply.message.tool_calls if call.name in last)
    if not calls:
        return await _completed_run(run, state, reply, had_tools=bool(delivery.definitions))
    message = with_unique_ids(dataclasses.replace(reply.message, tool_calls=calls), state.messages)
    return replace(state, messages=(*state.messages, message), pending=tuple(_pending_calls(run, message)))


async def _completed_run(run: Run, state: RunState, reply: ModelReply, *, had_tools: bool) -> RunState:
    """Completes a run after a round without tools; calls in its answer are ignored."""
    message = dataclasses.replace(reply.message, tool_calls=())
    if not message.text and (had_tools or reply.message.tool_calls):
        message = dataclasses.replace(message, content=FALLBACK_TEXT)
        if run.live:
            await run.emit(TextDelta(run_id=state.run_id, text=FALLBACK_TEXT))
    finish = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
    return completed(replace(state, finish_reason=finish), message)
