"""The loop: ask, execute, apply, until there is an answer, a question, or a limit.

It knows values and ports only. A run is a `RunState`; each step makes the next one; `apply` is the one place where the
results of a turn enter it. Everything that happens is emitted as an event, and streaming is just another listener.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.control.admission import Admitted, Gates, admit
from toolcaddie.control.arguments import checked_arguments
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import ASSUMED_CACHE, Capabilities
from toolcaddie.core.catalog import View
from toolcaddie.core.content import with_text
from toolcaddie.core.delivery import Delivery, DeliveryPlan
from toolcaddie.core.errors import LimitExceededError
from toolcaddie.core.events import (
    ClientCallDelta,
    Emit,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    TextDelta,
    ToolsDelivered,
)
from toolcaddie.core.message import Force, Message, ModelReply, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, READ_RESULT
from toolcaddie.core.presets import Preset
from toolcaddie.core.run import PendingCall, RunContext, RunResult, RunState
from toolcaddie.core.schema import canonical_json, definition_tokens, wire_definition
from toolcaddie.core.selection import Selection, SelectionQuery
from toolcaddie.core.tool import CLIENT_SOURCE, Finish, Reveal, Tool, ToolCall, ToolResult, failed
from toolcaddie.engine.batch import Batch
from toolcaddie.engine.callids import StreamedCalls, with_unique_ids
from toolcaddie.engine.choice import forced_names, sendable_choice, sendable_params
from toolcaddie.engine.executor import Executor
from toolcaddie.engine.outsized import check_deltas, check_reply
from toolcaddie.engine.reveal import MOST_REVEALED, callable_now, result_message, schemas, with_effect
from toolcaddie.meta.registry import OURS, MetaTools
from toolcaddie.ports import (
    CallWrapper,
    HeldPages,
    MetaOffer,
    MetaScene,
    MetaTool,
    Planner,
    Prepare,
    Provider,
    Selector,
)
from toolcaddie.util.replacing import replace

FALLBACK_TEXT = "I could not finish this within the allowed number of steps."
CAPABILITY_NOTE = (
    "You see only the tools that seem to fit this request. More exist: if none of yours fits, call "
    "request_more_tools and the set is expanded for your next step."
)
_LAST_ROUND_NOTE = "No more tools can be called. Answer now with what you have found out so far."
_LAST_CALLS_NOTE = "Only these tools can still be called: {names}. Finish now with what you have found out so far."

_LIKELIEST = 8
"""Tools that a search puts in front where one must be called."""

Checkpoint = Callable[[RunState], Awaitable[None]]
"""Told how a run stands after each turn, and what is known of a turn that broke off."""


READER = OURS[READ_RESULT].definition(MetaOffer())
"""`read_result` as it joins the array."""


async def _nothing_to_prepare(view: View, query: SelectionQuery) -> None:
    """For selectors that need nothing fetched."""


async def _not_kept(state: RunState) -> None:
    """The checkpoint of a run that nobody resumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What the loop works with; the same for every run of a preset."""

    provider: Provider
    selector: Selector
    planner: Planner
    gates: Gates
    executor: Executor
    preset: Preset
    capabilities: Capabilities
    meta: dict[str, Tool] = field(default_factory=dict)
    """The definitions of the meta tools offered, by name, in the order sent."""
    meta_tools: MetaTools = field(default_factory=lambda: OURS)
    """Every meta tool there is, by name."""
    prepare: Prepare = _nothing_to_prepare
    expandable: frozenset[str] | None = None
    """The categories that a model may ask for; None: all that the caller may see."""
    held: HeldPages | None = None
    """Where cut results are read on; None: nowhere."""
    bounds: Bounds = DEFAULT

    def meta_tool(self, name: str) -> Tool:
        return READER if name == READ_RESULT else self.meta[name]

    async def run(
        self,
        state: RunState,
        context: RunContext,
        selection: Selection,
        emit: Emit,
        *,
        live: bool,
        delivery: Delivery | None = None,
        checkpoint: Checkpoint = _not_kept,
    ) -> RunResult:
        """Carry `state` on until it is completed, pending, or waits for the caller's own tools.

        `live`: stream from the provider. `delivery`: the one `state` was made of, where there is one. Raises `RunError` and
        `ProviderError`; the state up to the failure is what `checkpoint` was told last.
        """
        seconds = self.preset.limits.seconds
        left = None if seconds is None else max(0.0, seconds - state.seconds)
        if state.seconds:
            context = replace(context, began=time.monotonic() - state.seconds)
        run = _Run(self, context, selection, emit, live, delivery, checkpoint, state)
        try:
            async with asyncio.timeout(left) as clock:
                return await run.drive()
        except TimeoutError:
            if not clock.expired():
                raise
            error = await run.over_time()
            error.state = run.as_failed()
            raise error from None
        except LimitExceededError as error:
            error.state = run.as_failed()
            raise


class _Run:
    """One run's walk through the engine. Holds what does not change, and the last reply for doors that want it raw."""

    def __init__(
        self,
        engine: Engine,
        context: RunContext,
        selection: Selection,
        emit: Emit,
        live: bool,
        delivery: Delivery | None,
        checkpoint: Checkpoint,
        state: RunState,
    ) -> None:
        self.engine = engine
        self.state = state
        """The last one that is known, also where a turn broke off."""
        self.before = state.seconds
        self.keep = checkpoint
        self.preset = engine.preset
        self.limits = engine.preset.limits
        self.context = context
        self.selection = selection
        self.emit = emit
        self.live = live
        self.raw: Any = None
        self.started = time.monotonic()
        self.last_prefix = ""
        self.last_delivery = delivery
        self.last_sent: tuple[Any, ...] = ()
        self.asked_for: tuple[str, ...] = ()

    async def checkpoint(self, state: RunState) -> None:
        self.state = state
        await self.keep(state)

    def as_failed(self) -> RunState:
        return replace(self.state, status="failed", seconds=self.seconds())

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    async def drive(self) -> RunResult:
        state = self.state
        while state.status == "running":
            await self.check_time(state)
            state = await (self.turn(state) if state.pending else self.round(state))
            state = self.state = replace(state, seconds=self.seconds())
        return RunResult(
            run_id=state.run_id,
            status=state.status,
            text=state.text,
            state=state,
            selection=self.selection,
            client_calls=tuple(item.call for item in state.pending if item.waiting == "client"),
            raw=self.raw,
            provider=state.provider or self.engine.provider.name,
        )

    # --- a round: one model call -------------------------------------------------------------------------------------

    async def round(self, state: RunState) -> RunState:
        """Ask the model; the next state is finished or holds the calls of a turn."""
        await self.check_tokens(state)
        await self.check_idle(state)
        delivery = self.deliver(state)
        over = self.limits.rounds is not None and state.rounds >= self.limits.rounds
        offer = bool(delivery.definitions) and not over and not state.closing
        if offer and delivery.prefix_digest != self.last_prefix:
            self.last_prefix = delivery.prefix_digest
            await self.emit(ToolsDelivered(run_id=state.run_id, round=state.rounds + 1, delivery=delivery))
        elif delivery.definitions and over:
            await self.emit(LimitReached(run_id=state.run_id, limit="rounds", detail=f"{state.rounds} rounds"))
        force = self.force(state, delivery) if offer else None
        reply = await self.ask(state, delivery, offer=offer, force=force)
        state = replace(
            state,
            usage=state.usage + reply.usage,
            last_usage=reply.usage,
            model=reply.model or state.model,
            provider=reply.provider,
            finish_reason=reply.finish_reason,
        )
        if not offer:
            return await self.last_answer(state, reply, delivery)
        if force is not None:
            state = await self.count_attempts(state, reply, force)
        state = replace(state, rounds=state.rounds + 1)
        if not reply.message.tool_calls:
            return completed(state, reply.message)
        message = with_unique_ids(reply.message, state.messages)
        return replace(
            state,
            delivered=delivery.tools,
            messages=(*state.messages, message),
            pending=tuple(self.pending_calls(message)),
        )

    async def check_time(self, state: RunState) -> None:
        """Looked at before each step: a clock that waits for the provider to suspend never strikes where that does not."""
        if self.limits.seconds is not None and state.seconds >= self.limits.seconds:
            raise await self.over_time()

    async def over_time(self) -> LimitExceededError:
        seconds = self.limits.seconds
        await self.emit(LimitReached(run_id=self.context.run_id, limit="seconds", detail=f"{seconds} s"))
        return LimitExceededError(f"the run took longer than {seconds} s", limit="seconds")

    async def check_idle(self, state: RunState) -> None:
        """A model that only looks for tools, or calls what is not there, takes no turns; it ends all the same."""
        counted = (
            ("idle_rounds_in_row", state.idle_in_row, self.limits.idle_rounds_in_row, " in a row"),
            ("idle_rounds", state.idle_rounds, self.limits.idle_rounds, ""),
        )
        for name, count, limit, how in counted:
            if limit is not None and count >= limit:
                detail = f"{count} rounds{how} ran no tool, the limit is {limit}"
                await self.emit(LimitReached(run_id=state.run_id, limit=name, detail=detail))
                raise LimitExceededError(
                    f"the model called nothing but meta tools, unknown names or what was refused in {count} rounds{how}; "
                    f"limits.{name} is {limit}",
                    limit=name,
                )

    async def check_tokens(self, state: RunState) -> None:
        """Looked at before a model call: an answer that was paid for is never thrown away."""
        used, limit = state.usage.input_tokens + state.usage.output_tokens, self.limits.tokens
        if limit is not None and used >= limit:
            await self.emit(LimitReached(run_id=state.run_id, limit="tokens", detail=f"{used} of {limit} tokens"))
            raise LimitExceededError(f"the request has used {used} of its {limit} tokens", limit="tokens")

    def pending_calls(self, message: Message) -> Iterator[PendingCall]:
        most = self.engine.bounds.calls_run
        refusal = f"Not run: an answer may hold {most} calls; make the others in the next one."
        for number, call in enumerate(message.tool_calls):
            over = number >= most and not self.is_the_callers(call.name)
            yield PendingCall(call=call, result=failed(refusal, "limit") if over else None)

    def is_the_callers(self, name: str) -> bool:
        tool = self.context.view.get(name)
        return tool is not None and tool.source == CLIENT_SOURCE

    def deliver(self, state: RunState) -> Delivery:
        """The tool array of the next round: what stands in the state, in the form it was sent in."""
        last = self.last_delivery
        sent = (state.delivered, state.meta, state.known, state.allowed)
        if last is not None and self.last_sent in ((), sent):  # (): what the state was made of
            self.last_sent = sent
            return last
        self.last_delivery = self.engine.planner.plan(
            DeliveryPlan(
                view=self.context.view,
                selection=Selection(tokens_all=self.selection.tokens_all),
                delivered=state.delivered,
                meta=[self.engine.meta_tool(name) for name in state.meta],
                budget=self.preset.budget,
                capabilities=self.engine.capabilities,
                known=state.known,
                referenced=state.referenced,
                allowed=state.allowed,
                settled=last,
                under_way=True,
            )
        )
        self.last_sent = sent
        return self.last_delivery

    def request(self, state: RunState, delivery: Delivery, *, offer: bool, force: Force | None) -> ModelRequest:
        """What the model is asked. A choice of tools holds until the first call."""
        context, had_tools = self.context, bool(delivery.definitions)
        last = () if offer else self.last_tools(delivery)
        if last:
            return self.last_request(state, last)
        sent = offer or (had_tools and self.keeps_array())
        choice = context.tool_choice if offer and not state.called else None
        if isinstance(choice, Mapping):
            choice = sendable_choice(choice, {tool.name for tool in delivery.tools}, context.view)
        return ModelRequest(
            model=context.model,
            messages=self.prompt(state, offer=offer, had_tools=had_tools),
            tools=delivery.definitions if sent else (),
            tool_choice="none" if sent and not offer else choice,
            params=sendable_params(context.params, tools=sent, closing=had_tools and not sent),
            headers=context.headers,
            deferred=delivery.deferred if sent else frozenset(),
            allowed=delivery.allowed if offer else None,
            cache=had_tools,
            cache_key=context.cache_key if self.engine.capabilities.cache_key else "",
            force=force,
        )

    def last_tools(self, delivery: Delivery) -> tuple[str, ...]:
        """What can still be called in a round without tools: those of the caller's own tools that it cannot do without, as a
        client whose answer is the call of an output tool. Such a call ends the run, so it is no further step."""
        sent = {tool.name for tool in delivery.tools}
        return tuple(name for name in self.context.essential if name in sent and self.is_the_callers(name))

    def last_request(self, state: RunState, names: Sequence[str]) -> ModelRequest:
        """The last question of a run, with these tools alone. The caller's choice holds as far as it can be met with them."""
        context, choice = self.context, self.context.tool_choice
        tools = [tool for name in names if (tool := context.view.get(name)) is not None]
        keeps = choice == "required" or bool(set(forced_names(choice)) & set(names))
        note = _LAST_CALLS_NOTE.format(names=", ".join(names))
        return ModelRequest(
            model=context.model,
            messages=(*state.messages, Message(role="system", content=note)),
            tools=tuple(wire_definition(tool) for tool in tools),
            tool_choice=sendable_choice(choice, names, context.view) if keeps else None,
            params=context.params,
            headers=context.headers,
            cache=True,
            cache_key=context.cache_key if self.engine.capabilities.cache_key else "",
        )

    def keeps_array(self) -> bool:
        """Whether a round without tools sends them all the same, none of them to be called: the conversation stands behind
        them in the provider's cache. Not where a choice is ignored, or nothing is known of the server, nor for presets that
        send to the letter."""
        capabilities = self.engine.capabilities
        cached = capabilities.cache.kind != "none" and capabilities.cache != ASSUMED_CACHE
        return self.preset.delivery != "direct" and cached and capabilities.required != "ignored"

    async def ask(self, state: RunState, delivery: Delivery, *, offer: bool, force: Force | None) -> ModelReply:
        request = self.request(state, delivery, offer=offer, force=force)
        provider = self.engine.provider
        await self.emit(
            ModelAsked(
                run_id=state.run_id,
                round=state.rounds + 1,
                provider=provider.name,
                model=request.model,
                tools=len(request.tools),
            )
        )
        started = time.perf_counter()
        reply = await (self.listen(request, state, offer) if self.live else provider.complete(request))
        check_reply(reply, self.engine.bounds, who=reply.provider or provider.name)
        self.raw = reply.raw
        await self.emit(
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

    async def listen(self, request: ModelRequest, state: RunState, offer: bool) -> ModelReply:
        """Stream an answer. Text goes out as it comes, and so do calls of the caller's tools; ours stay inside."""
        calls = StreamedCalls(self.context.view, state.meta, request.messages)
        reply: ModelReply | None = None
        async with aclosing(self.engine.provider.stream(request)) as items:  # type: ignore[type-var]
            async for item in items:
                if isinstance(item, ModelReply):
                    reply = item
                    continue
                if item.text or item.raw is not None:
                    await self.emit(TextDelta(run_id=self.context.run_id, text=item.text, raw=item.raw))
                check_deltas(item.calls, self.engine.bounds, who=self.engine.provider.name)
                for delta in calls.of_the_caller(item.calls):
                    if offer:
                        await self.emit(ClientCallDelta(run_id=self.context.run_id, delta=delta))
        assert reply is not None, f"provider {self.engine.provider.name} ended its stream without a reply"
        return replace(reply, message=calls.with_ids(reply.message))

    def prompt(self, state: RunState, *, offer: bool, had_tools: bool) -> Sequence[Message]:
        """The messages as sent: the state's own, plus notes that are never stored."""
        messages: tuple[Message, ...] = state.messages
        if self.preset.capability_note and state.meta:
            messages = with_system_note(messages, CAPABILITY_NOTE)
        if had_tools and not offer:
            messages = (*messages, Message(role="system", content=_LAST_ROUND_NOTE))
        return messages

    def force(self, state: RunState, delivery: Delivery) -> Force | None:
        """That a tool must be called, until one was. Looking for tools is not using one; `execute_tool` runs one."""
        if not self.preset.force or state.called or not delivery.tools:
            return None
        tools = self.engine.meta_tools
        ignored = frozenset(name for name in delivery.meta if not isinstance(tools[name], CallWrapper))
        return Force(candidates=self.likeliest(state, delivery), ignored=ignored)

    def likeliest(self, state: RunState, delivery: Delivery) -> tuple[str, ...]:
        """What may be called, the best match of the request first. Where nothing was selected, a search says what that is.
        Before them stands what the model has just asked for, and last what messages refer to."""
        scores = {chosen.tool.name: chosen.score for chosen in self.selection.tools}
        if not any(scores.values()):
            text = next((message.text for message in reversed(state.messages) if message.role == "user"), "")
            found = self.engine.selector.search(self.context.view, text, _LIKELIEST)
            scores = {hit.tool.name: hit.score for hit in found}
        names = [tool.name for tool in delivery.tools if delivery.allowed is None or tool.name in delivery.allowed]
        referenced = [name for name in state.referenced if name in delivery.deferred]
        asked = [name for name in self.asked_for if name in names or name in referenced]
        if self.asked_for and not asked and EXECUTE_TOOL in delivery.meta:
            asked = [EXECUTE_TOOL]  # they are shown as text
        return tuple(dict.fromkeys((*asked, *sorted(names, key=lambda name: -scores.get(name, 0.0)), *referenced)))

    async def count_attempts(self, state: RunState, reply: ModelReply, force: Force) -> RunState:
        """Count the forced attempts in which nothing was called; an answer that only looks for tools is one. Where they are used
        up and no tool was called, that is an event; each attempt is in the model's answer."""
        missed = sum(attempt.outcome == "not_called" for attempt in reply.attempts)
        counted = bool(reply.attempts) and reply.attempts[-1].outcome == "not_called"
        calls = reply.message.tool_calls
        looked = not counted and bool(calls) and all(call.name in force.ignored for call in calls)
        forced = state.forced + missed + looked
        if not calls:
            tried = f"no tool was called in {forced} attempt{'s' if forced != 1 else ''}"
            await self.emit(LimitReached(run_id=state.run_id, limit="forced_attempts", detail=tried))
        return replace(state, forced=forced)

    async def last_answer(self, state: RunState, reply: ModelReply, delivery: Delivery) -> RunState:
        """The end of the last round: in words, or with calls that the caller is waiting for."""
        last = self.last_tools(delivery)
        calls = tuple(call for call in reply.message.tool_calls if call.name in last)
        if not calls:
            return await self.finish_without_tools(state, reply, had_tools=bool(delivery.definitions))
        message = with_unique_ids(replace(reply.message, tool_calls=calls), state.messages)
        return replace(state, messages=(*state.messages, message), pending=tuple(self.pending_calls(message)))

    async def finish_without_tools(self, state: RunState, reply: ModelReply, *, had_tools: bool) -> RunState:
        """The end of a round without tools: whatever it calls is ignored."""
        message = replace(reply.message, tool_calls=())
        if not message.text and (had_tools or reply.message.tool_calls):
            message = replace(message, content=FALLBACK_TEXT)
            if self.live:
                await self.emit(TextDelta(run_id=state.run_id, text=FALLBACK_TEXT))
        finish = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
        return completed(replace(state, finish_reason=finish), message)

    # --- a turn: the calls of one answer -----------------------------------------------------------------------------

    async def turn(self, state: RunState) -> RunState:
        """Meta calls first, one after another; then the real ones; results in call order whatever finishes first."""
        state, outcomes = await self.answer_meta_calls(state)
        admitted: dict[int, Admitted] = {}
        for index, pending in enumerate(outcomes):
            if pending.result is None and pending.waiting != "client":
                gated = await admit(pending, gates=self.engine.gates, context=self.context, state=state, emit=self.emit)
                if isinstance(gated, Admitted):
                    admitted[index] = gated
                else:
                    outcomes[index] = gated
        refused = self.over_turns(state.turns, admitted)
        for index in refused:
            detail = f"the limit of {self.limits.turns} tool calls in one request is reached"
            outcomes[index] = replace(outcomes[index], result=failed(f"Not run: {detail}.", "limit"))
            del admitted[index]
        outcomes = await self.carry_out(state, admitted, outcomes)
        called = tuple(call.tool.name for call in admitted.values())
        state = replace(state, turns=state.turns + len(admitted), called=(*state.called, *called))
        state = self.count_idle(state, admitted, outcomes)
        if refused:
            await self.checkpoint(replace(state, pending=tuple(outcomes)))
            await self.emit(LimitReached(run_id=state.run_id, limit="turns", detail=f"{self.limits.turns} turns"))
            raise LimitExceededError(f"the request asked for more than {self.limits.turns} tool calls", limit="turns")
        if self.reads_on() and any(item.result and item.result.held for item in outcomes):
            state = replace(state, meta=tuple(dict.fromkeys((*state.meta, READ_RESULT))))
        state, warned = self.watch_repeats(state, admitted, outcomes)
        state = apply(state, warned)
        await self.checkpoint(state)
        if state.status == "completed" and self.live:  # a meta tool gave the answer: nobody has streamed it yet
            await self.emit(TextDelta(run_id=state.run_id, text=state.text))
        return state

    def count_idle(
        self, state: RunState, admitted: Mapping[int, Admitted], outcomes: Sequence[PendingCall]
    ) -> RunState:
        """The rounds whose calls ran no tool. What waits for a person or the caller is still to be run; an answer ends it all."""
        for item in outcomes:
            answers = item.result is not None and isinstance(item.result.effect, Finish)
            if admitted or item.waiting or answers or self.is_the_callers(item.call.name):
                return replace(state, idle_in_row=0) if state.idle_in_row else state
        return replace(state, idle_rounds=state.idle_rounds + 1, idle_in_row=state.idle_in_row + 1)

    def reads_on(self) -> bool:
        """Whether the model may be given `read_result`: a tool of the catalog or the caller with that name comes first."""
        return self.engine.held is not None and self.context.view.get(READ_RESULT) is None

    async def answer_meta_calls(self, state: RunState) -> tuple[RunState, list[PendingCall]]:
        outcomes = list(state.pending)
        for index, pending in enumerate(outcomes):
            call = pending.call
            if pending.result is not None or call.name not in state.meta:
                continue
            tool = self.engine.meta_tools[call.name]
            if isinstance(tool, CallWrapper):
                continue
            result = self.shown(await self.answered(tool, call, state), state)
            state = with_effect(state, result)
            added = result.effect.names if isinstance(result.effect, Reveal) else ()
            self.asked_for = added or self.asked_for
            await self.emit(MetaCalled(run_id=state.run_id, call=call, result=result, added=added))
            outcomes[index] = replace(pending, result=result)
        return state, outcomes

    async def answered(self, tool: MetaTool, call: ToolCall, state: RunState) -> ToolResult:
        checked = checked_arguments(call, self.engine.meta_tool(call.name))
        if isinstance(checked, ToolResult):
            return checked
        return await tool.answer(checked.values, self.scene(state))

    def shown(self, result: ToolResult, state: RunState) -> ToolResult:
        """The result with the schemas of what it reveals, where these are shown as text."""
        if state.later_by != "text" or state.allowed is not None or not isinstance(result.effect, Reveal):
            return result
        tools = [tool for name in result.effect.names if (tool := self.context.view.get(name)) is not None]
        return replace(result, content=with_text(result.content, f"\n{schemas(tools)}"))

    def scene(self, state: RunState) -> MetaScene:
        budget, sparing = self.preset.budget, self.preset.delivery != "direct" and state.allowed is None
        if sparing:
            most = MOST_REVEALED if budget.max_tools is None else min(budget.max_tools, MOST_REVEALED)
            budget = replace(budget, max_tools=most)
        return MetaScene(
            view=self.context.view,
            principal=self.context.principal,
            selector=self.engine.selector,
            prepare=self.engine.prepare,
            held=self.engine.held,
            budget=budget,
            delivered=callable_now(state),
            known=state.known,
            fixed_tokens=self.deliver(state).tokens,
            fixed_meta=len(state.meta),
            meta_tokens=definition_tokens(self.engine.meta_tool(name) for name in state.meta),
            pinned=(*forced_names(self.context.tool_choice), *self.context.essential),
            sparing=sparing,
            page_size=self.preset.page_size,
            expandable=self.engine.expandable,
            expand_by=self.preset.expand_by,
        )

    def over_turns(self, taken: int, admitted: dict[int, Admitted]) -> list[int]:
        if self.limits.turns is None:
            return []
        return list(admitted)[max(0, self.limits.turns - taken) :]

    async def carry_out(
        self, state: RunState, admitted: dict[int, Admitted], outcomes: list[PendingCall]
    ) -> list[PendingCall]:
        """Run the admitted calls; the outcomes with theirs entered. Nothing that has run may run again after a failure."""
        if not admitted:
            return outcomes

        async def before_acting(known: Sequence[PendingCall]) -> None:
            await self.keep(replace(state, pending=tuple(known)))

        batch = Batch(
            self.engine.executor,
            self.context,
            self.limits,
            self.emit,
            admitted=admitted,
            taken=state.turns,
            outcomes=outcomes,
            before_acting=before_acting,
        )
        try:
            await batch.run(together=self.together(admitted))
        except BaseException:
            await self.break_off(state, batch)
            raise
        return batch.entered()

    async def break_off(self, state: RunState, batch: Batch) -> None:
        """What is known of a turn that did not come to its end, kept for whoever carries the run on."""
        ran = tuple(call.tool.name for call in batch.ran())
        self.state = replace(
            state, pending=tuple(batch.entered()), turns=state.turns + len(ran), called=(*state.called, *ran)
        )
        await self.keep(self.state)

    def together(self, admitted: dict[int, Admitted]) -> bool:
        if self.preset.batch == "auto":
            return all(call.tool.runs_concurrently for call in admitted.values())
        return self.preset.batch == "concurrent"

    def watch_repeats(
        self, state: RunState, admitted: dict[int, Admitted], outcomes: list[PendingCall]
    ) -> tuple[RunState, list[PendingCall]]:
        """Count the same call with the same result over consecutive rounds; warn the model, then take the tools away."""
        if self.limits.repeats_warn is None:
            return state, outcomes
        earlier, counts = dict(state.repeats), {}
        for index, call in admitted.items():
            result = outcomes[index].result
            if result is None or call.tool.polling:
                continue
            key = hashlib.sha256(canonical_json([call.tool.name, call.arguments, result.content])).hexdigest()
            count = counts[key] = earlier.get(key, 0) + 1
            if count >= self.limits.repeats_warn:
                note = f"\n\n(The same call gave the same result {count} times in a row. Change something, or answer.)"
                outcomes[index] = replace(
                    outcomes[index], result=replace(result, content=with_text(result.content, note))
                )
        stop = self.limits.repeats_stop
        closing = stop is not None and any(count >= stop for count in counts.values())
        return replace(state, repeats=tuple(counts.items()), closing=state.closing or closing), outcomes


def completed(state: RunState, message: Message) -> RunState:
    return replace(
        state, status="completed", text=message.text, messages=(*state.messages, message), pending=(), repeats=()
    )


def apply(state: RunState, outcomes: Sequence[PendingCall]) -> RunState:
    """The one function in which the results of a turn enter a run.

    All results there: they become messages in call order and the next round follows. Some call waits for a person: the
    run is put away. Some call is the caller's own: the run ends with it, and what is done already stays in `pending`.
    """
    if any(item.waiting == "approval" for item in outcomes):
        return replace(state, status="pending", pending=tuple(outcomes))
    if any(item.waiting == "client" for item in outcomes):
        return replace(state, status="client_calls", pending=tuple(outcomes), text=state.messages[-1].text)
    results = tuple(result_message(item.call, item.result, state) for item in outcomes if item.result is not None)
    state = replace(state, messages=(*state.messages, *results), pending=())
    finish = next(
        (item.result.effect for item in outcomes if item.result and isinstance(item.result.effect, Finish)), None
    )
    return state if finish is None else completed(state, Message(role="assistant", content=finish.text))


def with_system_note(messages: tuple[Message, ...], note: str) -> tuple[Message, ...]:
    """The note at the end of the system prompt, or as one if there is none."""
    if messages and messages[0].role in ("system", "developer") and isinstance(messages[0].content, str):
        return (replace(messages[0], content=f"{messages[0].content}\n\n{note}"), *messages[1:])
    return (Message(role="system", content=note), *messages)
