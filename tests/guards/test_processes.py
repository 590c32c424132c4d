"""A command leaves nothing behind, whatever it started and however it ends.

Whether all of a tree is gone is seen from a named pipe that every process of it holds open: its reader gets to the end when
the last of them is dead.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from pathlib import Path

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.guards import processes
from toolcaddie.guards.processes import commands_ended, run, run_blocking

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="commands are run on Linux only"),
]

FAMILY = """
exec 3>{pipe}
setsid sleep 1001 &                      # a session of its own
(setsid sh -c 'sleep 1002 & sleep 1003 & echo up >&3; wait' &)  # orphaned at once: its parent ends here
{then}
"""


class Family:
    """A command that starts others, and what its named pipe says of them."""

    def __init__(self, folder: Path, then: str = "sleep 1004") -> None:
        self.pipe = folder / "alive"
        os.mkfifo(self.pipe)
        self.argv = ["sh", "-c", FAMILY.format(pipe=self.pipe, then=then)]
        self._reader = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)

    async def is_up(self) -> bool:
        return await asyncio.to_thread(self._first) == b"up\n"

    async def is_gone(self) -> bool:
        return await asyncio.to_thread(self._ended)

    def _ended(self) -> bool:
        ready, _, _ = select.select([self._reader], [], [], 5)
        return bool(ready) and os.read(self._reader, 100) == b""

    def _first(self) -> bytes:
        """A read of a pipe that nobody writes to yet is at its end already; opening it waits for them."""
        with open(self.pipe, "rb", buffering=0) as file:
            return file.read(3)


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


async def test_a_command_is_given_its_input_and_answers_with_both_outputs_and_its_code() -> None:
    ended = await run(["sh", "-c", "cat; echo oops >&2; exit 3"], stdin=b"x" * 300_000)
    assert (ended.code, ended.stdout, ended.stderr, ended.cut) == (3, b"x" * 300_000, b"oops\n", False)


async def test_a_signal_that_ended_it_is_a_code_below_zero() -> None:
    assert (await run(["sh", "-c", "kill -TERM $$"])).code == -signal.SIGTERM


async def test_output_above_the_limit_is_let_go_by_and_said() -> None:
    ended = await run(["sh", "-c", "yes | head -c 5000000; exit 7"], max_output=1_000)
    assert (len(ended.stdout), ended.cut, ended.code) == (1_000, True, 7)


async def test_the_environment_with_its_keys_is_not_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    assert b"secret" not in (await run(["env"])).stdout
    result = await run(["/usr/bin/env"], env={"A": "ä\udcff=1"}, cwd=tmp_path)
    assert result.stdout == b"A=\xc3\xa4\xff=1\n"
    assert (await run(["pwd"], cwd=tmp_path)).stdout.decode().strip() == str(tmp_path)


async def test_a_command_that_is_not_there_or_not_given_is_an_error_that_names_it() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        await run(["no-such-command"])
    with pytest.raises(ValueError, match="empty"):
        await run([])


async def test_a_cancelled_command_takes_children_of_all_kinds_with_it(family: Family) -> None:
    task = asyncio.ensure_future(run(family.argv))
    assert await family.is_up()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await family.is_gone()


async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    family = Family(tmp_path, then=f"read line <{tmp_path}/alive; echo $line; exit 5")
    ended = await run(family.argv)
    assert (ended.code, ended.stdout) == (5, b"up\n")
    assert await family.is_gone()


async def test_the_children_of_another_call_live_on(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    go = tmp_path / "go"
    os.mkfifo(go)
    first = Family(tmp_path / "a")
    second = Family(tmp_path / "b", then=f"sleep 1005 & child=$!; read line <{go}; kill -0 $child && echo lives")
    ours, theirs = (asyncio.ensure_future(run(one.argv)) for one in (first, second))
    assert await first.is_up()
    assert await second.is_up()
    ours.cancel()
    await asyncio.wait({ours})
    assert await first.is_gone()
    await asyncio.to_thread(go.write_text, "go\n")
    assert (await theirs).stdout == b"lives\n"
    assert await second.is_gone()


async def test_a_command_in_a_thread_ends_with_the_call_around_it(family: Family) -> None:
    ended: list[processes.Completed] = []

    def tool() -> None:
        ended.append(run_blocking(family.argv))

    with commands_ended():
        thread = asyncio.create_task(asyncio.to_thread(tool))
        assert await family.is_up()
    await thread
    assert ended[0].code == -signal.SIGKILL
    assert await family.is_gone()


async def test_a_thread_that_was_given_up_starts_nothing_more() -> None:
    over, ended = threading.Event(), []

    def tool() -> None:
        over.wait()
        ended.append(run_blocking(["sleep", "1000"]).code)

    with commands_ended(), commands_ended():
        thread = asyncio.create_task(asyncio.to_thread(tool))
        await asyncio.sleep(0)
    over.set()
    await thread
    assert ended == [-signal.SIGKILL]


async def test_nothing_is_left_when_our_own_process_is_killed(family: Family) -> None:
    code = f"import asyncio; from toolcaddie.guards.processes import run; asyncio.run(run({family.argv!r}))"
    us = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await family.is_up()
    us.kill()
    await us.wait()
    assert await family.is_gone()


async def test_elsewhere_than_on_linux_it_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="Linux only"):
        await run(["true"])
