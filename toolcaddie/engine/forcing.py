"""Forcing: decides if a round must call a tool, and which tools the provider should try first."""

from __future__ import annotations

from toolcaddie.core.delivery import Delivery
from toolcaddie.core.message import Force
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import RunState
from toolcaddie.engine.engine import Run
from toolcaddie.ports import CallWrapper

_LIKELIEST = 8
"""Number of tools that a search puts first if one must be called."""


def force_for(run: Run, state: RunState, delivery: Delivery) -> Force | None:
    """Returns the force for a round, until a tool was called. A search for tools does not count as a call; a wrapper does."""
    if not run.preset.force or state.called or not delivery.tools:
        return None
    tools = run.engine.meta_tools
    ignored = frozenset(name for name in delivery.meta if not isinstance(tools[name], CallWrapper))
    return Force(candidates=_likeliest(run, state, delivery), ignored=ignored)


def _likeliest(run: Run, state: RunState, delivery: Delivery) -> tuple[str, ...]:
    """Returns the tools that may be called: first those that the model has just asked for, then the others, the best match of
    the request first, and last those that messages refer to. If nothing was selected, a search ranks them."""
    scores = {item.tool.name: item.score for item in run.selection.tools}
    if not any(scores.values()):
        text = next((message.text for message in reversed(state.messages) if message.role == "user"), "")
        hits = run.engine.selector.search(run.context.view, text, _LIKELIEST)
        scores = {hit.tool.name: hit.score for hit in hits}
    names = [tool.name for tool in delivery.tools if delivery.allowed is None or tool.name in delivery.allowed]
    referenced = [name for name in state.referenced if name in delivery.deferred]
    revealed = [name for name in state.revealed if name in names or name in referenced]
    if state.revealed and not revealed and EXECUTE_TOOL in delivery.meta:
        revealed = [EXECUTE_TOOL]  # the revealed tools are shown as text
    return tuple(dict.fromkeys((*revealed, *sorted(names, key=lambda name: -scores.get(name, 0.0)), *referenced)))
