"""What an answer says was done is compared with the calls: through whole runs, with labelled sentences in six languages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from toolcaddie import PRESETS, Runtime, tool
from toolcaddie.control.claims.judging import Evidence, unsupported
from toolcaddie.control.claims.statements import statements_of
from toolcaddie.control.claims.support import PastCall
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.core.events import ClaimsUnsupported, RunEvent, RunFinished
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import ToolCall, ToolResult
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.telemetry import PrometheusSink
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

LABELLED = Path(__file__).parents[1] / "data" / "claims.jsonl"
BOSS = Principal(id="boss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A labelled answer. `calls`: `+tool: result` for a successful call, `~tool: result` for one of a read-only tool, `-tool` for
    a failed one. `marked`: the classes of the claims that must be marked."""

    half: str
    language: str
    asked: str
    text: str
    calls: Sequence[str]
    marked: Sequence[str]


ROWS = [Row(**json.loads(line)) for line in LABELLED.read_text().splitlines()]


def made_tool(written: str) -> Callable[..., Any]:
    """The tool of a labelled call, which answers or fails as the label says."""

    def run() -> str | ToolResult:
        if written[0] == "-":
            return ToolResult(content="refused by the back end", is_error=True, error="failed")
        return written.partition(": ")[2] or "ok"

    run.__name__ = written[1:].partition(": ")[0]
    run.__doc__ = "A tool."
    marked: Callable[..., Any] = tool(read_only=True if written[0] == "~" else None)(run)
    return marked


async def actions(row: Row) -> set[str]:
    """The classes of the claims that a run marks in the answer of a row."""
    tools = [made_tool(each) for each in row.calls]
    names = [each.__name__ for each in tools]
    script = [calls(*((name, {}) for name in names)), say(row.text)] if names else [say(row.text)]
    source = FunctionSource("desk", tools)
    made = Runtime(provider=ScriptedProvider(script), sources=[source], policy=AllowAll())
    result = await made.run(row.asked)
    assert result.text == row.text
    return {claim.action for claim in result.unsupported_claims}


async def test_claims_are_found_and_false_alarms_are_rare_in_sentences_written_after_the_rules() -> None:
    """Source: docs/claims.md, which tells how the rules and the two halves came about."""
    rows = [row for row in ROWS if row.half == "held_out"]
    precision, recall = rates(rows, [await actions(row) for row in rows])
    assert precision >= 0.97
    assert recall >= 0.8


def test_claims_are_found_in_the_sentences_from_which_the_rules_were_made() -> None:
    rows = [row for row in ROWS if row.half == "dev"]
    precision, recall = rates(rows, [judged(row) for row in rows])
    assert precision >= 0.99
    assert recall >= 0.95


def judged(row: Row) -> set[str]:
    """The classes that are marked in the answer of a row, without a run."""
    made = [
        PastCall(tool=each[1:].partition(": ")[0], read_only=each[0] == "~" or None, result=each.partition(": ")[2])
        for each in row.calls
        if each[0] != "-"
    ]
    tried = any(each[0] == "-" for each in row.calls)
    evidence = Evidence(calls=made, asked=row.asked, tried=tried)
    return {claim.action for claim in unsupported(statements_of(row.text), evidence)}


def rates(rows: Sequence[Row], found: Sequence[set[str]]) -> tuple[float, float]:
    """Precision and recall of what was marked."""
    right = sum(len(each & set(row.marked)) for row, each in zip(rows, found, strict=True))
    return right / sum(map(len, found)), right / sum(len(row.marked) for row in rows)


def test_the_labelled_sentences_have_every_language_and_many_hard_negatives() -> None:
    held_out = [row for row in ROWS if row.half == "held_out"]
    assert len(ROWS) >= 150
    assert {row.language for row in held_out} == {"en", "es", "pt", "de", "fr", "it"}
    assert sum(not row.marked for row in held_out) > len(held_out) / 2


# --- the calls of a run and of its conversation ----------------------------------------------------------------------------


def delete_client(name: str = "") -> str:
    """Delete a client."""
    return f"deleted {name}"


DELETED = say("I have deleted the client John.")


def runtime(*script: Any, **options: Any) -> Runtime:
    options = {"sources": [tool(destructive=True)(delete_client)], "policy": AllowAll(), **options}
    return Runtime(provider=ScriptedProvider(list(script)), **options)


class Recorder:
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)


async def test_a_claim_without_a_call_is_in_the_result_and_an_event_before_the_end() -> None:
    recorder = Recorder()
    result = await runtime(DELETED, sinks=[recorder]).run("delete John")
    (claim,) = result.unsupported_claims
    assert (claim.text, claim.action) == ("I have deleted the client John.", "destroy")
    assert result.text == claim.text
    *_, marked, finished = recorder.events
    assert isinstance(marked, ClaimsUnsupported)
    assert marked.claims == result.unsupported_claims
    assert isinstance(finished, RunFinished)
    assert finished.result.unsupported_claims == result.unsupported_claims


async def test_a_claim_with_its_call_is_not_marked() -> None:
    recorder = Recorder()
    result = await runtime(call("delete_client", {"name": "John"}), DELETED, sinks=[recorder]).run("delete John")
    assert result.unsupported_claims == ()
    assert not any(isinstance(event, ClaimsUnsupported) for event in recorder.events)


@pytest.mark.parametrize("approved", [True, False])
async def test_after_a_person_was_asked_the_claim_is_marked_only_if_the_person_refused(approved: bool) -> None:
    made = runtime(call("delete_client", {"name": "John"}), DELETED, policy=CedarPolicy())
    paused = await made.run("delete John")
    assert paused.status == "pending"
    assert paused.unsupported_claims == ()
    (approval,) = await made.approvals.list("default", status="open")
    await made.approvals.answer("default", approval.id, approved=approved, by=BOSS)
    result = await made.resume(paused.run_id)
    assert [claim.action for claim in result.unsupported_claims] == ([] if approved else ["destroy"])


@pytest.mark.parametrize(
    "refused", [call("delete_client", {"wrong": 1}), call("no_such_tool"), call("request_more_tools", {"query": "x"})]
)
async def test_a_call_that_was_wrong_unknown_or_only_looked_for_tools_supports_nothing(refused: Any) -> None:
    result = await runtime(refused, DELETED).run("delete John")
    assert [claim.action for claim in result.unsupported_claims] == ["destroy"]


async def test_a_denied_call_supports_nothing() -> None:
    policy = CedarPolicy(text='forbid (principal, action == Action::"call", resource == Tool::"delete_client");')
    result = await runtime(call("delete_client"), DELETED, policy=policy).run("delete John")
    assert [claim.action for claim in result.unsupported_claims] == ["destroy"]


async def test_a_call_through_execute_tool_counts() -> None:
    executed = call("execute_tool", {"tool_name": "delete_client", "arguments": {"name": "John"}})
    result = await runtime(executed, DELETED, preset="compact").run("delete John")
    assert result.tool_calls == ("delete_client",)
    assert result.unsupported_claims == ()


@pytest.mark.parametrize("code", ["print(await delete_client(name='John'))", "print(1)"])
async def test_the_calls_of_a_program_count_and_the_program_itself_does_not(code: str) -> None:
    preset = replace(PRESETS["default"], programs="always")
    script = [call("run_program", {"code": code}), DELETED]
    async with runtime(*script, preset=preset, programs="monty") as made:
        result = await made.run("delete John")
    assert bool(result.unsupported_claims) == (code == "print(1)")


def earlier(*, result: str = "deleted John", is_error: bool = False) -> list[Message]:
    """A turn in which a tool, of the client or of the catalog, was called."""
    made = ToolCall(id="c1", name="delete_client", arguments='{"name": "John"}')
    return [
        Message(role="user", content="delete John"),
        Message(role="assistant", tool_calls=(made,)),
        Message(role="tool", tool_call_id="c1", content=result, is_error=is_error),
        Message(role="assistant", content="Done."),
    ]


@pytest.mark.parametrize(
    ("history", "is_marked"),
    [
        (earlier(), False),
        (earlier(is_error=True), True),
        (earlier(result='{"error": "refused"}'), True),
        (earlier(result='{"error": null, "deleted": 1}'), False),
        ([], True),
    ],
    ids=["deleted", "failed", "error in text", "no error in text", "no history"],
)
async def test_calls_of_earlier_turns_count_by_their_results(history: list[Message], is_marked: bool) -> None:
    request = RunRequest(
        messages=[*history, Message(role="user", content="Delete John if he is still there, and tell me what you did")]
    )
    result = await runtime(DELETED).run(request)
    assert bool(result.unsupported_claims) == is_marked


async def test_the_callers_own_tools_count_once_their_results_are_there() -> None:
    own = {"type": "function", "function": {"name": "delete_client", "parameters": {"type": "object"}}}
    made = runtime(call("delete_client"), DELETED, sources=[])
    waiting = await made.run("delete John", client_tools=[own])
    assert (waiting.status, waiting.unsupported_claims) == ("client_calls", ())
    (asked,) = waiting.client_calls
    result = await made.resume(waiting.run_id, results={asked.id: "deleted John"})
    assert result.unsupported_claims == ()


async def test_an_answer_repeated_where_the_client_leaves_calls_out_is_not_judged_again() -> None:
    history = [
        Message(role="user", content="delete John"),
        Message(role="assistant", content="I have deleted John."),
        Message(role="user", content="Really?"),
    ]
    assert (await runtime(DELETED).run(RunRequest(messages=history))).unsupported_claims == ()


@pytest.mark.parametrize("preset", list(PRESETS))
async def test_no_preset_changes_the_check(preset: str) -> None:
    def delete_account() -> ToolResult:
        """Delete an account."""
        return ToolResult(content="refused", is_error=True, error="failed")

    script = [call("delete_account"), DELETED] if preset == "forced" else [DELETED]
    result = await runtime(*script, preset=preset, sources=[delete_account]).run("delete John")
    assert [claim.action for claim in result.unsupported_claims] == ["destroy"]


async def test_the_check_can_be_switched_off() -> None:
    recorder = Recorder()
    result = await runtime(DELETED, check_claims=False, sinks=[recorder]).run("delete John")
    assert result.unsupported_claims == ()
    assert not any(isinstance(event, ClaimsUnsupported) for event in recorder.events)


async def test_a_direct_call_and_a_typed_answer_are_not_judged() -> None:
    typed = say('{"message": "I have deleted the client John."}')
    schema = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
    assert (await runtime(typed, output=schema).run("delete John")).unsupported_claims == ()
    assert (await runtime().call("delete_client", {"name": "John"})).success


async def test_claims_are_counted_by_class() -> None:
    registry = CollectorRegistry()
    both = say("I have deleted John and sent him an email.")
    await runtime(both, sinks=[PrometheusSink(registry)]).run("delete John")
    counted = generate_latest(registry).decode()
    assert 'toolcaddie_unsupported_claims_total{action="destroy"} 1.0' in counted
    assert 'toolcaddie_unsupported_claims_total{action="send"} 1.0' in counted


# --- cost -----------------------------------------------------------------------------------------------------------------

HOSTILE = ['"', "`", "```", "\n", ". ", "i deleted ", "> deleted\n", "«deleted", "„deleted", "I deleted it. ", "done "]


def seconds(work: Callable[[], Any], tries: int) -> float:
    """The shortest duration of so many tries, which other programs of the machine disturb least."""
    best = float("inf")
    for _ in range(tries):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_megabyte_is_read_as_fast_as_any_long_text(piece: str) -> None:
    assert seconds(partial(statements_of, piece * (1_000_000 // len(piece))), 3) < 0.1


def test_an_ordinary_answer_costs_less_than_a_tenth_of_a_millisecond() -> None:
    text = "Her next payment is due on Monday. John Smith pays 40 euros a month, and he comes twice a week. " * 21
    assert seconds(partial(statements_of, text[:2_000]), 200) < 0.0001
