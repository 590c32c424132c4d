"""What the wall does beyond the contract: whom files belong to, what is hidden, what is left when programs die, and egress."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.walls import needs_the_wall
from toolcaddie.core.errors import ConfigError, OutboundError, SandboxError
from toolcaddie.ports import Command, Egress, SandboxLimits
from toolcaddie.sandbox.egress import Connection, public_connection
from toolcaddie.sandbox.named import wall as from_settings
from toolcaddie.sandbox.usage import UNCOUNTABLE, disk_below
from toolcaddie.sandbox.wall import Wall

pytestmark = [pytest.mark.anyio, needs_the_wall]


@pytest.fixture
async def wall() -> AsyncIterator[Wall]:
    sandbox = Wall()
    yield sandbox
    await sandbox.close()


def shell(script: str, **options: object) -> Command:
    return Command(argv=("sh", "-c", script), **options)  # type: ignore[arg-type]


async def test_what_a_command_makes_belongs_to_the_owner_of_the_folder_below_a_closed_one(
    wall: Wall, tmp_path: Path
) -> None:
    work = tmp_path / "closed" / "work"
    work.mkdir(parents=True)
    (work / "own").write_text("mine")
    (tmp_path / "closed").chmod(0o700)
    outcome = await wall.run(
        shell("stat -c %u own .; id -u; echo changed > own; mkdir -p a/b; echo new > a/b/c", work=work)
    )
    *owners, user = outcome.stdout.split()
    assert set(owners) == {user}
    assert (work / "own").read_text() == "changed\n"
    assert {path.stat().st_uid for path in work.rglob("*")} == {os.geteuid()}
    (work / "a" / "b" / "c").write_text("the host may change it")


async def test_a_command_is_no_root_and_cannot_leave_setuid_files(wall: Wall, tmp_path: Path) -> None:
    outcome = await wall.run(
        shell(
            "id -u; cp /usr/bin/id own; chmod 4755 own; chmod 2755 .; install -m 6755 /usr/bin/id other", work=tmp_path
        )
    )
    assert outcome.stdout.strip() != b"0"
    assert not [path for path in (tmp_path, *contents(tmp_path)) if path.stat().st_mode & 0o6000]


async def test_hidden_files_are_found_through_links_and_stay_as_they_are(wall: Wall, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "key").write_text("secret")
    (tmp_path / "link").symlink_to("keys/key")
    (tmp_path / "out").symlink_to("/etc/passwd")
    command = shell(
        "cat link keys/key; echo x > link; rm -f keys/key; mv keys/key other; ls", work=tmp_path, hidden=("link", "out")
    )
    outcome = await wall.run(command)
    assert outcome.stdout == b"keys\nlink\nout\n"
    assert (tmp_path / "keys" / "key").read_text() == "secret"


async def test_a_hidden_file_that_has_vanished_is_an_error(wall: Wall, tmp_path: Path) -> None:
    (tmp_path / "moved").write_text("secret")
    with pytest.raises(SandboxError, match="try again"):
        await wall.run(shell("cat *", work=tmp_path, hidden=(".env",)))


MOVES = """
import os
while True:
    os.rename("/work/a", "/work/b")
    os.rename("/work/b", "/work/a")
"""


async def test_a_hidden_file_is_never_read_while_another_command_moves_its_folder(wall: Wall, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".env").write_text("secret")
    mover = await wall.start(Command(argv=("python3", "-c", MOVES), work=tmp_path, hidden=("a/.env",)))
    for _ in range(15):
        with contextlib.suppress(SandboxError):
            command = shell("cat */.env", work=tmp_path, writable=False, hidden=("a/.env",))
            assert (await wall.run(command)).stdout == b""
    await mover.kill()


async def test_a_folder_with_very_many_hidden_files_is_hidden_as_a_whole(wall: Wall, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    names = [f"keys/{number}.pem" for number in range(600)]
    for name in (*names, "keys/other", "own"):
        (tmp_path / name).touch()
    outcome = await wall.run(shell("ls . keys", work=tmp_path, hidden=tuple(names)))
    assert outcome.stdout.split() == [b".:", b"keys", b"own", b"keys:"]


async def test_more_hidden_files_than_can_be_hidden_are_an_error_that_says_what_to_do(
    wall: Wall, tmp_path: Path
) -> None:
    names = [f"{number}.pem" for number in range(501)]
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(SandboxError, match=r"501 files that are hidden.*move them into a folder"):
        await wall.run(shell("true", work=tmp_path, hidden=tuple(names)))


READER = """
import fcntl, os, socket
def tried(act):
    try:
        act()
    except OSError as error:
        print(error.strerror)
def send():
    os.write(os.open("pipe", os.O_RDWR | os.O_NONBLOCK), b"order")
def connect():
    socket.socket(socket.AF_UNIX).connect("socket")
def send_datagram():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"order", "socket")
for act in (send, connect, send_datagram, lambda: fcntl.flock(os.open(".", 0), fcntl.LOCK_EX)):
    tried(act)
"""


async def test_a_command_that_only_reads_cannot_act_through_pipes_sockets_and_locks(wall: Wall, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.setblocking(False)
    server.bind(str(tmp_path / "socket"))
    pipe = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    outcome = await wall.run(Command(argv=("python3", "-c", READER), work=tmp_path, writable=False))
    assert len(outcome.stdout.splitlines()) == 4, (outcome.stdout, outcome.stderr)
    with pytest.raises(BlockingIOError):
        os.read(pipe, 10)
    with pytest.raises(BlockingIOError):
        server.recv(10)
    os.close(pipe)
    server.close()


async def test_a_project_that_is_its_own_virtual_environment_shows_its_programs_and_nothing_else(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    venv.create(project, symlinks=True)
    (project / ".env").write_text("secret")
    (project / "lib" / "key.pem").write_text("secret")
    code = """
import asyncio, sys
from toolcaddie.ports import Command
from toolcaddie.sandbox.wall import Wall
async def main():
    wall, (work, script) = Wall(), sys.argv[1:]
    hidden = (".env", "lib/key.pem") if work == sys.prefix else ()
    try:
        print((await wall.run(Command(argv=("sh", "-c", script), work=work, hidden=hidden))).stdout)
    except Exception as error:
        print(error)
    await wall.close()
asyncio.run(main())
"""
    (project / "work").mkdir()

    async def seen(work: Path, script: str) -> bytes:
        program = (
            str(project / "bin" / "python3"),
            "-c",
            code.replace("work=work", "work=__import__('pathlib').Path(work)"),
        )
        process = await asyncio.create_subprocess_exec(
            *program, str(work), script, stdout=-1, env={"PYTHONPATH": os.pathsep.join(sys.path[1:])}
        )
        return (await process.communicate())[0].strip()

    read = f"python3 -c 'print(1)'; cat {project}/.env .env; ls {project}/work"
    assert await seen(project, f"{read}; cat lib/key.pem {project}/lib/key.pem; touch bin/x") == b"b'1\\n'"
    assert await seen(project / "work", read) == b"b'1\\n'"
    assert b"lies in" in await seen(project / "lib", "true")
    assert not (project / "bin" / "x").exists()


async def test_a_work_folder_that_contains_the_interpreter_shows_it_read_only(wall: Wall) -> None:
    prefix = Path(sys.prefix)
    outcome = await wall.run(shell(f"touch {prefix.name}/written; echo $?", work=prefix.parent))
    assert outcome.stdout != b"0\n"
    assert not (prefix / "written").exists()


async def test_variables_do_not_reach_the_programs_that_build_the_wall(wall: Wall, tmp_path: Path) -> None:
    outcome = await wall.run(shell("echo fine", env={"LD_PRELOAD": str(tmp_path / "evil.so"), "BASH_ENV": "/work/x"}))
    assert outcome.stdout == b"fine\n"


async def test_nothing_of_a_command_is_shown_on_a_command_line_of_the_host(wall: Wall) -> None:
    running = await wall.start(Command(argv=("sleep", "60"), env={"TOKEN": "value-of-the-token"}, files={"a": b"x"}))
    lines = command_lines()
    await running.kill()
    assert b"value-of-the-token" not in lines


async def test_commands_whose_time_is_over_before_they_have_begun_end_by_their_timeout(
    wall: Wall, tmp_path: Path
) -> None:
    late = shell("touch begun; sleep 60", work=tmp_path, seconds=0.001)
    outcomes = await asyncio.gather(*(wall.run(late) for _ in range(12)))
    assert [outcome.ending for outcome in outcomes] == ["timeout"] * 12
    assert not os.listdir(tmp_path)


async def test_a_command_in_the_middle_of_many_starts_is_killed_at_once(wall: Wall, tmp_path: Path) -> None:
    running = await wall.start(shell("echo ready; sleep 60", seconds=60))
    others = [asyncio.create_task(wall.run(shell("true"))) for _ in range(24)]
    await asyncio.sleep(0)
    await running.kill()
    assert not all(task.done() for task in others)
    assert {(await task).ending for task in others} == {"exited"}


async def test_when_the_warden_dies_its_commands_die_and_the_next_one_has_another(wall: Wall) -> None:
    running = await wall.start(shell("setsid sleep 60 & echo begun; wait"))
    (warden,) = children(os.getpid())
    os.kill(warden, signal.SIGKILL)
    with pytest.raises(SandboxError, match="has died"):
        await running.wait()
    assert (await wall.run(shell("echo again"))).stdout == b"again\n"


async def test_when_the_server_is_killed_its_commands_die(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from toolcaddie.ports import Command
from toolcaddie.sandbox.wall import Wall
async def main():
    running = await Wall().start(Command(argv=("sleep", "60")))
    print(running.pid, flush=True)
    await running.wait()
asyncio.run(main())
"""
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    handle = os.pidfd_open(pid)
    server.kill()
    server.communicate()
    await ended(handle)


async def test_what_a_killed_server_has_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    code = """
import asyncio, os, pathlib, sys
from toolcaddie.ports import Command
from toolcaddie.sandbox.wall import Wall
async def main():
    work = pathlib.Path(sys.argv[1])
    (work / ".env").touch()
    wall = Wall()
    await wall.run(Command(argv=("true",), work=work, hidden=(".env",)))
    print(*[name for name in os.listdir(os.environ["TMPDIR"]) if "toolcaddie" in name], flush=True)
    if len(sys.argv) > 2:
        os.kill(os.getpid(), 9)
    await wall.close()
asyncio.run(main())
"""
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()

    def names(*options: str) -> list[bytes]:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "work"), *options],
            stdout=subprocess.PIPE,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        ).stdout.split()

    killed = await asyncio.to_thread(names, "killed")
    following = await asyncio.to_thread(names)
    assert (len(killed), len(following)) == (1, 1)
    assert killed != following
    assert contents(tmp_path / "temporary") == []


async def test_limits_of_the_settings_are_the_most_that_a_command_may_use() -> None:
    sandbox = from_settings(seconds=0.3, open_files=40, output_bytes=10)
    outcome = await sandbox.run(shell("ulimit -n; head -c 100 /dev/zero; sleep 60"))
    await sandbox.close()
    assert (outcome.stdout[:3], len(outcome.stdout), outcome.ending) == (b"40\n", 10, "timeout")


async def test_a_number_of_processes_is_refused_to_the_command_alone(wall: Wall) -> None:
    bomb = "for i in $(seq 200); do sleep 2 & done 2>/dev/null; wait"
    running = await wall.start(shell(bomb, seconds=5))
    other = await wall.run(shell("true & true & wait; echo fine"))
    await running.kill()
    assert other.stdout == b"fine\n"


async def test_a_machine_without_bubblewrap_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(ConfigError, match=r'apt install bubblewrap.*type = "plain"'):
        Wall()


_CUT_OFF = """\
#!/bin/bash
[ "$1" = --args ] || exec BWRAP "$@"
report=$(tr '\\0' '\\n' <&"$2" | grep -x -A 1 -e --json-status-fd | tail -n 1)
printf '{ "child-pid": 4194304, "cgroup-namespace": 4026532195' >&"$report"
kill -KILL $$
"""


@pytest.fixture
def cut_off_bubblewrap() -> Iterator[str]:
    """A bubblewrap that is killed in the middle of its first report, where every user of this machine may start it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        program = Path(folder, "bwrap")
        program.write_text(_CUT_OFF.replace("BWRAP", shutil.which("bwrap") or ""))
        for path in (folder, program):
            os.chmod(path, 0o755)
        yield str(program)


async def test_a_report_that_is_cut_off_because_bubblewrap_was_killed_is_the_end_of_the_command(
    cut_off_bubblewrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: cut_off_bubblewrap)
    sandbox = Wall()
    outcome = await sandbox.run(shell("true"))
    await sandbox.close()
    assert outcome.exit_code == 128 + signal.SIGKILL


async def test_when_the_event_loop_ends_its_commands_die() -> None:
    handles = []

    async def started() -> None:
        running = await Wall().start(Command(argv=("sleep", "60")))
        handles.append(os.pidfd_open(running.pid))

    await asyncio.to_thread(asyncio.run, started())
    await ended(handles[0])


async def ended(process: int) -> None:
    """Waits for the end of a process."""
    dead = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, dead.set)
    await asyncio.wait_for(dead.wait(), 10)
    asyncio.get_running_loop().remove_reader(process)
    os.close(process)


MAPPED = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for number in range(4):
    file = os.open(f"/work/{number}", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, 10 << 20)
    libc.mmap(None, 4096, 1, 1, file, 0)
    os.unlink(f"/work/{number}")
    os.close(file)
time.sleep(20)
"""


async def test_removed_files_that_a_command_has_in_its_memory_count_as_disk(wall: Wall, tmp_path: Path) -> None:
    limits = SandboxLimits(disk_bytes=30 << 20)
    outcome = await wall.run(Command(argv=("python3", "-c", MAPPED), work=tmp_path, limits=limits))
    assert outcome.ending == "disk"


def test_a_folder_that_cannot_be_read_counts_as_too_large(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").touch()
    for mode in (0o333, 0o444, 0o000):
        closed.chmod(mode)
        assert size_for_others(tmp_path) >= UNCOUNTABLE
    closed.chmod(0o755)
    assert 0 < size_for_others(tmp_path) < UNCOUNTABLE


def size_for_others(folder: Path) -> int:
    """What a user who is not root counts."""
    ready, write = os.pipe()
    opened = os.open(folder, os.O_RDONLY)
    if (pid := os.fork()) == 0:
        os.fchdir(opened)
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        os.write(write, str(disk_below(".")).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    size = int(os.read(ready, 100))
    for each in (ready, write, opened):
        os.close(each)
    return size


# ---------------------------------------------------------------- egress


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.read(1000)
    body = b"got " + head.splitlines()[0]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()
    writer.close()


FETCH = """
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except OSError as error:
    print(error)
"""


async def fetched(wall: Wall, url: str, *hosts: str) -> str:
    egress = Egress(hosts=hosts) if hosts else None
    outcome = await wall.run(Command(argv=("python3", "-c", FETCH, url), egress=egress))
    return outcome.stdout.decode()


async def test_a_command_reaches_the_hosts_of_its_list_and_no_others() -> None:
    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    port, dialled = server.sockets[0].getsockname()[1], []

    async def dial(host: str, number: int) -> Connection:
        dialled.append((host, number))
        return await asyncio.open_connection("127.0.0.1", port)

    sandbox = Wall(dial=dial)
    async with server:
        assert await fetched(sandbox, "http://api.example.com/a?b=c", "*.example.com") == "got GET /a?b=c HTTP/1.1\n"
        assert "is not among those" in await fetched(sandbox, "http://example.com/", "*.example.com")
        assert "is not among those" in await fetched(sandbox, "http://example.com.evil.test/", "example.com")
        assert "the port 22 is not one" in await fetched(sandbox, "http://example.com:22/", "example.com")
        assert "Tunnel connection failed: 403" in await fetched(sandbox, "https://other.test/", "example.com")
        assert "refused" in await fetched(sandbox, f"http://127.0.0.1:{port}/")
        await fetched(sandbox, "https://example.com/", "example.com")
    await sandbox.close()
    assert dialled == [("api.example.com", 80), ("example.com", 443)]


async def test_a_host_of_the_list_at_a_private_address_is_not_reached(wall: Wall) -> None:
    assert "is not public: loopback" in await fetched(wall, "http://localhost/", "localhost")
    with pytest.raises(OutboundError, match="is not public"):
        await public_connection("127.0.0.1", 80)


HEADS = """
import socket, sys
for head in sys.argv[1:]:
    connection = socket.create_connection(("127.0.0.1", 3128))
    connection.sendall(head.encode("latin-1"))
    connection.settimeout(5)
    print(connection.recv(100).split(b"\\r\\n")[0].decode())
"""


async def test_a_request_that_servers_could_read_in_two_ways_reaches_none() -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1000))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sandbox = Wall(dial=lambda host, port: asyncio.open_connection(*server.sockets[0].getsockname()[:2]))
    start = "POST http://example.com/ HTTP/1.1\r\n"
    headers = [
        *(f"Content-Length: {size}" for size in ("-1", "+5", "5_0", "", "0x5", "9" * 16, "5, 5", "\xb25")),
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked",
        "Content-Length : 5",
        "X: a\r\n  Content-Length: 5",
        "X: a\rContent-Length: 5",
        "X: a\nContent-Length: 5",
        "X: a\x07b",
        "no header",
    ]
    refused = [
        *(f"{start}{each}\r\n\r\nhello" for each in headers),
        "GET http://example.com/\rGET HTTP/1.1\r\n\r\n",
        "GET http://example.com/ HTTP/1.1 \r\n\r\n",
        "GET  http://example.com/ HTTP/1.1\r\n\r\n",
    ]
    egress = Egress(hosts=("example.com",))
    async with server:
        outcome = await sandbox.run(Command(argv=("python3", "-c", HEADS, *refused), egress=egress))
    await sandbox.close()
    assert outcome.stdout.decode() == "HTTP/1.1 403 Forbidden\n" * len(refused)
    assert received == []


TWO_REQUESTS = """
import socket
connection = socket.create_connection(("127.0.0.1", 3128))
first = b"POST http://example.com/ HTTP/1.1\\r\\nContent-Length: 5\\r\\n\\r\\nhello"
connection.sendall(first + b"GET http://other.test/ HTTP/1.1\\r\\n\\r\\n")
print(sum(len(piece) for piece in iter(lambda: connection.recv(1000), b"")))
"""


async def test_a_connection_carries_one_request_and_is_closed_after_the_answer() -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(5))
        writer.write(b"answer")
        writer.close()
        received.append(await reader.read(1000))

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sandbox = Wall(dial=lambda host, port: asyncio.open_connection(*server.sockets[0].getsockname()[:2]))
    async with server:
        outcome = await sandbox.run(
            Command(argv=("python3", "-c", TWO_REQUESTS), egress=Egress(hosts=("example.com", "other.test")))
        )
    await sandbox.close()
    assert outcome.stdout == b"6\n"
    assert [each[-5:] for each in received] == [b"hello", b""]


MANY_CONNECTIONS = """
import socket
connections = []
for _ in range(80):
    connections.append(socket.create_connection(("127.0.0.1", 3128)))
print("connected", flush=True)
connections[-1].recv(1)
"""


async def test_connections_of_a_command_take_few_descriptors_of_the_server(wall: Wall) -> None:
    connected = asyncio.Event()
    before = len(os.listdir("/proc/self/fd"))
    running = await wall.start(
        Command(argv=("python3", "-c", MANY_CONNECTIONS), egress=Egress(hosts=("example.com",))),
        lambda stream, piece: connected.set(),
    )
    await asyncio.wait_for(connected.wait(), 10)
    assert len(os.listdir("/proc/self/fd")) - before < 50
    await running.kill()


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split() if b"warden" in command_line(child)]


def command_line(pid: str) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def command_lines() -> bytes:
    """All command lines of this machine."""
    lines = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            lines += path.read_bytes()
    return lines


def contents(folder: Path) -> list[Path]:
    return list(folder.iterdir())
