"""The parts of the loop, and the values that it passes on from step to step: a state, and the tools that follow from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import Struct

from toolcaddie.control.admission import Gates
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.catalog import View
from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.core.events import Emit
from toolcaddie.core.message import RawBody
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.presets import Preset
from toolcaddie.core.run import Limits, RunContext, RunState
from toolcaddie.core.selection import Selection, SelectionQuery
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.engine.executor import Executor
from toolcaddie.meta.registry import OURS, MetaTools
from toolcaddie.ports import HeldPages, MetaOffer, Planner, Prepare, Provider, Selector

READER = OURS[READ_RESULT].definition(MetaOffer())
"""`read_result` as it joins the array."""

Checkpoint = Callable[[RunState], Awaitable[None]]
"""Stores the state of a run after each batch of calls, and the outcomes of a batch that broke off."""


async def nothing_to_prepare(view: View, query: SelectionQuery) -> None:
    """Does nothing, for selectors that need no preparation."""


async def not_stored(state: RunState) -> None:
    """Stores nothing: the checkpoint of a run that no one resumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The parts that the loop works with; the same for every run of a preset."""

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
    """Every meta tool of the runtime, by name."""
    prepare: Prepare = nothing_to_prepare
    expandable: frozenset[str] | None = None
    """The categories that a model may ask for; None: all that the caller may see."""
    held: HeldPages | None = None
    """Store in which cut results are read on; None: there is none."""
    bounds: Bounds = DEFAULT

    def meta_definition(self, name: str) -> Tool:
        return READER if name == READ_RESULT else self.meta[name]


class Record:
    """The last state of a run. It is shared instead of passed on, because a cancelled step returns nothing."""

    def __init__(self, state: RunState, checkpoint: Checkpoint) -> None:
        self.state = state
        self._checkpoint = checkpoint

    async def store(self, state: RunState) -> None:
        self.state = state
        await self._checkpoint(state)

    async def store_outcomes(self, state: RunState) -> None:
        """Stores the state in case this process dies; while it lives, the batch has newer outcomes."""
        await self._checkpoint(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The values that stay the same during one run."""

    engine: Engine
    context: RunContext
    selection: Selection
    emit: Emit
    live: bool
    """Streams from the provider."""
    record: Record
    preset: Preset
    """That of the engine; a field because each round reads it many times."""
    limits: Limits
    """Those of the preset."""

    def belongs_to_caller(self, name: str) -> bool:
        """Returns True if the caller itself runs the tool of this name."""
        tool = self.context.view.get(name)
        return tool is not None and tool.source == CLIENT_SOURCE


DeliveryKey = tuple[tuple[DeliveredTool, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...] | None]
"""The part of a state from which the tool array follows."""


class Planned(Struct, frozen=True, kw_only=True):
    """A delivery, and the key of the state it was planned for."""

    key: DeliveryKey
    delivery: Delivery


class Step(Struct, frozen=True, kw_only=True):
    """The values that one step of a run hands to the next."""

    state: RunState
    planned: Planned | None = None
    """The last delivery; it follows from the state, and is passed on because planning again costs more."""
    raw: RawBody | None = None
    """The provider's last body, for doors that pass unknown fields on."""


def delivery_key(state: RunState) -> DeliveryKey:
    return (state.delivered, state.meta, state.known, state.allowed)


def planned_for(run: Run, state: RunState, last: Planned | None) -> Planned:
    """Returns the last delivery if it still fits the state, otherwise a new one."""
    key = delivery_key(state)
    if last is not None and last.key == key:
        return last
    delivery = run.engine.planner.plan_next(
        DeliveryPlan(
            view=run.context.view,
            selection=Selection(tokens_all=run.selection.tokens_all),
            delivered=state.delivered,
            meta=[run.engine.meta_definition(name) for name in state.meta],
            budget=run.preset.budget,
            capabilities=run.engine.capabilities,
            known=state.known,
            referenced=state.referenced,
            allowed=state.allowed,
        ),
        state.settled,
    )
    return Planned(key=key, delivery=delivery)
