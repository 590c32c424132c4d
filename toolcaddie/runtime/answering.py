"""Answers a request: calls the stages one after another, from the choice of the request's setup (the selector and the engine of
its preset) to the end of its run. Each stage takes values and returns new ones. `Runtime.run` calls this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from toolcaddie.core.catalog import View
from toolcaddie.core.errors import LimitExceededError, RequestError, RunNotFoundError, StorageError
from toolcaddie.core.events import Emit, RequestClassified, RunStarted, ToolsSelected
from toolcaddie.core.presets import Preset
from toolcaddie.core.run import RunContext, RunRequest, RunResult, RunState
from toolcaddie.engine.engine import Admit, not_stored
from toolcaddie.engine.failures import end_recorded
from toolcaddie.engine.loop import drive
from toolcaddie.ports import Classifier, Store
from toolcaddie.runtime.budgets import Budgets
from toolcaddie.runtime.bus import EventBus, Listener
from toolcaddie.runtime.choosing import Choice, choose
from toolcaddie.runtime.contexts import context_of, conversation_digest
from toolcaddie.runtime.conversations import Conversation, Conversations
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.runtime.ending import Ending, storable
from toolcaddie.runtime.instructions import Instructions, with_instructions
from toolcaddie.runtime.output import Output, output_of, with_output, with_value
from toolcaddie.runtime.planning import first_state, plan
from toolcaddie.runtime.resuming import Resuming, Turn
from toolcaddie.runtime.searching import search_for
from toolcaddie.runtime.setups import Setup, Setups
from toolcaddie.runtime.views import Views
from toolcaddie.sources.tenants import TenantCatalogs
from toolcaddie.storage.late_claims import LateClaim
from toolcaddie.storage.runs import Claim, StoredRun, StoredRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The stages that answer requests, and the objects that these stages share."""

    setups: Setups
    catalogs: TenantCatalogs
    views: Views
    budgets: Budgets
    classifier: Classifier | None
    conversations: Conversations
    bus: EventBus
    runs: StoredRuns
    documents: Store
    ending: Ending
    resuming: Resuming
    dependencies: Dependencies
    instructions: Instructions | None
    output: Output | None
    """The type of the answers to requests that name no type; None: answers are plain text."""
    clock: Callable[[], float]
    stopping: Callable[[], bool]
    """Returns True while the server shuts down: a run that is cancelled then is recorded as ended by the shutdown."""

    async def answer(self, request: RunRequest, live: Listener | None = None) -> RunResult:
        """Answers one request. `live` receives the events of its run as they happen."""
        await self._check(request)
        async with self.catalogs.held(request.principal.tenant) if request.use_catalog else nullcontext():
            return await self._answer(request, live)

    async def _answer(self, request: RunRequest, live: Listener | None) -> RunResult:
        output = self.output if request.output is None else output_of(request.output)
        before = await self.conversations.before(request)
        if before is not None and before.waiting and await self.resuming.is_answered(before.waiting, request.principal):
            with suppress(RunNotFoundError):  # another request continues it at this moment
                return await self._continue(before, request, live)
        async with self.budgets.charged(request, self.setups.model_of(request)) as charge:
            told = charge.counted(self.bus.emitter(live))
            return await self._run(request, before, output, told, charge.admit, live=live is not None)

    async def _run(
        self,
        request: RunRequest,
        before: Conversation | None,
        output: Output | None,
        told: Emit,
        admit: Admit | None,
        *,
        live: bool,
    ) -> RunResult:
        """Answers a request with a run of its own, which passes its events to `told`, and asks `admit` before each model call.
        `live`: True if somebody listens to it."""
        model, setup = self.setups.model_of(request), self.setups.of(request)
        sight = await self.views.see(request, setup)
        view, offload = sight.view, sight.offload
        context = context_of(request, view, model, self.dependencies)
        owner = await self.documents.lease()
        if request.lease not in (None, owner):
            raise StorageError("this process lost its lease before the run began; send the request again")
        async with end_recorded(context.run_id, told, stopping=self.stopping) as emit:
            await emit(started(request, context, setup.preset))
            search = await search_for(request, view, setup, offload)
            choice = await choose(search, view, setup, before, self.classifier, offload)
            await _tell_choice(choice, context, emit)
            note = "" if output is None else output.note
            offering = msgspec.structs.replace(context, offered=_offered(choice, before))
            prompted = await with_instructions(request, self.instructions, offering, note)
            delivery = plan(choice, prompted, view, before, now=self.clock())
            state = first_state(context, prompted, delivery, choice.classification, before)
            engine = choice.engine if output is None else with_output(choice.engine, output)
            first = partial(_first_stored, request, output, state, setup, view)
            async with self._stored(request, first, owner) if request.is_kept else nullcontext() as claim:
                result = await drive(
                    engine,
                    state,
                    context,
                    choice.selection,
                    emit,
                    live=live,
                    delivery=delivery,
                    admit=admit,
                    checkpoint=self.conversations.checkpoint(
                        request,
                        () if before is None else before.taint,
                        then=not_stored if claim is None else claim.checkpoint,
                    ),
                )
                result = with_value(result, output)
                return await self.ending.end(
                    request,
                    result,
                    view,
                    setup,
                    emit,
                    output=output,
                    store_paused=partial(self.runs.store_paused, owner=owner) if claim is None else claim.store_paused,
                    claim=claim,
                )

    @asynccontextmanager
    async def _stored(self, request: RunRequest, first: Callable[[], StoredRun], owner: int) -> AsyncIterator[Claim]:
        """Yields the claim under which a run continues that is stored: a durable one as it is before its first step.

        A run that its own limits ended is forgotten. After any other error it can be resumed from its last step.
        """
        late = LateClaim(self.runs, self.documents, first, owner=owner)
        claim = await self.runs.begin(first(), owner=owner) if request.durable else late
        try:
            yield claim
        except LimitExceededError:
            await claim.forget()
            raise
        except BaseException:
            await claim.give_back()
            raise

    async def _continue(self, before: Conversation, request: RunRequest, live: Listener | None) -> RunResult:
        """Continues the run of an earlier turn whose calls waited for a person, with the messages of this turn."""
        context = context_of(request, self.views.again(request), self.setups.model_of(request), self.dependencies)
        return await self.resuming.resume(
            before.waiting,
            approvals={},
            results={},
            principal=request.principal,
            reason="",
            dependencies=request.dependencies,
            live=live,
            turn=Turn(request=await with_instructions(request, self.instructions, context, ""), before=before),
        )

    async def _check(self, request: RunRequest) -> None:
        if not request.messages:
            raise RequestError("there are no messages to answer", param="messages")
        if request.run_id and request.is_resumable:
            await self.runs.check_free(request.run_id)


def started(request: RunRequest, context: RunContext, preset: Preset) -> RunStarted:
    """Returns the event that begins the record of a run: its request, its last messages, and the catalog in use."""
    messages = request.messages
    current = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "user"), None)
    window = preset.selection.window
    return RunStarted(
        run_id=context.run_id,
        principal=context.principal,
        preset=preset.name,
        model=context.model,
        message="" if current is None else messages[current].text,
        history=() if current is None else tuple(messages[max(0, current - window) : current]),
        catalog_version=context.view.catalog.version,
        catalog_size=len(context.view),
        conversation=conversation_digest(request),
    )


def _first_stored(request: RunRequest, output: Output | None, state: RunState, setup: Setup, view: View) -> StoredRun:
    """Returns a run as it is stored before its first step."""
    names = setup.offerings.categories(view, request.principal)
    return StoredRun(request=storable(request, output), state=state, meta_categories=names)


def _offered(choice: Choice, before: Conversation | None) -> tuple[str, ...]:
    """Returns the names of the tools that a run begins with: those of the conversation so far, and the selected ones."""
    sent = () if before is None else before.delivered
    return tuple(dict.fromkeys((*(tool.name for tool in sent), *(each.tool.name for each in choice.selection.tools))))


async def _tell_choice(choice: Choice, context: RunContext, emit: Emit) -> None:
    """Emits the events that record the classification, if there is one, and the selection."""
    if choice.classification is not None:
        await emit(RequestClassified(run_id=context.run_id, classification=choice.classification))
    await emit(ToolsSelected(run_id=context.run_id, selection=choice.selection))
