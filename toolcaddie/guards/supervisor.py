"""A program that runs a command and kills all descendants of the command when it ends. `processes` starts it for each command.

    python -I -S supervisor.py CONTROL STATUS COMMAND...

CONTROL and STATUS are numbers of file descriptors. A descendant whose parent dies becomes a child of this program
(PR_SET_CHILD_SUBREAPER), so none escapes by forking twice or by a session of its own. The program kills all remaining descendants
when the command ends, when a byte arrives at CONTROL, or when CONTROL closes because the caller has died. Then it writes
`exit CODE` to STATUS; a negative code is the number of the signal that ended the command. If the command cannot be started, it
writes `exec ERRNO` before.

It is a separate program that imports nothing of Toolcaddie, so that it starts in 20 ms. Forking the caller itself would be
unsafe, because the caller has threads.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_PATIENCE = 5.0
"""Seconds to wait until killed processes have disappeared. A process that waits for a broken disk takes longer, and is left."""

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that this program ignores, because a command may send them to all processes of its user."""

_PYTHONS_OWN = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores. A command would inherit this, so they are reset before it starts."""


def main() -> None:
    """Runs the command, waits for its end or the order to end it, and kills its descendants."""
    control, status, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    child = os.fork()
    if child == 0:
        _become(command, status)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # the command's pipes must close when the command closes them
        os.dup2(nowhere, descriptor)
    code, alive = _wait_for_end(child, control, wake)
    deadline = time.monotonic() + _PATIENCE
    while alive and time.monotonic() < deadline:
        _kill_descendants()
        code, alive = _reap(child, code)
        if alive:
            time.sleep(0.001)
    os.write(status, f"exit {-signal.SIGKILL if code is None else code}\n".encode())


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        sys.exit(f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def _become(command: list[str], status: int) -> None:
    """Replaces this process by the command, in a session of its own. If that fails, writes `exec ERRNO` to `status` and ends."""
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if the supervisor is killed, at least the command is killed too
    for number in (*_IGNORED, *_PYTHONS_OWN, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, _environment())
    except OSError as error:
        os.write(status, f"exec {error.errno}\n".encode())
    finally:
        os._exit(127)


def _environment() -> dict[bytes, bytes]:
    """Returns the environment with which this program was started. Python itself adds a variable if no language is set."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    return {name: value for name, _, value in pairs}


def _wait_for_end(child: int, control: int, wake: int) -> tuple[int | None, bool]:
    """Waits until the command has ended, or until a byte or the end of `control` demands its end. Returns the same as `_reap`.

    `wake` becomes readable when a child has died.
    """
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if wake in ready:
            os.read(wake, 4096)
        code, alive = _reap(child, None)
        if code is not None or control in ready:
            return code, alive


def _reap(child: int, code: int | None) -> tuple[int | None, bool]:
    """Collects dead children. Returns the command's exit code (None until it has ended), and whether a descendant still lives.

    `child`: the process of the command; `code`: its exit code, if it is known already. Descendants without a parent become
    children of this program, so it has a child as long as a descendant lives.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, False
        if pid == 0:
            return code, True
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _kill_descendants() -> None:
    """Stops all descendants and then kills them. A stopped process cannot start another one meanwhile."""
    stopped: set[int] = set()
    while new := _descendants() - stopped:
        stopped |= new
        for pid in new:
            _send(pid, signal.SIGSTOP, stopped)
    for pid in stopped:
        _send(pid, signal.SIGKILL, stopped)


def _send(pid: int, number: signal.Signals, tree: set[int]) -> None:
    """Sends a signal to a descendant. `tree`: all descendants found so far."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # it has ended
        return
    try:
        # The number may belong to another process since it was listed. The handle fixes the process, so its parent is checked.
        if _parent(pid) in tree | {os.getpid()}:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):  # it has ended, or it runs as another user now (sudo)
        pass
    finally:
        os.close(handle)


def _descendants() -> set[int]:
    """Returns all living processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (parent := _parent(int(name))) is not None:
            children.setdefault(parent, []).append(int(name))
    descendants: set[int] = set()
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        descendants.update(below)
        pending.extend(below)
    return descendants


def _parent(pid: int) -> int | None:
    """Returns the parent's id; None: there is no such process, or it is dead and waits to be collected."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # "pid (name) state ppid ..."; the name may contain any characters, parentheses too.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


if __name__ == "__main__":
    main()
