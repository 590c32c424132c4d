"""A program that starts commands behind the wall. `wall` starts it once, and sends it each command.

    python -I -S warden.py SOCKET OUTER INNER READER

SOCKET is the number of a socket of whole messages; OUTER, INNER and READER are files with filters of system calls, for
bubblewrap, for commands, and for commands that only read. A message is one of these:

    run ID           start a command. It comes with six descriptors: the request (JSON, then the contents of files), the command's
                     three standard streams, the pipe to report to, and the pipe on which bubblewrap waits before the command
    kill ID          kill it
    calm ID          lower its priority
    listen PID PORT  listen in the network of that process; comes with a socket over which the listening socket is sent

It reports lines of JSON: `{"memory_limited": BOOL}`, bubblewrap's own (`child-pid`), `{"error": TEXT}`, and at last
`{"ended": CODE, "oom": BOOL}`. Bubblewrap writes a line in pieces, and one that is killed leaves its last line cut off.

A small process of its own, because forking the server would be slow and unsafe, and because the start of a command needs what the
server does not: as root, a mount namespace in which a folder below a closed one can be shown, as property of the sandbox's user.
One process waits, already in control groups, for the next command: entering a group takes ten milliseconds. The program ends
when the server does, and all commands end with it. It imports nothing of Toolcaddie.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_MOUNT_SETATTR, _OPEN_TREE, _MOVE_MOUNT = 442, 428, 429
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_AT_EMPTY_PATH, _AT_RECURSIVE, _OPEN_TREE_CLONE = 0x1000, 0x8000, 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_IDMAP = 0x00100000
_MS_REC, _MS_SLAVE, _MS_PRIVATE = 0x4000, 1 << 19, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = (
    1,
    36,
    38,
    22,
    2,
)
_NS_GET_USERNS = 0xB701

_STAGE = "/tmp"
"""Where folders are shown to bubblewrap, in a mount namespace of the process that becomes bubblewrap."""
_MESSAGE_BYTES = 4096
_DESCRIPTORS = 6
_LOOK_SECONDS = 1.0
"""Seconds between two looks whether the server is still the parent. The closed socket says so earlier, unless a process that the
server forked holds it open."""
_LAST_ATTEMPTS = 20
_ALL = {"cpu.shares": "128", "cpu.weight": "12"}
"""The share of computing time of all commands together, while others want it too: an eighth of that of one other process."""
_CALM = {"cpu.shares": "128", "cpu.weight": "12"}
"""The share of a command that runs on, among the commands: an eighth of that of one that begins."""
_DYING = {"cpu.shares": "8192", "cpu.weight": "800"}
"""The share of a command that is killed, among the commands, and meanwhile that of all together: a process needs computing time
to end."""


Filters = tuple[bytes, bytes, bytes]
"""The programs OUTER, INNER and READER."""


# ---------------------------------------------------------------- the server's side


class Warden:
    """Starts commands, one process each, and reports their ends."""

    def __init__(self, channel: socket.socket, filters: Filters) -> None:
        self._channel = channel
        self._filters = filters
        self._parent = os.getppid()
        self._root = os.geteuid() == 0
        self._groups = Groups()
        self._owners: dict[tuple[int, int, int], int] = {}
        self._commands: dict[int, Started] = {}
        self._helpers: set[int] = set()
        self._dying: set[int] = set()
        self._waiting: deque[tuple[str, list[int]]] = deque()
        self._poll = select.poll()
        self._wake, self._waker = os.pipe()
        self._spare: Spare | None = None

    def serve(self) -> None:
        """Serves until the server is gone."""
        _check(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        os.set_blocking(self._waker, False)
        self._channel.setblocking(False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for descriptor in (self._channel.fileno(), self._wake):
            self._poll.register(descriptor, select.POLLIN)
        self._prepare()
        while True:
            patience = 0 if self._waiting else _LOOK_SECONDS * 1000
            ready = [descriptor for descriptor, _ in self._poll.poll(patience)]
            if self._wake in ready:
                os.read(self._wake, 4096)
            self._stop_greedy(ready)
            self._reap()
            if (self._channel.fileno() in ready and not self._take()) or os.getppid() != self._parent:
                return
            if self._waiting:
                self._run(*self._waiting.popleft())
            self._prepare()

    def close(self) -> None:
        """Kills everything and removes its control groups."""
        if self._spare is not None:
            self._commands[self._spare.pid] = Started(self._spare, "", -1)
        for started in self._commands.values():
            os.kill(started.spare.pid, signal.SIGKILL)
        self._spare = None
        with contextlib.suppress(ChildProcessError):
            while True:
                self._kill_orphans()
                self._end(*os.waitpid(-1, 0))
        for _ in range(_LAST_ATTEMPTS):
            self._groups.remove()
            time.sleep(0.001)

    def _prepare(self) -> None:
        """Forks the process that waits for the next command, if none waits."""
        if self._spare is None:
            self._spare = Spare.forked(self._groups, self._filters, root=self._root)

    def _take(self) -> bool:
        """Handles the messages that have come; commands to start wait, because each start takes a while and kills must not wait
        for it. Returns False if the server is gone."""
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, _DESCRIPTORS)
            except BlockingIOError:
                return True
            match message.split():
                case [b"run", name]:
                    self._waiting.append((name.decode(), descriptors))
                case [b"kill", name]:
                    self._kill(name.decode())
                case [b"calm", name]:
                    self._calm(name.decode())
                case [b"listen", pid, port]:
                    self._helpers.add(_listening(int(pid), int(port), descriptors[0]))
                    os.close(descriptors[0])
                case _:
                    return False

    def _run(self, name: str, descriptors: list[int]) -> None:
        """Starts a command, and closes the descriptors that came with it."""
        try:
            self._start(name, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, name: str, descriptors: list[int]) -> None:
        self._prepare()
        spare, report = self._spare, os.dup(descriptors[4])
        assert spare is not None
        self._spare = None
        self._commands[spare.pid] = Started(spare, name, report)
        try:
            request = Request.read(descriptors[0])
            limited = spare.group.limit(request.limits)
            spare.group.watch(self._poll)
            _report(report, {"memory_limited": limited})
            owner = self._owner_map(request) if self._root else None
        except OSError as error:
            _report(report, {"error": str(error)})
            os.kill(spare.pid, signal.SIGKILL)
            return
        spare.send([*descriptors, *([] if owner is None else [owner])])

    def _owner_map(self, request: Request) -> int | None:
        """Returns a user namespace that shows files of the work folder's owner as those of the sandbox's user."""
        if request.owned is None:
            return None
        status = os.stat(request.owned)
        key = (status.st_uid, status.st_gid, request.uid)
        if key not in self._owners:
            self._owners[key] = _mapped_namespace(*key)
        return self._owners[key]

    def _kill(self, name: str) -> None:
        for waiting in [each for each in self._waiting if each[0] == name]:
            self._waiting.remove(waiting)
            _report(waiting[1][4], {"ended": -signal.SIGKILL, "oom": False})
            for descriptor in waiting[1]:
                os.close(descriptor)
        for pid, started in self._commands.items():
            if started.name == name:
                self._end_fast(pid, started)

    def _end_fast(self, pid: int, started: Started) -> None:
        """Kills a command, and gives it the computing time to end."""
        self._dying.add(pid)
        self._groups.share(_DYING)
        started.spare.group.share(_DYING)
        os.kill(pid, signal.SIGKILL)

    def _calm(self, name: str) -> None:
        for started in self._commands.values():
            if started.name == name:
                started.spare.group.share(_CALM)

    def _stop_greedy(self, ready: Sequence[int]) -> None:
        """Kills commands whose memory is used up."""
        for pid, started in self._commands.items():
            if started.spare.group.alarm in ready:
                os.eventfd_read(started.spare.group.alarm)
                started.spare.group.exhausted = True
                self._end_fast(pid, started)

    def _reap(self) -> None:
        """Reports the commands that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._end(pid, status)
            self._kill_orphans()
            self._groups.remove_left()

    def _kill_orphans(self) -> None:
        """Kills what bubblewrap left when it was killed before it had set everything up."""
        known = {*self._commands, *self._helpers, self._spare.pid if self._spare else 0}
        for pid in map(int, " ".join(_lines("/proc/thread-self/children")).split()):
            if pid not in known:
                os.kill(pid, signal.SIGKILL)

    def _end(self, pid: int, status: int) -> None:
        if self._spare is not None and self._spare.pid == pid:
            self._spare.remove(self._poll)
            self._spare = None
            return
        started = self._commands.pop(pid, None)
        if started is None:
            self._helpers.discard(pid)
            return
        if pid in self._dying:
            self._dying.remove(pid)
            if not self._dying:
                self._groups.share(_ALL)
        out_of_memory = started.spare.remove(self._poll)
        if started.report >= 0:
            _report(started.report, {"ended": os.waitstatus_to_exitcode(status), "oom": out_of_memory})
            os.close(started.report)


class Started:
    """A command by its process, its name, and the pipe to report to."""

    def __init__(self, spare: Spare, name: str, report: int) -> None:
        self.spare, self.name, self.report = spare, name, report


class Request:
    """What the server asks for."""

    def __init__(self, values: Mapping[str, Any], contents: bytes) -> None:
        self.program: str = values["program"]
        self.arguments: Sequence[str | Mapping[str, Any]] = values["arguments"]
        self.command: Sequence[str] = values["command"]
        self.limits: Mapping[str, int] = values["limits"]
        self.uid: int = values["uid"]
        self.only_reads: bool = values["only_reads"]
        self.contents = contents

    @classmethod
    def read(cls, descriptor: int) -> Request:
        data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        values, _, contents = data.partition(b"\n")
        return cls(json.loads(values), contents)

    @property
    def owned(self) -> str | None:
        """The folder whose files are shown as property of the sandbox's user."""
        sources = (each["show"] for each in self.arguments if not isinstance(each, str) and each.get("owned"))
        return next(sources, None)


def _report(descriptor: int, values: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the server is gone
        os.write(descriptor, b"\n" + json.dumps(values).encode() + b"\n")  # first the end of a line that was cut off


# ---------------------------------------------------------------- the command's side


class Spare:
    """A process that waits for a command, in control groups of its own, and becomes bubblewrap."""

    def __init__(self, pid: int, channel: socket.socket, group: Group) -> None:
        self.pid, self.group, self._channel = pid, group, channel

    @classmethod
    def forked(cls, groups: Groups, filters: Filters, *, root: bool) -> Spare:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        group = groups.made()
        warden = os.getpid()
        pid = os.fork()
        if pid == 0:
            _close_others(theirs.fileno())
            _become_command(theirs, filters, warden, root=root)
        theirs.close()
        group.add(pid)
        return cls(pid, ours, group)

    def send(self, descriptors: list[int]) -> None:
        with contextlib.suppress(OSError):  # it has been killed: its end is reported
            socket.send_fds(self._channel, [b"run"], descriptors)
        self._channel.close()

    def remove(self, poll: select.poll) -> bool:
        """Removes what is left of a process that has ended. Returns True if its memory was used up."""
        self._channel.close()
        return self.group.removed(poll)


def _become_command(channel: socket.socket, filters: Filters, warden: int, *, root: bool) -> NoReturn:
    """Waits for a request and replaces this process by bubblewrap."""
    report = -1
    try:
        _check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        if os.getppid() != warden:
            os._exit(1)
        os.setsid()
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        if root:
            _check(_LIBC.unshare(_CLONE_NEWNS), "unshare")
            _mount(None, "/", None, _MS_REC | _MS_SLAVE)
        message, descriptors, _, _ = socket.recv_fds(channel, 16, _DESCRIPTORS + 1)
        if not message:
            os._exit(1)
        # Numbers that no later descriptor gets, so that nothing else is passed on.
        request, stdin, stdout, stderr, report, block, *owner = (_above(each) for each in descriptors)
        for number, stream in enumerate((stdin, stdout, stderr)):
            os.dup2(stream, number)
        _launch(Request.read(request), filters, report, block, owner[0] if owner else None, root=root)
    except OSError as error:
        _report(report, {"error": str(error)})
    except Exception as error:  # noqa: BLE001  this process must not return into the warden's loop
        _report(report, {"error": f"{type(error).__name__}: {error}"})
    os._exit(1)


def _close_others(kept: int) -> None:
    """Closes what a process has inherited. The end of a command is seen when nobody holds its pipes open any more."""
    for name in os.listdir("/proc/self/fd"):
        if (descriptor := int(name)) > 2 and descriptor != kept:
            with contextlib.suppress(OSError):  # the descriptor of the list itself
                os.close(descriptor)


def _above(descriptor: int) -> int:
    moved = os.dup(descriptor)
    os.close(descriptor)
    return moved if moved > 2 else _above(moved)


def _launch(request: Request, filters: Filters, report: int, block: int, owner: int | None, *, root: bool) -> NoReturn:
    stage = Stage(request, owner) if root else None
    inner = _memory_file(filters[2 if request.only_reads else 1])
    arguments, passed = [], [report, block, inner]
    for each in request.arguments:
        if isinstance(each, str):
            arguments.append(each)
        elif "show" in each:
            arguments += [each["how"], stage.shown(each["show"]) if stage else each["show"], each["as"]]
        else:
            content = _memory_file(request.contents[each["from"] : each["to"]])
            passed.append(content)
            arguments += ["--perms", "0444", "--file", str(content), each["as"]]
    arguments += ["--seccomp", str(inner), "--json-status-fd", str(report), "--block-fd", str(block)]
    # Arguments contain variables of the command, and everybody on this machine may read a command line.
    listed = _memory_file(b"\0".join(os.fsencode(each) for each in arguments) + b"\0")
    for descriptor in (*passed, listed):
        os.set_inheritable(descriptor, True)
    if root:
        os.setgroups([])
        os.setresgid(request.uid, request.uid, request.uid)
        os.setresuid(request.uid, request.uid, request.uid)
        _check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")  # a new user has cleared it
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _set_filter(filters[0])
    os.execve(request.program, [request.program, "--args", str(listed), "--", *request.command], {})


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("toolcaddie", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Stage:
    """Shows folders at paths that the sandbox's user can reach, although their own may lead through closed folders."""

    def __init__(self, request: Request, owner: int | None) -> None:
        shown = [each for each in request.arguments if not isinstance(each, str) and "show" in each]
        trees = {each["show"]: _tree(each["show"], owner if each.get("owned") else None) for each in shown}
        self._paths: dict[str, str] = {}
        _mount("tmpfs", _STAGE, "tmpfs", 0, "mode=755,size=1m")
        for number, (source, tree) in enumerate(trees.items()):
            self._paths[source] = _attached(tree, f"{_STAGE}/{number}")

    def shown(self, source: str) -> str:
        return self._paths[source]


def _tree(source: str, owner: int | None) -> int:
    """Returns a copy of the mounts at a path, attached nowhere, with its files shown as property of the sandbox's user."""
    path = os.open(source, os.O_PATH | os.O_CLOEXEC)
    tree = _syscall(
        "open_tree", _OPEN_TREE, path, b"", _OPEN_TREE_CLONE | _AT_EMPTY_PATH | _AT_RECURSIVE | os.O_CLOEXEC
    )
    os.close(path)
    if owner is not None:
        attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_IDMAP, 0, 0, owner)
        what = (
            f"the files of {source} cannot be shown as those of the sandbox's user: its file system has no ID-mapped mounts; "
            "move it to one that has (ext4, xfs, btrfs), or run the server as an ordinary user"
        )
        _syscall(what, _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), 32)
    return tree


def _attached(tree: int, target: str) -> str:
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _syscall("move_mount", _MOVE_MOUNT, tree, b"", -100, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)
    return target


def _mapped_namespace(owner: int, group: int, uid: int) -> int:
    """Returns a user namespace in which files of `owner` are those of `uid`."""
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ready)
            _check(_LIBC.unshare(_CLONE_NEWUSER), "unshare")
            os.write(go, b".")
            signal.pause()
        finally:
            os._exit(1)
    os.close(go)
    try:
        if not os.read(ready, 1):
            raise OSError("a user namespace cannot be made")
        for kind, number in (("uid_map", owner), ("gid_map", group)):
            with open(f"/proc/{pid}/{kind}", "w") as file:
                file.write(f"{number} {uid} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _set_filter(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))

    value = Program(len(program) // 8, program)
    _check(_LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(value), 0, 0), "seccomp")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if each is None else each.encode() for each in (source, target, kind, options)]
    _check(_LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def _syscall(what: str, number: int, *arguments: Any) -> int:
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments), what)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


# ---------------------------------------------------------------- the network of a command


def _listening(pid: int, port: int, channel: int) -> int:
    """Forks a process that sends a socket that listens in the network namespace of process `pid`, and returns its number.
    Nothing is sent if that fails."""
    child = os.fork()
    if child:
        return child
    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        if os.geteuid() != 0:
            _check(_LIBC.setns(_check(_LIBC.ioctl(network, _NS_GET_USERNS), "ioctl"), _CLONE_NEWUSER), "setns")
        _check(_LIBC.setns(network, _CLONE_NEWNET), "setns")
        with socket.socket() as listener, socket.socket(fileno=os.dup(channel)) as answer:
            listener.bind(("127.0.0.1", port))
            listener.listen(64)
            socket.send_fds(answer, [b"."], [listener.fileno()])
    finally:
        os._exit(0)


# ---------------------------------------------------------------- control groups


class Groups:
    """The control groups in which those of the commands are made: of version 1, one a controller, or of version 2, one. All
    commands together share the computing time of one, so that many do not slow the server down more than few."""

    def __init__(self) -> None:
        self._count = 0
        self._name = f"toolcaddie-{_process_namespace()}-{os.getpid()}"
        self._left: list[str] = []
        self._parents = list(self._made_parents())

    def made(self) -> Group:
        """Returns new groups, as far as they can be made."""
        self._count += 1
        folders = []
        for parent in self._parents:
            folder = f"{parent}/{self._count}"
            with contextlib.suppress(OSError):
                os.mkdir(folder)
                folders.append(folder)
        return Group(folders, self._left)

    def remove_left(self) -> None:
        """Removes folders whose processes had not left them yet."""
        self._left[:] = [folder for folder in self._left if not _removed(folder)]

    def share(self, shares: Mapping[str, str]) -> None:
        """Sets the share of computing time of all commands together."""
        _share(self._parents, shares)

    def remove(self) -> None:
        """Removes them all. Those with processes stay."""
        self.remove_left()
        for parent in self._parents:
            _removed(parent)

    def _made_parents(self) -> Iterator[str]:
        for folder in set(_group_folders()):
            _remove_forgotten(folder)
            parent = f"{folder}/{self._name}"
            with contextlib.suppress(OSError):
                os.mkdir(parent)
                _hand_down(parent)
                _share([parent], _ALL)
                yield parent


_CONTROLLERS = frozenset({"memory", "pids", "cpu"})
"""What limits the memory, the processes and the computing time of a group."""


def _group_folders() -> Iterator[str]:
    """Yields the folders of this process's groups that limit memory, processes or computing time."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        path = path.rstrip("/")
        for name in _CONTROLLERS & set(controllers.split(",")):
            yield f"/sys/fs/cgroup/{name}{path}"
        above = f"/sys/fs/cgroup{path.rpartition('/')[0]}"
        if not controllers and "memory" in "".join(_lines(f"{above}/cgroup.subtree_control")).split():
            yield above  # a group with processes cannot have groups with limits below it, so they are made beside it


class Group:
    """The control groups of one command."""

    def __init__(self, folders: list[str], left: list[str]) -> None:
        self._folders, self._left = folders, left
        self.alarm = -1
        """Becomes readable when the memory is used up, with groups of version 1."""
        self.exhausted = False

    def add(self, pid: int) -> None:
        """Puts a process into the groups. A group that does not take it is removed."""
        for folder in list(self._folders):
            try:
                _write(f"{folder}/cgroup.procs", str(pid))
            except OSError:
                self._folders.remove(folder)
                self._left.append(folder)

    def limit(self, limits: Mapping[str, int]) -> bool:
        """Sets the limits that these groups have. Two processes more than the command's belong to bubblewrap.

        Returns True if one of them limits the memory.
        """
        memory, processes = str(limits["memory"]), str(limits["processes"] + 2)
        limited = False
        for folder in self._folders:
            for name, value in (
                ("memory.limit_in_bytes", memory),
                ("memory.memsw.limit_in_bytes", memory),
                ("memory.max", memory),
                ("memory.swap.max", "0"),
                ("memory.oom.group", "1"),
                ("pids.max", processes),
            ):
                if os.path.exists(f"{folder}/{name}"):
                    _write(f"{folder}/{name}", value)
                    limited = limited or name in ("memory.limit_in_bytes", "memory.max")
        return limited

    def share(self, shares: Mapping[str, str]) -> None:
        """Sets the share of computing time."""
        _share(self._folders, shares)

    def watch(self, poll: select.poll) -> None:
        for folder in self._folders:
            if os.path.exists(f"{folder}/memory.oom_control"):
                self.alarm = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                with open(f"{folder}/memory.oom_control") as control:
                    _write(f"{folder}/cgroup.event_control", f"{self.alarm} {control.fileno()}")
                poll.register(self.alarm, select.POLLIN)

    def removed(self, poll: select.poll) -> bool:
        """Removes the groups. Returns True if the memory was used up."""
        counts = [line for folder in self._folders for name in _EVENTS for line in _lines(f"{folder}/{name}")]
        if self.alarm >= 0:
            poll.unregister(self.alarm)
            os.close(self.alarm)
            self.alarm = -1
        self._left += [folder for folder in self._folders if not _removed(folder)]
        return self.exhausted or any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in counts)


def _share(folders: Sequence[str], shares: Mapping[str, str]) -> None:
    for folder in folders:
        for name, value in shares.items():
            with contextlib.suppress(OSError):  # this group is for something else
                if os.path.exists(f"{folder}/{name}"):
                    _write(f"{folder}/{name}", value)


def _hand_down(parent: str) -> None:
    """Lets the groups below a group of version 2 have limits too; those of version 1 always have them."""
    for controller in _CONTROLLERS if os.path.exists(f"{parent}/cgroup.subtree_control") else ():
        with contextlib.suppress(OSError):  # it is not there
            _write(f"{parent}/cgroup.subtree_control", f"+{controller}")


def _remove_forgotten(folder: str) -> None:
    """Removes the groups of programs like this one that were killed. Those of other process namespaces, whose numbers say nothing
    here, and those with processes stay."""
    for name in os.listdir(folder):
        match name.split("-"):
            case ["toolcaddie", namespace, pid] if namespace == _process_namespace() and not os.path.exists(
                f"/proc/{pid}"
            ):
                with os.scandir(f"{folder}/{name}") as below:
                    groups = [each.path for each in below if each.is_dir()]
                for group in (*groups, f"{folder}/{name}"):
                    _removed(group)


def _process_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


_EVENTS = ("memory.oom_control", "memory.events")


def _removed(folder: str) -> bool:
    """Removes a group. Returns False if it still has processes: those that were killed a moment ago leave it a little later."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    filters = []
    for number in sys.argv[2:5]:
        with open(int(number), "rb") as file:
            filters.append(file.read())
    warden = Warden(channel, (filters[0], filters[1], filters[2]))
    try:
        warden.serve()
    finally:
        warden.close()


if __name__ == "__main__":
    main()
