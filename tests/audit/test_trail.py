from __future__ import annotations

import asyncio
import typing
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.databases import change, database_url, rows
from toolcaddie.audit.trail import DROPPED_LIMIT, HISTORY_LIMIT, TEXT_LIMIT, Trail
from toolcaddie.core.approval import Approval
from toolcaddie.core.claims import Claim
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryOption, ExpectedBill
from toolcaddie.core.errors import AuditError
from toolcaddie.core.events import (
    ApprovalApplied,
    ApprovalClosed,
    CallDecided,
    CallFinished,
    CallIntended,
    CallProgressed,
    CallSettled,
    CallUnknown,
    ClaimsUnsupported,
    ClientCallDelta,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RequestClassified,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt, CallDelta, Message
from toolcaddie.core.run import PendingCall, RunResult, RunState
from toolcaddie.core.selection import Classification, DroppedTool, SelectedTool, Selection
from toolcaddie.core.storage import EventRecord
from toolcaddie.core.tool import Tool, ToolCall, ToolResult, failed
from toolcaddie.core.usage import Usage
from toolcaddie.storage.database import Database
from toolcaddie.util.replacing import replace

SECRET = "sk-abcdefghijklmnopqrstuvwx"
CALL = ToolCall(id="call_1", name="freeze_membership", arguments='{"member":"John","days":30}')
META = ToolCall(id="call_2", name="request_more_tools", arguments='{"categories":["billing"],"reason":"refund"}')
STATE = RunState(run_id="r", rounds=2, calls=1, seconds=1.5, usage=Usage(input_tokens=100, output_tokens=7))


ANN = Principal(id="ann", role="staff")


def started(run_id: str = "r", message: str = "freeze John's membership", principal: Principal = ANN) -> RunStarted:
    return RunStarted(
        run_id=run_id,
        principal=principal,
        preset="default",
        model="m",
        message=message,
        catalog_version="abc",
        catalog_size=137,
    )


def finished(run_id: str = "r", text: str = "Done.") -> RunFinished:
    return RunFinished(run_id=run_id, result=RunResult(run_id=run_id, status="completed", text=text, state=STATE))


def intended(run_id: str = "r") -> CallIntended:
    return CallIntended(run_id=run_id, call=CALL)


def called(content: str = "frozen", run_id: str = "r") -> CallFinished:
    return CallFinished(
        run_id=run_id, call=CALL, result=ToolResult(content=content), source="gym", seconds=0.01, number=1
    )


def selected(selection: Selection) -> ToolsSelected:
    return ToolsSelected(run_id="r", selection=selection)


SELECTION = Selection(
    tools=(SelectedTool(tool=Tool(name="freeze_membership", category="memberships"), score=0.9, reasons=("freeze",)),),
    dropped=(DroppedTool(name="delete_member", stage="max_tools", detail="rank 25 of 24", score=0.1),),
    categories=("memberships",),
    matched=("memberships",),
    catalog_size=137,
    tokens_all=9_000,
    tokens_selected=1_200,
)
DELIVERY = Delivery(
    strategy="direct",
    definitions=({}, {}),
    meta=("request_more_tools",),
    tools=(DeliveredTool(name="freeze_membership", slim=True),),
    prefix_digest="d",
    tokens=1_300,
    tokens_all=9_000,
)

APPROVAL = Approval(
    id="approval_1",
    run_id="r",
    call_id="call_1",
    tool="freeze_membership",
    arguments={},
    digest="d",
    policy_version="rules-3",
    principal=Principal(id="ann"),
    created=1_000.0,
    expires=9_000.0,
    status="approved",
    answered=1_200.0,
    answered_by=Principal(id="boss"),
    answer_reason="agreed by phone",
)

EVERY_EVENT: Sequence[RunEvent] = (
    started(),
    RequestClassified(run_id="r", classification=Classification(categories=("billing",), model="m-0")),
    selected(SELECTION),
    ToolsDelivered(run_id="r", round=1, delivery=DELIVERY),
    ModelAsked(run_id="r", round=1, provider="openai", model="m", tools=25),
    TextDelta(run_id="r", text="I will"),
    ClientCallDelta(run_id="r", delta=CallDelta(index=0, arguments="{")),
    CallProgressed(run_id="r", call_id="call_1", tool="freeze", done=1.0, total=3.0),
    ModelAnswered(
        run_id="r",
        round=1,
        text="I will",
        calls=(CALL,),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=100),
        model="m-1",
        seconds=0.5,
    ),
    MetaCalled(run_id="r", call=META, result=ToolResult(content="Loaded: refund"), added=("refund",)),
    CallDecided(
        run_id="r",
        call=CALL,
        decision=Decision(verdict="allow", reason="yes", rule="default", policy_version="rules-3"),
    ),
    ApprovalClosed(run_id="r", approval=APPROVAL),
    ApprovalApplied(run_id="r", call_id="call_1", approval=APPROVAL),
    intended(),
    called(),
    CallUnknown(run_id="r", call=CALL, reason="the run broke off"),
    CallSettled(
        run_id="r", call=CALL, took_effect=True, text="refund 7", reason="on the list", by=Principal(id="boss")
    ),
    LimitReached(run_id="r", limit="rounds", detail="5 rounds"),
    RunPaused(run_id="r", state=STATE),
    RunResumed(run_id="r", principal=Principal(id="ann"), answered=("call_1",)),
    RunFailed(run_id="r", error="no", kind="RunError"),
    ClaimsUnsupported(run_id="r", claims=(Claim(action="destroy", text="I deleted it."),)),
    finished(),
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        yield database


async def recorded(database: Database, *events: RunEvent) -> Sequence[EventRecord]:
    trail = Trail(database.events, clock=lambda: 1_234.5)
    for event in events:
        await trail.emit(event)
    return await database.events.events("r")


def test_the_events_below_are_all_there_are() -> None:
    assert {type(event) for event in EVERY_EVENT} == set(typing.get_args(RunEvent))


@pytest.mark.anyio
async def test_every_event_but_the_live_pieces_becomes_a_row_of_its_kind(database: Database) -> None:
    rows = await recorded(database, *EVERY_EVENT)
    assert [row.kind for row in rows] == [
        "run_started",
        "request_classified",
        "tools_selected",
        "tools_delivered",
        "model_asked",
        "model_answered",
        "meta_called",
        "call_decided",
        "approval_closed",
        "approval_applied",
        "call_intended",
        "call_finished",
        "call_unknown",
        "call_settled",
        "limit_reached",
        "run_paused",
        "run_resumed",
        "run_failed",
        "claims_unsupported",
        "run_finished",
    ]
    assert {row.at for row in rows} == {1_234.5}


@pytest.mark.anyio
async def test_rows_hold_what_a_person_asks_for_afterwards(database: Database) -> None:
    rows = {row.kind: row.data for row in await recorded(database, *EVERY_EVENT)}

    assert rows["run_started"]["principal"] == {
        "id": "ann",
        "bot": None,
        "role": "staff",
        "tenant": "default",
        "channel": None,
    }
    assert rows["run_started"]["message"] == "freeze John's membership"

    chosen = rows["tools_selected"]
    assert chosen["tools"] == [
        {"name": "freeze_membership", "category": "memberships", "score": 0.9, "reasons": ["freeze"]}
    ]
    assert chosen["dropped"] == [
        {"name": "delete_member", "stage": "max_tools", "detail": "rank 25 of 24", "score": 0.1}
    ]
    assert chosen["counts"] == {"catalog": 137, "selected": 1}
    assert chosen["tokens"] == {"all": 9_000, "selected": 1_200}

    assert rows["tools_delivered"]["slim"] == ["freeze_membership"]
    assert rows["tools_delivered"]["meta"] == ["request_more_tools"]
    assert rows["model_answered"]["calls"][0]["name"] == "freeze_membership"
    assert rows["model_answered"]["usage"] == {
        "input": 100,
        "output": 0,
        "cached": 0,
        "written": 0,
        "reasoning": 0,
    }
    assert not {"provider", "attempts"} & rows["model_answered"].keys()
    assert not {"options", "bill", "added", "allowed", "deferred"} & rows["tools_delivered"].keys()
    assert rows["meta_called"]["added"] == ["refund"]
    assert rows["call_decided"]["verdict"] == "allow"
    assert rows["call_decided"]["policy_version"] == "rules-3"
    assert rows["approval_closed"] == {
        "id": "call_1",
        "name": "freeze_membership",
        "approval": "approval_1",
        "status": "approved",
        "by": "boss",
        "reason": "agreed by phone",
        "asked": 1_000.0,
        "closed": 1_200.0,
        "policy_version": "rules-3",
    }
    assert msgspec.json.decode(rows["call_intended"]["arguments"]) == {"member": "John", "days": 30}
    assert rows["call_finished"]["content"] == "frozen"
    assert not {"error", "cached"} & rows["call_finished"].keys()
    ended = rows["run_finished"]
    assert (ended["status"], ended["text"], ended["rounds"], ended["calls"]) == ("completed", "Done.", 2, 1)
    assert ended["usage"] == {"input": 100, "output": 7, "cached": 0, "written": 0, "reasoning": 0}


@pytest.mark.anyio
async def test_what_was_weighed_and_what_it_is_expected_to_cost_is_recorded(database: Database) -> None:
    delivery = Delivery(
        strategy="native",
        definitions=(),
        meta=(),
        tools=(DeliveredTool(name="a"),),
        prefix_digest="d",
        tokens=300,
        tokens_all=900,
        note="the array is unchanged; 1 more tools made known by the provider's own means",
        deferred=frozenset({"c", "b"}),
        allowed=("a",),
        added=("b",),
        added_by="reference",
        later_by="reference",
        options=(
            DeliveryOption(name="added by reference", strategy="native", tools=2, tokens=300, expected=81.25),
            DeliveryOption(
                name="added by array",
                strategy="direct",
                tools=2,
                tokens=300,
                rebilled=4_000,
                expected=4_681.0,
                dollars=0.01,
            ),
        ),
        bill=ExpectedBill(read=4_300, written=120, plain=30, dollars=0.002),
    )
    (row,) = await recorded(database, ToolsDelivered(run_id="r", round=1, delivery=delivery))
    told = row.data
    assert (told["strategy"], told["deferred"], told["allowed"]) == ("native", ["b", "c"], ["a"])
    assert (told["added"], told["added_by"], told["later_by"]) == (["b"], "reference", "reference")
    assert told["bill"] == {"read": 4_300, "written": 120, "plain": 30, "dollars": 0.002}
    assert [
        (option["name"], option["rebilled"], option["expected"], option["dollars"]) for option in told["options"]
    ] == [
        ("added by reference", 0, 81.25, None),
        ("added by array", 4_000, 4_681.0, 0.01),
    ]


@pytest.mark.anyio
async def test_every_request_behind_an_answer_is_recorded_with_who_was_asked_and_how_it_went(
    database: Database,
) -> None:
    attempts = (
        Attempt(provider="openai", model="gpt", outcome="failed", detail=f"429 for {SECRET}", seconds=0.2),
        Attempt(provider="anthropic", model="claude", how="named", usage=Usage(input_tokens=9, written_tokens=5)),
    )
    event = ModelAnswered(
        run_id="r",
        round=1,
        text="ok",
        calls=(),
        finish_reason="stop",
        usage=Usage(input_tokens=9, output_tokens=4, written_tokens=5, reasoning_tokens=3),
        model="claude",
        seconds=0.4,
        provider="anthropic",
        attempts=attempts,
    )
    (row,) = await recorded(database, event)
    assert row.data["provider"] == "anthropic"
    assert row.data["usage"] == {"input": 9, "output": 4, "cached": 0, "written": 5, "reasoning": 3}
    first, second = row.data["attempts"]
    assert (first["provider"], first["how"], first["outcome"], first["seconds"]) == ("openai", "plain", "failed", 0.2)
    assert SECRET not in first["detail"]
    assert (second["model"], second["how"], second["outcome"], second["usage"]["written"]) == (
        "claude",
        "named",
        "answered",
        5,
    )


@pytest.mark.anyio
async def test_a_result_that_was_not_run_for_its_call_says_so(database: Database) -> None:
    kept = ToolResult(content="frozen", cached=True)
    (row,) = await recorded(
        database, CallFinished(run_id="r", call=CALL, result=kept, source="gym", seconds=0, number=1)
    )
    assert row.data["cached"] is True


@pytest.mark.anyio
async def test_a_failed_call_is_recorded_with_the_kind_of_its_failure(database: Database) -> None:
    event = CallFinished(
        run_id="r", call=CALL, result=failed("too slow", "timeout"), source="gym", seconds=30, number=1
    )
    (row,) = await recorded(database, event)
    assert (row.data["error"], row.data["content"]) == ("timeout", "too slow")


@pytest.mark.anyio
@pytest.mark.proves("R000-32")
async def test_a_meta_call_leaves_exactly_one_row_and_no_intent(database: Database) -> None:
    rows = await recorded(database, MetaCalled(run_id="r", call=META, result=ToolResult(content="x"), added=("a",)))
    assert [row.kind for row in rows] == ["meta_called"]


@pytest.mark.anyio
async def test_a_caller_whose_id_no_database_stores_stops_no_run(database: Database) -> None:
    odd = "a\0b\ud800"
    (row,) = await recorded(database, started("r", principal=Principal(id=odd, tenant=odd, bot=odd)))
    assert row.data["principal"]["id"] == "a\ufffdb?"
    assert [run.principal for run in await database.events.runs()] == ["a\ufffdb?"]


@pytest.mark.anyio
async def test_an_intent_is_on_disk_when_emit_returns(database: Database, tmp_path: Path) -> None:
    trail = Trail(database.events)
    await trail.emit(started())
    await trail.emit(intended())
    kinds = rows(database_url(tmp_path / "trail.sqlite"), "select kind from events order by id")
    assert kinds == [("run_started",), ("call_intended",)]


@pytest.mark.anyio
async def test_no_intent_no_run_when_the_disk_does_not_take_it(database: Database, tmp_path: Path) -> None:
    trail = Trail(database.events)
    change(database_url(tmp_path / "trail.sqlite"), "alter table events rename to away")
    await trail.emit(started())
    with pytest.raises(AuditError):
        await trail.emit(intended())
    with pytest.raises(AuditError):
        await trail.emit(finished())
    change(database_url(tmp_path / "trail.sqlite"), "alter table away rename to events")


@pytest.mark.anyio
async def test_rows_are_numbered_within_their_run(database: Database) -> None:
    trail = Trail(database.events)
    for event in (started("a"), started("b"), intended("b"), called(run_id="a"), finished("b"), finished("a")):
        await trail.emit(event)
    for run_id in ("a", "b"):
        assert [row.seq for row in await database.events.events(run_id)] == [1, 2, 3]


@pytest.mark.anyio
async def test_a_run_carried_on_by_another_process_continues_the_numbers(database: Database) -> None:
    first = Trail(database.events)
    await first.emit(started())
    await first.emit(RunPaused(run_id="r", state=STATE))
    second = Trail(database.events)
    await second.emit(intended())
    await second.emit(finished())
    assert [row.seq for row in await database.events.events("r")] == [1, 2, 3, 4]


@pytest.mark.anyio
async def test_calls_that_end_side_by_side_in_a_resumed_run_get_different_numbers(database: Database) -> None:
    await Trail(database.events).emit(started())
    trail = Trail(database.events)
    await asyncio.gather(*(trail.emit(called(str(number))) for number in range(10)))
    assert sorted(row.seq for row in await database.events.events("r")) == list(range(1, 12))


@pytest.mark.anyio
async def test_a_catalog_that_every_request_sends_whole_is_recorded_in_full_each_time(database: Database) -> None:
    tools = tuple(
        SelectedTool(tool=Tool(name=name, category="notes"), reasons=("the whole catalog fits", f"token={SECRET}"))
        for name in ("read", "write")
    )
    whole = Selection(tools=tools, catalog_size=2)
    first, again = await recorded(database, selected(whole), selected(replace(whole, seconds=0.5)))
    assert [tool["name"] for tool in first.data["tools"]] == ["read", "write"]
    assert first.data["tools"][0]["reasons"] == ["the whole catalog fits", "token=[redacted]"]
    assert again.data == {**first.data, "seconds": 0.5}


@pytest.mark.anyio
async def test_of_many_tools_left_out_the_best_are_named_and_all_are_counted(database: Database) -> None:
    dropped = [DroppedTool(name=f"t{number}", stage="floor", score=number / 1000) for number in range(1_000)]
    (row,) = await recorded(database, selected(Selection(dropped=tuple(dropped))))
    assert [tool["name"] for tool in row.data["dropped"][:2]] == ["t999", "t998"]
    assert len(row.data["dropped"]) == DROPPED_LIMIT
    assert row.data["dropped_by_stage"] == {"floor": 1_000}


@pytest.mark.anyio
async def test_long_texts_are_cut_and_say_so(database: Database) -> None:
    long = "word " * 20_000
    huge_call = ToolCall(id="c", name="x", arguments=msgspec.json.encode({"text": long}).decode())
    await recorded(database, started(message=long), called(long), CallIntended(run_id="r", call=huge_call))
    rows = await recorded(database, finished(text=long))
    for row, key in zip(rows, ("message", "content", "arguments", "text"), strict=True):
        assert row.data[key].startswith(("word word", '{"text":"word'))
        assert len(row.data[key]) < TEXT_LIMIT + 60
        assert f"[{TEXT_LIMIT} of " in row.data[key]
    assert rows[1].data["bytes"] == len(long)


@pytest.mark.anyio
async def test_the_conversation_before_a_run_is_kept_short_and_without_secrets(database: Database) -> None:
    said = (
        Message(role="system", content="You are kind."),
        Message(role="user", content=f"my key is {SECRET}"),
        Message(role="assistant", content="x" * (HISTORY_LIMIT - 10) + f" {SECRET}", tool_calls=(CALL,)),
    )
    trail = Trail(database.events)
    await trail.emit(replace(started("long"), history=said))
    await trail.emit(started("short"))
    (row,) = await database.events.events("long")
    user, assistant = row.data["history"]
    assert user["role"] == "user"
    assert SECRET not in str(row.data)
    assert SECRET[:9] not in assistant["text"]
    assert len(assistant["text"]) == HISTORY_LIMIT
    assert assistant["characters"] == len(said[2].text)
    assert assistant["called"] == ["freeze_membership"]
    (row,) = await database.events.events("short")
    assert "history" not in row.data


@pytest.mark.anyio
async def test_no_row_holds_a_secret_whatever_event_carried_it(database: Database) -> None:
    leak = f"use {SECRET} please"
    call = ToolCall(id="c", name="x", arguments=msgspec.json.encode({"text": leak, "password": "hunter2"}).decode())
    result = ToolResult(content=msgspec.json.encode({"api_key": "hunter2", "note": leak}).decode())
    state = RunState(run_id="r", pending=(PendingCall(call=call, waiting="approval"),))
    rows = await recorded(
        database,
        started(message=leak),
        selected(Selection(tools=(SelectedTool(tool=Tool(name="x"), reasons=(leak,)),))),
        ModelAnswered(
            run_id="r", round=1, text=leak, calls=(call,), finish_reason="stop", usage=Usage(), model="m", seconds=0
        ),
        MetaCalled(run_id="r", call=call, result=result),
        CallDecided(run_id="r", call=call, decision=Decision(verdict="deny", reason=leak)),
        CallIntended(run_id="r", call=call),
        CallFinished(run_id="r", call=call, result=result, source="s", seconds=0, number=1),
        LimitReached(run_id="r", limit="tokens", detail=leak),
        RunPaused(run_id="r", state=state),
        RunFailed(run_id="r", error=leak, kind="RunError"),
        RunFinished(
            run_id="r",
            result=RunResult(run_id="r", status="client_calls", text=leak, state=state, client_calls=(call,)),
        ),
    )
    assert len(rows) == 11
    for row in rows:
        written = msgspec.json.encode(row.data).decode()
        assert SECRET not in written, row.kind
        assert "hunter2" not in written, row.kind


@pytest.mark.anyio
async def test_halves_of_surrogate_pairs_and_zero_bytes_do_not_stop_a_run(database: Database) -> None:
    call = ToolCall(id="c", name="x", arguments='{"text":"\udc80"}')
    rows = await recorded(database, started(message="\ud800\0"), CallIntended(run_id="r", call=call), called("\udfff"))
    assert [row.data.get("message") or row.data.get("content") or row.data["arguments"] for row in rows] == [
        "?\ufffd",
        '{"text":"?"}',
        "?",
    ]


@pytest.mark.anyio
async def test_nothing_of_a_run_is_remembered_after_its_end(database: Database) -> None:
    trail = Trail(database.events)
    for number in range(50):
        run_id = f"run-{number}"
        for event in (started(run_id), intended(run_id), finished(run_id)):
            await trail.emit(event)
    assert not trail._last
