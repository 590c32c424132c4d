"""Checks of a sandbox, which runs commands that nobody trusts. What only a sandbox with a wall promises is checked of those that
say that they hold.

Part of the contract suite `SANDBOX` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolcaddie.core.errors import SandboxError
from toolcaddie.ports import Command, Outcome, Sandbox, SandboxLimits
from toolcaddie.ports.sandbox import FILES, MEGABYTE, WORK
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Sandbox]] = Checks()

_SURVIVOR = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.1; done' & wait"
"""Starts a process that leaves its group and ignores SIGTERM, and prints a line."""


@asynccontextmanager
async def _open(subject: Subject[Sandbox]) -> AsyncIterator[Sandbox]:
    sandbox = subject.make()
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def _run(subject: Subject[Sandbox], *argv: str, **options: Any) -> Outcome:
    async with _open(subject) as sandbox:
        return await sandbox.run(Command(argv=argv, **options))


@CHECKS.add()
async def outputs_and_the_exit_code_are_those_of_the_program(subject: Subject[Sandbox]) -> None:
    outcome = await _run(subject, "sh", "-c", "echo out; echo err >&2; exit 3")
    expect_equal((outcome.stdout, outcome.stderr), (b"out\n", b"err\n"), "the outputs")
    expect_equal((outcome.exit_code, outcome.ending), (3, "exited"), "the exit code and the ending")


@CHECKS.add()
async def a_signal_is_the_exit_code_128_and_its_number(subject: Subject[Sandbox]) -> None:
    outcome = await _run(subject, "sh", "-c", "kill -SEGV $$")
    expect_equal(outcome.exit_code, 128 + signal.SIGSEGV, "the exit code")


@CHECKS.add()
async def arguments_arrive_as_they_are(subject: Subject[Sandbox]) -> None:
    words = ("", "two words", "$HOME", "'\"", "a\nb", "-x", "*", "é")
    outcome = await _run(subject, "sh", "-c", 'printf "%s\\0" "$@"', "sh", *words)
    expect_equal(outcome.stdout.decode().split("\0")[:-1], list(words), "the arguments")


@CHECKS.add()
async def an_unknown_program_is_an_error(subject: Subject[Sandbox]) -> None:
    try:
        outcome = await _run(subject, "no-such-program")
    except SandboxError as error:
        expect("no-such-program" in str(error), f"the error does not name the program: {error}")
    else:
        expect(False, f"a program that does not exist ended with {outcome.exit_code}")


@CHECKS.add()
async def nothing_of_the_host_s_environment_is_passed_on(subject: Subject[Sandbox]) -> None:
    os.environ["CONTRACT_SECRET"] = "secret"
    try:
        outcome = await _run(subject, "env", env={"OWN": "value"})
    finally:
        del os.environ["CONTRACT_SECRET"]
    names = {line.partition("=")[0] for line in outcome.stdout.decode().splitlines()}
    expect("CONTRACT_SECRET" not in names, "a variable of the host was passed on")
    expect({"PATH", "HOME", "LANG", "TERM", "OWN", "WORK", "TOOL_FILES"} <= names, f"variables are missing: {names}")


@CHECKS.add()
async def files_and_the_work_folder_are_reached_by_their_paths(subject: Subject[Sandbox]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "inner").mkdir()
        (work / "inner" / "given").write_text("from the host")
        outcome = await _run(
            subject,
            "sh",
            f"{FILES}/main.sh",
            f"{WORK}/new",
            work=work,
            folder="inner",
            files={"main.sh": b'cat given; echo "$1" > "$1"'},
        )
        expect_equal((outcome.stdout, outcome.stderr), (b"from the host", b""), "the outputs")
        expect((work / "new").is_file(), "a new file is not in the host's folder")
        (work / "new").write_text("the host may change it")


@CHECKS.add()
async def without_a_work_folder_it_is_empty_and_gone_afterwards(subject: Subject[Sandbox]) -> None:
    async with _open(subject) as sandbox:
        command = Command(argv=("sh", "-c", "ls; pwd; touch left"))
        first, second = await sandbox.run(command), await sandbox.run(command)
    expect_equal(first.stdout.count(b"\n"), 1, "the lines that an empty folder prints")
    expect(b"left" not in second.stdout, "a file of an earlier command is still there")


@CHECKS.add()
async def input_is_given_or_written(subject: Subject[Sandbox]) -> None:
    given = await _run(subject, "cat", stdin=b"given\n" * 100_000)
    expect_equal(given.stdout_bytes, 600_000, "the size of the input that came back")
    async with _open(subject) as sandbox:
        arrived = asyncio.Queue[bytes]()
        running = await sandbox.start(
            Command(argv=("cat",), stdin=None), lambda stream, piece: arrived.put_nowait(piece)
        )
        await running.write(b"written")
        expect_equal(await asyncio.wait_for(arrived.get(), 10), b"written", "the piece that came back")
        await running.kill()
        expect_equal((await running.wait()).ending, "killed", "the ending")


@CHECKS.add()
async def output_beyond_its_limit_is_counted_and_dropped(subject: Subject[Sandbox]) -> None:
    outcome = await _run(subject, "sh", "-c", "head -c 5000000 /dev/zero", output_bytes=1000)
    expect_equal(
        (len(outcome.stdout), outcome.stdout_bytes), (1000, 5_000_000), "the output that is kept, and all of it"
    )


@CHECKS.add()
async def at_the_end_of_its_time_everything_is_dead(subject: Subject[Sandbox]) -> None:
    async with _open(subject) as sandbox:
        begun = asyncio.Event()
        running = await sandbox.start(
            Command(argv=("sh", "-c", _SURVIVOR), seconds=0.5), lambda stream, piece: begun.set()
        )
        await asyncio.wait_for(begun.wait(), 10)
        outcome = await running.wait()
        expect_equal((outcome.ending, outcome.exit_code), ("timeout", None), "the ending and the exit code")
        expect(not _lives(running.pid), "a process is alive after the end of the command")


@CHECKS.add()
async def a_cancelled_command_is_dead(subject: Subject[Sandbox]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder, "pipe")
        os.mkfifo(pipe, 0o666)
        async with _open(subject) as sandbox:
            argv = ("sh", "-c", "echo begun > pipe; exec sleep 60")
            task = asyncio.create_task(sandbox.run(Command(argv=argv, work=Path(folder))))
            await asyncio.to_thread(pipe.read_text)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)
            expect(task.cancelled(), "the cancelled call did not end")


@CHECKS.add()
async def closing_kills_everything_and_a_closed_sandbox_opens_again(subject: Subject[Sandbox]) -> None:
    async with _open(subject) as sandbox:
        running = await sandbox.start(Command(argv=("sleep", "60")))
        await sandbox.close()
        expect_equal((await running.wait()).ending, "killed", "the ending")
        expect_equal((await sandbox.run(Command(argv=("true",)))).exit_code, 0, "the exit code after it was closed")


@CHECKS.add()
async def commands_run_beside_each_other(subject: Subject[Sandbox]) -> None:
    async with _open(subject) as sandbox:
        commands = [Command(argv=("sh", "-c", f"sleep 0.2; echo {number}")) for number in range(8)]
        outcomes = await asyncio.gather(*(sandbox.run(command) for command in commands))
    expect_equal([int(outcome.stdout) for outcome in outcomes], list(range(8)), "the outputs")


@CHECKS.add()
async def too_much_memory_ends_a_command(subject: Subject[Sandbox]) -> None:
    greedy = "data = [bytearray(1 << 20) for _ in range(100)]\nimport time\ntime.sleep(20)"
    outcome = await _run(subject, "python3", "-c", greedy, limits=SandboxLimits(memory_bytes=60 * MEGABYTE))
    expect_equal(outcome.ending, "memory", "the ending")


@CHECKS.add()
async def a_work_folder_that_grows_too_much_ends_a_command(subject: Subject[Sandbox]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome = await _run(
            subject,
            "sh",
            "-c",
            "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > $i; done; sleep 20",
            work=Path(folder),
            limits=SandboxLimits(disk_bytes=2 * MEGABYTE),
        )
    expect_equal(outcome.ending, "disk", "the ending")


@CHECKS.add()
async def its_facts_say_whether_it_holds(subject: Subject[Sandbox]) -> None:
    async with _open(subject) as sandbox:
        facts = await sandbox.facts()
    failing = [fact.name for fact in facts if not fact.holds]
    expect_equal(not failing, sandbox.holds, f"whether all facts hold (not: {failing})")
    expect(all(fact.holds or fact.remedy for fact in facts), "a fact that does not hold has no remedy")


@CHECKS.add()
async def behind_a_wall_files_of_the_host_are_absent(subject: Subject[Sandbox]) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("held by the host")
        file.flush()
        outcome = await _run(subject, "cat", file.name)
    if subject.make().holds:
        expect(outcome.exit_code != 0, "a command read a file of the host")


@CHECKS.add()
async def behind_a_wall_hidden_files_are_empty_and_a_read_only_folder_stays_as_it_is(subject: Subject[Sandbox]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "secrets").mkdir()
        for name in ("secrets/key", ".env"):
            (work / name).write_text("secret")
        script = "cat .env; ls secrets; echo changed > .env; touch new; chmod 777 .; true"
        outcome = await _run(subject, "sh", "-c", script, work=work, writable=False, hidden=("secrets", ".env"))
        if subject.make().holds:
            expect_equal(outcome.stdout, b"", "what it read of hidden files")
            expect_equal(sorted(os.listdir(work)), [".env", "secrets"], "the names in the folder")
            expect_equal((work / ".env").read_text(), "secret", "the hidden file")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
