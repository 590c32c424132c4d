"""Makes the next state of a run from the results of its calls, or from the answer that ends it. A run is a `RunState`, which
never changes; each function returns a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from toolcaddie.core.content import shown_text
from toolcaddie.core.message import Message
from toolcaddie.core.run import PendingCall, RunState
from toolcaddie.core.tool import Ending, Finish
from toolcaddie.engine.reveal import result_message


def completed(state: RunState, message: Message, *, ending: Ending | Literal[""] = "") -> RunState:
    """Returns the state of a run that ends with this message as its answer. `ending`: its kind, if a tool gave it."""
    return replace(
        state,
        status="completed",
        text=message.text,
        ending=ending,
        messages=(*state.messages, message),
        pending=(),
        repeats=(),
    )


def apply(state: RunState, outcomes: Sequence[PendingCall]) -> RunState:
    """Enters the results of a batch of calls into a run; no other function does.

    With all results, they become messages in call order and the next round follows. If a call waits for a person, the run
    is paused. If a call is the caller's own, the run ends with it, and finished calls stay in `pending`. If a result ends the
    run, the others are entered first; of several such results, the first counts.
    """
    if any(item.waiting == "approval" for item in outcomes):
        return replace(state, status="pending", pending=tuple(outcomes))
    if any(item.waiting == "client" for item in outcomes):
        text = state.messages[-1].text if state.messages else ""
        return replace(state, status="client_calls", pending=tuple(outcomes), text=text)
    if state.without_model:
        return _ended_by_call(state, outcomes)
    results = tuple(
        result_message(item.call, item.result, state) for item in outcomes if item.result and not item.program
    )
    state = replace(state, messages=(*state.messages, *results), pending=())
    finish = next(
        (item.result.effect for item in outcomes if item.result and isinstance(item.result.effect, Finish)), None
    )
    if finish is None:
        return state
    return completed(state, Message(role="assistant", content=finish.text), ending=finish.ending)


def _ended_by_call(state: RunState, outcomes: Sequence[PendingCall]) -> RunState:
    """Returns the completed state of a run without a model. Its only call stays in `pending`, with its result."""
    (outcome,) = outcomes
    text = "" if outcome.result is None else shown_text(outcome.result.content)
    return replace(state, status="completed", text=text, pending=(outcome,), repeats=())
