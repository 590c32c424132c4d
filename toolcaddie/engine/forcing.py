"""Whether a tool must be called in a round, and which one the provider should be pointed to first."""

from __future__ import annotations

from toolcaddie.core.delivery import Delivery
from toolcaddie.core.message import Force
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import RunState
from toolcaddie.engine.engine import Run
from toolcaddie.ports import CallWrapper

_LIKELIEST = 8
"""Tools that a search puts in front where one must be called."""


def force_for(run: Run, state: RunState, delivery: Delivery) -> Force | None:
    """That a tool must be called, until one was. Looking for tools is not using one; a wrapper runs one."""
    if not run.preset.force or state.called or not delivery.tools:
        return None
    tools = run.engine.meta_tools
    ignored = frozenset(name for name in delivery.meta if not isinstance(tools[name], CallWrapper))
    return Force(candidates=_likeliest(run, state, delivery), ignored=ignored)


def _likeliest(run: Run, state: RunState, delivery: Delivery) -> tuple[str, ...]:
    """What may be called, the best match of the request first. If nothing was selected, a search says what that is.
    Before them stands what the model has just asked for, and last what messages refer to."""
    scores = {chosen.tool.name: chosen.score for chosen in run.selection.tools}
    if not any(scores.values()):
        text = next((message.text for message in reversed(state.messages) if message.role == "user"), "")
        hits = run.engine.selector.search(run.context.view, text, _LIKELIEST)
        scores = {hit.tool.name: hit.score for hit in hits}
    names = [tool.name for tool in delivery.tools if delivery.allowed is None or tool.name in delivery.allowed]
    referenced = [name for name in state.referenced if name in delivery.deferred]
    revealed = [name for name in state.revealed if name in names or name in referenced]
    if state.revealed and not revealed and EXECUTE_TOOL in delivery.meta:
        revealed = [EXECUTE_TOOL]  # they are shown as text
    return tuple(dict.fromkeys((*revealed, *sorted(names, key=lambda name: -scores.get(name, 0.0)), *referenced)))
