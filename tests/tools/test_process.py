"""Commands in the background and the tool `process`, which looks after them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tools.command_rig import Alive, Rig, rig
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import SandboxError
from toolcaddie.ports import Command, OnOutput, Outcome
from toolcaddie.tools.commands.sessions import Sessions, Unread

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="commands are run on Linux only"),
]

BOTH = pytest.mark.parametrize("kind", ["plain", "wall"])


async def status(box: Rig, session_id: str) -> str:
    sessions = (await box.process("list")).structured["sessions"]
    return next(str(each["status"]) for each in sessions if each["session_id"] == session_id)


# --- starting and reading ---------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-42", "R002-46", "R002-51")
@BOTH
async def test_a_command_in_the_background_gives_a_session_and_a_pid_at_once(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        result = await box.exec("sleep 1001", background=True)
        session = result.structured
        assert session["status"] == "running"
        assert psutil.pid_exists(session["pid"])
        assert f"Session {session['session_id']} was started, PID {session['pid']}" in result.text
        listed = (await box.process("list")).structured["sessions"]
        assert [(each["session_id"], each["command"]) for each in listed] == [(session["session_id"], "sleep 1001")]


@pytest.mark.proves("R002-49", "R002-52")
@BOTH
async def test_a_poll_returns_only_new_output_and_drains_it(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        session = await box.start('while read -r line; do echo "got $line"; echo "err $line" >&2; done; touch a')
        for word in ("one", "two"):
            assert (await box.process("write", session, input=f"{word}\n")).success
            output = await box.output(session, f"err {word}\n")
            assert output == f"got {word}\nerr {word}\n"
        assert (await box.process("poll", session)).structured["output"] == ""


@pytest.mark.proves("R002-52")
@BOTH
async def test_a_finished_session_keeps_its_output_until_it_is_polled(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        session = await box.start("echo done; exit 4")
        state = await box.finished(session)
        assert (state["output"], state["exit_code"], state["ending"]) == ("done\n", 4, "exited")
        again = await box.process("poll", session)
        assert again.structured["output"] == ""
        assert "finished with exit code 4" in again.text


@pytest.mark.proves("R002-52")
@BOTH
async def test_of_more_output_than_is_kept_the_newest_part_stays(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind, max_output_chars=1_000) as box:
        alive = Alive(box.folder)
        session = await box.start("exec 3> alive; seq 100000")
        assert await alive.is_gone(10)
        await box.process("kill", session)  # it returns when all output has been read
        result = await box.process("poll", session)
        assert len(result.structured["output"]) == 1_000
        assert result.structured["output"].endswith("99999\n100000\n")
        assert result.structured["dropped_characters"] == 588_895 - 1_000
        assert "587,895 older characters were dropped" in result.text


def test_characters_are_joined_over_pieces_and_streams() -> None:
    unread = Unread(5)
    unread.add("stdout", "aé".encode()[:-1])
    unread.add("stderr", b"!")
    unread.add("stdout", "é".encode()[-1:] + b"\xff")
    assert unread.taken() == ("a!é�", 0)
    unread.add("stdout", b"1234")
    unread.add("stdout", b"567")
    assert unread.taken() == ("34567", 2)


# --- the other actions ------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-49")
@BOTH
async def test_a_killed_session_is_dead_with_everything_that_it_started(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        alive = Alive(box.folder)
        session = await box.start("exec 3> alive; setsid sleep 1001 & (sleep 1002 &) ; echo up; sleep 1003")
        await box.output(session, "up\n")
        assert (await box.process("kill", session)).success
        assert await alive.is_gone(0.1)
        assert await status(box, session) == "finished"
        assert "finished already" in (await box.process("kill", session)).text


async def test_sessions_die_with_the_runtime_that_serves_them(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        alive = Alive(box.folder)
        await box.output(await box.start("exec 3> alive; echo up; sleep 1001"), "up\n")
        await box.runtime.close()
        assert await alive.is_gone(0.1)


@BOTH
async def test_closing_the_source_kills_all_sessions(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        alive = Alive(box.folder)
        session = await box.start("exec 3> alive; setsid sleep 1001 & echo up; sleep 1002")
        await box.output(session, "up\n")
        await box.source.close()
        assert await alive.is_gone(0.1)
        assert (await box.process("list")).structured["sessions"] == []


@pytest.mark.proves("R002-52")
async def test_write_needs_input_and_a_running_session(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        session = await box.start("read line; echo $line")
        assert "needs input" in (await box.process("write", session)).text
        await box.process("write", session, input="x\n")
        await box.finished(session)
        late = await box.process("write", session, input="y\n")
        assert late.is_error
        assert "has finished" in late.text


@pytest.mark.proves("R002-49", "R002-52")
async def test_clear_refuses_a_running_session_and_forgets_a_finished_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        running, finished = await box.start("sleep 1001"), await box.start("true")
        await box.finished(finished)
        refused = await box.process("clear", running)
        assert refused.is_error
        assert "kill it before" in refused.text
        assert (await box.process("clear", finished)).success
        assert (await box.process("poll", finished)).is_error
        assert await status(box, running) == "running"


async def test_an_unknown_session_and_action_are_refused_with_what_there_is(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        session = await box.start("sleep 1001")
        unknown = await box.process("poll", "session_1")
        assert unknown.is_error
        assert session in unknown.text
        assert (await box.process("stop", session)).error == "invalid_arguments"


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_one_session_more_than_allowed_is_refused_until_another_ends(tmp_path: Path) -> None:
    async with rig(tmp_path, max_sessions=2) as box:
        sessions = [await box.start("sleep 1001") for _ in range(2)]
        refused = await box.exec("sleep 1001", background=True)
        assert refused.is_error
        assert "Kill or wait" in refused.text
        await box.process("kill", sessions[0])
        await box.start("sleep 1001")


@pytest.mark.proves("R002-52")
async def test_ten_sessions_may_run_and_the_eleventh_is_refused(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        started = await asyncio.gather(*(box.exec("sleep 1001", background=True) for _ in range(15)))
        assert [result.success for result in started].count(True) == 10


async def test_the_sessions_of_one_tenant_leave_room_for_those_of_another(tmp_path: Path) -> None:
    async with rig(tmp_path, max_sessions=2) as box:
        eve, bob = ({"principal": Principal(id=name, tenant=name)} for name in ("eve", "bob"))
        for _ in range(2):
            assert (await box.exec("sleep 1001", background=True, options=eve)).success
        assert (await box.exec("sleep 1001", background=True, options={**eve, "conversation": "other"})).is_error
        assert (await box.exec("sleep 1001", background=True, options=bob)).success


async def test_a_tenant_with_many_people_takes_no_more_than_its_share_of_all_sessions() -> None:
    sessions = Sessions(most=1, finished_ttl=600, output_chars=100)

    async def start(tenant: str, person: int) -> bool:
        owner = (tenant, "", "person", str(person))
        command = Command(argv=("true",))
        return await sessions.start(owner, "true", Lasting(), command, only_reads=True) is not None  # type: ignore[arg-type]

    assert [await start("eve", number) for number in range(9)] == [True] * 8 + [False]
    assert [await start("bob", number) for number in range(5)] == [True] * 4 + [False]
    assert await start("ann", 1)
    await sessions.close()


async def test_the_finished_sessions_of_one_caller_push_out_no_others() -> None:
    sessions = Sessions(most=10_000, finished_ttl=600, output_chars=100)
    counts = {}
    for tenant, people, each in (("bob", 1, 3), ("eve", 10, 60)):
        for person in range(people):
            owner = (tenant, "", "person", str(person))
            for _ in range(each):
                session = await sessions.start(owner, "true", Done(), Command(argv=("true",)), only_reads=True)  # type: ignore[arg-type]
                assert session is not None
                assert session.watch is not None
                await session.watch
            counts[owner] = len(sessions.of(owner))
    assert counts["bob", "", "person", "0"] == len(sessions.of(("bob", "", "person", "0"))) == 3
    assert counts["eve", "", "person", "0"] == 50
    assert sum(len(sessions.of(owner)) for owner in counts) == 400


async def test_a_session_ends_after_its_longest_time(tmp_path: Path) -> None:
    async with rig(tmp_path, session_seconds=0.2) as box:
        state = await box.finished(await box.start("sleep 1001"))
        assert state["ending"] == "timeout"


class Done:
    """A sandbox whose commands have ended when they start."""

    name = "done"
    holds = True
    pid = 1

    async def start(self, command: Command, on_output: OnOutput | None = None) -> Any:
        return self

    async def wait(self) -> Outcome:
        return Outcome(
            exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0, ending="exited", seconds=0.0
        )


class Lasting(Done):
    """A sandbox whose commands run until they are killed."""

    async def start(self, command: Command, on_output: OnOutput | None = None) -> Any:
        running = Lasting()
        running.ended = asyncio.Event()
        return running

    async def wait(self) -> Outcome:
        await self.ended.wait()
        return await super().wait()

    async def kill(self) -> None:
        self.ended.set()

    ended: asyncio.Event


@pytest.mark.proves("R002-51")
async def test_finished_sessions_disappear_after_their_time() -> None:
    now = [100.0]
    sessions = Sessions(most=10, finished_ttl=600, output_chars=100, clock=lambda: now[0])
    session = await sessions.start(("ann",), "true", Done(), Command(argv=("true",)), only_reads=True)  # type: ignore[arg-type]
    assert session is not None
    assert session.watch is not None
    await session.watch
    now[0] += 599
    assert sessions.get(("ann",), session.id) is session
    now[0] += 1
    assert sessions.get(("ann",), session.id) is None


async def test_a_command_that_starts_while_the_source_closes_is_killed() -> None:
    class Slow(Done):
        killed = 0

        async def start(self, command: Command, on_output: OnOutput | None = None) -> Any:
            await sessions.close()
            return self

        async def kill(self) -> None:
            self.killed += 1

    slow = Slow()
    sessions = Sessions(most=10, finished_ttl=600, output_chars=100)
    with pytest.raises(SandboxError, match="closed meanwhile"):
        await sessions.start(("ann",), "true", slow, Command(argv=("true",)), only_reads=True)  # type: ignore[arg-type]
    assert slow.killed == 1
    assert sessions.of(("ann",)) == []


# --- whose sessions ---------------------------------------------------------------------------------------------------


OWNERS: tuple[dict[str, Any], ...] = (
    {"principal": Principal(id="ann", tenant="house"), "conversation": "one"},
    {"principal": Principal(id="ann", tenant="house"), "conversation": "two"},
    {"principal": Principal(id="ann", tenant="house", bot="cook"), "conversation": "one"},
    {"principal": Principal(id="bob", tenant="house"), "conversation": "one"},
    {"principal": Principal(id="ann", tenant="other"), "conversation": "one"},
    {"principal": Principal(id="ann", tenant="house"), "injected": {"_chatId": "7"}},
    {"principal": Principal(id="ann", tenant="house"), "injected": {"_chatId": "8"}},
    {"principal": Principal(id="ann", tenant="house"), "injected": {"_chatId": "7", "_botId": "cook"}},
    {"principal": Principal(id="ann", tenant="other"), "injected": {"_chatId": "7"}},
)


async def test_sessions_are_seen_and_killed_only_in_their_own_conversation(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        sessions = [await box.start("sleep 1001", options=options) for options in OWNERS]
        for own, options in enumerate(OWNERS):
            listed = (await box.process("list", options=options)).structured["sessions"]
            assert [each["session_id"] for each in listed] == [sessions[own]]
            for other, session in enumerate(sessions):
                if other != own:
                    for action in ("poll", "kill", "clear"):
                        result = await box.process(action, session, options=options)
                        assert result.is_error
                        assert f"There is no session '{session}'" in result.text
        for options in OWNERS:
            listed = (await box.process("list", options=options)).structured["sessions"]
            assert [each["status"] for each in listed] == ["running"]


async def test_all_members_of_a_chat_share_its_sessions(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        chat = {"injected": {"_chatId": "7"}}
        session = await box.start("sleep 1001", options={"principal": Principal(id="ann"), **chat})
        assert (await box.process("kill", session, options={"principal": Principal(id="bob"), **chat})).success


async def test_session_ids_cannot_be_guessed(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        first, second = [await box.start("true") for _ in range(2)]
        assert len(first.removeprefix("session_")) == 32
        assert sum(a != b for a, b in zip(first, second, strict=True)) > 15


# --- what is asked about ----------------------------------------------------------------------------------------------


async def test_only_input_to_a_command_that_may_write_is_asked_about(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        reading = await box.start("cat")
        assert box.previews == []
        writing = await box.start("tee a")
        assert len(box.previews) == 1
        await box.process("write", reading, input="x\n")
        assert await box.output(reading, "x\n") == "x\n"
        for action in ("list", "poll", "kill"):
            await box.process(action, reading)
        assert len(box.previews) == 1
        await box.process("write", writing, input="y\n")
        assert box.previews[1:] == ["Sends this input to 'tee a':\n\ny\n"]
        await box.process("kill", writing)
        await box.process("clear", writing)
        assert len(box.previews) == 2
