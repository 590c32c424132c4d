"""The objects that the loop works with: `Engine` (the same for all runs of a preset), `Run` (the same for all rounds of a run),
and `Step` (the values that one step of the loop passes to the next)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import Struct

from toolcaddie.control.admission import Gates
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.catalog import View
from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.core.errors import BudgetSpentError
from toolcaddie.core.events import Emit
from toolcaddie.core.message import RawBody
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.presets import Preset
from toolcaddie.core.programs import ProgramLimits
from toolcaddie.core.run import Limits, RunContext, RunState
from toolcaddie.core.selection import Selection, SelectionQuery
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.engine.executor import Executor
from toolcaddie.meta.registry import OURS, MetaTools
from toolcaddie.ports import HeldPages, Interpreter, MetaOffer, Planner, Prepare, Provider, Selector

READER = OURS[READ_RESULT].definition(MetaOffer())
"""The definition of `read_result`. It is added to the tool array once a result was cut."""

Checkpoint = Callable[[RunState], Awaitable[None]]
"""Stores the state of a run: after each batch of calls, before a call that may act, and when a batch was interrupted."""


Admit = Callable[[RunState], Awaitable[BudgetSpentError | None]]
"""Makes room in the budget of a run's bot for the next model call. Returns the refusal if the budget is used up."""


async def nothing_to_prepare(view: View, query: SelectionQuery) -> None:
    """Does nothing. Used with selectors that need no preparation."""


async def not_stored(state: RunState) -> None:
    """Does nothing. Used as checkpoint of a run that cannot be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The objects that the loop works with. They are the same for every run of a preset."""

    provider: Provider
    selector: Selector
    planner: Planner
    gates: Gates
    executor: Executor
    preset: Preset
    capabilities: Capabilities
    meta: dict[str, Tool] = field(default_factory=dict)
    """Definitions of the offered meta tools by name, in the order in which they are sent."""
    meta_tools: MetaTools = field(default_factory=lambda: OURS)
    """All meta tools of the runtime by name, offered or not."""
    prepare: Prepare = nothing_to_prepare
    """Awaited before a selection, for example to make the vectors that the selection compares."""
    expandable: frozenset[str] | None = None
    """The categories that a model may ask for; None: all that the caller may see."""
    held: HeldPages | None = None
    """The store from which `read_result` reads the rest of cut results; None: cut results cannot be read further."""
    bounds: Bounds = DEFAULT
    programs: Programs | None = None
    """Runs programs of the model; None: it is offered none."""

    def meta_definition(self, name: str) -> Tool:
        """Returns the definition of an offered meta tool, or of `read_result`."""
        return READER if name == READ_RESULT else self.meta[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What runs the programs of models, and how."""

    interpreter: Interpreter
    limits: ProgramLimits = ProgramLimits()
    check_types: bool = True
    """True: a program runs only if its calls fit the schemas of the tools, as far as Python's types can say."""


class Record:
    """Remembers the last state of a run. All steps share one object, because a cancelled step cannot return its state."""

    def __init__(self, state: RunState, checkpoint: Checkpoint) -> None:
        self.state = state
        self._checkpoint = checkpoint

    async def store(self, state: RunState) -> None:
        """Remembers and stores the state."""
        self.state = state
        await self._checkpoint(state)

    async def store_outcomes(self, state: RunState) -> None:
        """Stores the state without remembering it. It is needed only if this process dies; while the process lives, the running
        batch has newer outcomes."""
        await self._checkpoint(state)


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """The values that stay the same during one run."""

    engine: Engine
    context: RunContext
    selection: Selection
    emit: Emit
    live: bool
    """True: answers are streamed from the provider."""
    record: Record
    admit: Admit | None
    """Asked before each model call; None: the run has no budget."""
    preset: Preset
    """The preset of the engine; a field because each round reads it many times."""
    limits: Limits
    """The limits of the preset, or smaller ones that the run has inherited."""

    def belongs_to_caller(self, name: str) -> bool:
        """Returns True if the caller itself runs the tool of this name."""
        tool = self.context.view.get(name)
        return tool is not None and tool.source == CLIENT_SOURCE


DeliveryKey = tuple[tuple[DeliveredTool, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...] | None]
"""The part of a state from which the tool array is made: `delivered`, `meta`, `known` and `allowed`."""


class Planned(Struct, frozen=True, kw_only=True):
    """A delivery (the planned tool array), and the key of the state for which it was planned."""

    key: DeliveryKey
    delivery: Delivery


class Step(Struct, frozen=True, kw_only=True):
    """The values that one step of a run passes to the next."""

    state: RunState
    planned: Planned | None = None
    """The last delivery. It could be planned again from the state; it is passed on to save that time."""
    raw: RawBody | None = None
    """The body of the provider's last response, from which the gateway copies fields that Toolcaddie does not know."""


def delivery_key(state: RunState) -> DeliveryKey:
    """Returns the part of a state from which the tool array is made."""
    return (state.delivered, state.meta, state.known, state.allowed)


def planned_for(run: Run, state: RunState, last: Planned | None) -> Planned:
    """Returns the last delivery if it was planned for an equal state, otherwise a new one."""
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
