"""The cost of comparing an answer with the calls, and the precision and recall on the labelled answers.

python -m benchmarks.claims
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tests.control.test_claims import ROWS, judged, rates
from toolcaddie.control.claims.statements import statements_of
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunResult, RunState
from toolcaddie.core.tool import ToolCall
from toolcaddie.runtime.claims import with_claims
from toolcaddie.samples.gym import source

_PLAIN = "Her next payment is due on Monday. John Smith pays 40 euros a month, and he comes twice a week. " * 21
_CLAIMS = "I've frozen her membership until August, and I sent her a confirmation by email. " + _PLAIN
_TRIES = 500
_GYM = source()
_VIEW = View(catalog=Catalog.of(_GYM.tools(), _GYM.categories()))


def main() -> None:
    for name, text in (("without a claim", _PLAIN), ("with two claims", _CLAIMS)):
        text = text[:2_000]
        print(f"2,000 characters {name}: {_microseconds(partial(statements_of, text)):.0f} us")
        print(f"and the calls of 15 turns: {_microseconds(partial(with_claims, _result(text), _VIEW)):.0f} us in all")
    for half in ("dev", "held_out"):
        rows = [row for row in ROWS if row.half == half]
        precision, recall = rates(rows, [judged(row) for row in rows])
        claims = sum(len(row.marked) for row in rows)
        print(f"{half}: {len(rows)} answers, {claims} claims, precision {precision:.3f}, recall {recall:.3f}")


def _result(text: str) -> RunResult:
    """Returns the result of a run with this answer, after 15 turns with a call in each."""
    messages: list[Message] = []
    for turn in range(15):
        call = ToolCall(id=f"c{turn}", name="get_clients_list")
        messages += (
            Message(role="user", content="freeze the membership of Anna"),
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", tool_call_id=call.id, content='{"clients": ["Anna Berg", 40, "active"]}' * 20),
            Message(role="assistant", content="Here she is."),
        )
    messages.append(Message(role="user", content="freeze Anna's membership"))
    state = RunState(
        run_id="run",
        status="completed",
        messages=(*messages, Message(role="assistant", content=text)),
        first_new=len(messages),
        text=text,
    )
    return RunResult(run_id="run", status="completed", text=text, state=state)


def _microseconds(work: Callable[[], object]) -> float:
    """Returns the shortest of many durations, which other programs of the machine disturb least."""
    best = float("inf")
    for _ in range(_TRIES):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best * 1e6


if __name__ == "__main__":
    main()
