"""Programs that try to get out of the wall. Each function is one; it runs inside and raises `Out` if it got out.

    python3 probes_inside.py NAME JSON

JSON describes what there is on the host to reach: see `Facts`. The exit status is 7 if the probe got out and 0 if all that it
tried failed; some are ended by the wall. The first sentence of each function says in `docs/security.md` what it tries. The file
imports nothing of Toolcaddie, because it runs alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

OUT = 7
"""The exit status of a probe that got out."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_X86 = platform.machine() == "x86_64"


class Out(Exception):
    """The probe reached something outside of the wall, which the message names."""


class Facts:
    """What there is on the host to reach."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.secret_file: str = values["secret_file"]
        """A file with `secret`."""
        self.secret: str = values["secret"]
        self.target: str = values["target"]
        """A file that must not change."""
        self.tcp: int = values["tcp"]
        self.udp: int = values["udp"]
        """Ports of the loopback on which the host listens."""
        self.path_socket: str = values["path_socket"]
        self.abstract_socket: str = values["abstract_socket"]
        self.victim: int = values["victim"]
        """The number of a process with the secret in its environment."""
        self.addresses: list[str] = values["addresses"]


Probe = Callable[[Facts], None]
PROBES: dict[str, Probe] = {}


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


def _call(number: int, *arguments: Any) -> int:
    return int(_LIBC.syscall(ctypes.c_long(number), *arguments))


def _number(x86_64: int, aarch64: int) -> int:
    return x86_64 if _X86 else aarch64


def _refused(what: str, number: int, *arguments: Any) -> None:
    """Raises `Out` if a system call works."""
    if _call(number, *arguments) >= 0:
        raise Out(f"{what} works")


def _fails(what: str, action: Callable[[], object]) -> None:
    """Raises `Out` if an action works."""
    try:
        action()
    except (OSError, PermissionError, ValueError, OverflowError):
        return
    raise Out(f"{what} works")


def _unreadable(paths: Iterable[str], secret: str = "") -> None:
    """Raises `Out` if a file can be read, or, with a secret, contains it."""
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            content = file.read(1 << 20)
            if not secret or secret.encode() in content:
                raise Out(f"{path} can be read")


def _unwritable(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            raise Out(f"{path} can be written")


# ---------------------------------------------------------------- files


@probe
def read_host_files(facts: Facts) -> None:
    """Reads a secret file by its path, through `/proc/self/root` and `/proc/self/cwd`, and files such as `/etc/shadow`."""
    above = "../" * 12
    places = [facts.secret_file, f"/proc/self/root{facts.secret_file}", f"/proc/self/cwd/{above}{facts.secret_file}"]
    _unreadable(
        [*places, f"{above}{facts.secret_file}", f"/oldroot{facts.secret_file}", f"/newroot{facts.secret_file}"]
    )
    _unreadable(["/etc/shadow", "/etc/hostname", "/etc/machine-id", "/root/.bashrc", "/etc/ssh/sshd_config"])


@probe
def write_host_files(facts: Facts) -> None:
    """Overwrites a file of the host by its path and through a link, and adds files to `/usr` and `/etc`."""
    _unwritable([facts.target, f"/proc/self/root{facts.target}"])
    Path("link").symlink_to(facts.target)
    _unwritable(["link"])
    for path in ("/usr/bin/probe", "/usr/probe", "/etc/probe", "/probe", "/run/tool/probe", "/dev/probe"):
        _fails(f"writing {path}", partial(Path(path).write_text, "x"))
    _fails("a hard link to the host", lambda: os.link(facts.target, "hard"))


@probe
def hidden_files(facts: Facts) -> None:
    """Uncovers a hidden file of the work folder: reads, moves, links, removes and unmounts what covers it."""
    _unreadable([".env", "secrets/key"], facts.secret)
    for action in (
        lambda: os.rename(".env", "moved"),
        lambda: os.unlink(".env"),
        lambda: os.link(".env", "linked"),
        lambda: os.rename("secrets", "others"),
        lambda: os.rmdir("secrets"),
    ):
        _fails("removing what covers a hidden file", action)
    _LIBC.umount2(b"/work/.env", 2)
    _unreadable([".env", "secrets/key"], facts.secret)


@probe
def file_handles(facts: Facts) -> None:
    """Opens the root of the disk by a file handle, which asks for no path (`open_by_handle_at`)."""
    for inode in (2, 64, 128, 256):
        handle = struct.pack("=IiIIII", 8, 1, inode, 0, 0, 0)
        for place in ("/usr", "/work"):
            folder = os.open(place, os.O_RDONLY)
            _refused("open_by_handle_at", _number(304, 265), folder, handle, os.O_RDONLY)


@probe
def program_files(facts: Facts) -> None:
    """Overwrites the interpreter and the program that built the wall, by path and through `/proc/PID/exe`."""
    _unwritable([sys.executable, os.path.realpath(sys.executable), "/usr/bin/bwrap", "/usr/bin/env"])
    _unwritable(["/proc/self/exe", "/proc/1/exe"])


@probe
def setuid_files(facts: Facts) -> None:
    """Becomes another user by setuid programs, and leaves a setuid program in the work folder."""
    for name in ("su", "mount", "passwd", "sudo", "newgrp", "chsh"):
        with contextlib.suppress(OSError):
            subprocess.run([f"/usr/bin/{name}", "-c", "id"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
    for change in (os.setuid, os.setgid):
        _fails("becoming root", partial(change, 0))
    for name, mode in (("made", 0o4755), ("group", 0o2755)):
        with contextlib.suppress(OSError):
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, mode))
        with contextlib.suppress(OSError):
            os.chmod(name, mode)
        if os.path.exists(name) and os.stat(name).st_mode & 0o6000:
            raise Out(f"{name} sets its user or group")


@probe
def devices(facts: Facts) -> None:
    """Opens the memory, disks, the kernel's log and other devices."""
    names = "mem kmem port sda vda nvme0n1 loop0 loop-control kmsg fuse kvm net/tun vhost-net vsock mapper/control uinput nvidia0"
    for name in names.split():
        _fails(f"opening /dev/{name}", partial(os.open, f"/dev/{name}", os.O_RDONLY))


@probe
def device_files(facts: Facts) -> None:
    """Makes device files of the disk and of the memory (`mknod`) in every folder that can be written."""
    for folder in ("/work", "/tmp", "/dev/shm", "/dev"):
        for kind, major, minor in ((0o060000, 254, 0), (0o060000, 8, 0), (0o020000, 1, 1)):
            device = os.makedev(major, minor)
            _fails("mknod", partial(os.mknod, f"{folder}/device", kind | 0o666, device))


# ---------------------------------------------------------------- network


def _unreachable(family: int, kind: int, address: Any) -> None:
    with contextlib.suppress(OSError), socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)
        connection.send(b"out")
        if kind == socket.SOCK_STREAM:
            raise Out(f"{address} can be reached")


@probe
def loopback_tcp(facts: Facts) -> None:
    """Connects to a server on the loopback of the host by TCP."""
    for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0"):
        _unreachable(socket.AF_INET, socket.SOCK_STREAM, (host, facts.tcp))
    for host in ("::1", "::ffff:127.0.0.1"):
        _unreachable(socket.AF_INET6, socket.SOCK_STREAM, (host, facts.tcp))


@probe
def loopback_udp(facts: Facts) -> None:
    """Sends datagrams to the loopback of the host, which would need no answer."""
    for host in ("127.0.0.1", "127.255.255.255", "0.0.0.0"):
        _unreachable(socket.AF_INET, socket.SOCK_DGRAM, (host, facts.udp))
    _unreachable(socket.AF_INET6, socket.SOCK_DGRAM, ("::1", facts.udp))


@probe
def other_addresses(facts: Facts) -> None:
    """Connects to the host's other addresses, to the metadata of a cloud and to the Internet, and resolves a name."""
    for host in (*facts.addresses, "169.254.169.254", "1.1.1.1", "8.8.8.8"):
        _unreachable(socket.AF_INET, socket.SOCK_STREAM, (host, facts.tcp))
        _unreachable(socket.AF_INET, socket.SOCK_STREAM, (host, 80))
        _unreachable(socket.AF_INET, socket.SOCK_DGRAM, (host, facts.udp))
    _fails("resolving a name", lambda: socket.getaddrinfo("example.com", 80))


@probe
def path_sockets(facts: Facts) -> None:
    """Connects to unix sockets of the host by their paths, among them those of Docker and D-Bus."""
    for path in (facts.path_socket, "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket"):
        _unreachable(socket.AF_UNIX, socket.SOCK_STREAM, path)


@probe
def abstract_sockets(facts: Facts) -> None:
    """Connects to an abstract unix socket of the host, which has no path."""
    _unreachable(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{facts.abstract_socket}")


@probe
def other_sockets(facts: Facts) -> None:
    """Opens raw, packet, netlink, vsock, Bluetooth, crypto and CAN sockets."""
    for family, kind, protocol in (
        (socket.AF_INET, socket.SOCK_RAW, 1),
        (socket.AF_INET, socket.SOCK_DGRAM, 1),
        (socket.AF_INET6, socket.SOCK_RAW, 58),
        (17, socket.SOCK_RAW, 768),
        (16, socket.SOCK_RAW, 0),
        (40, socket.SOCK_STREAM, 0),
        (31, socket.SOCK_RAW, 1),
        (38, socket.SOCK_SEQPACKET, 0),
        (29, socket.SOCK_RAW, 1),
        (44, socket.SOCK_RAW, 0),
    ):
        _fails(f"a socket of family {family}", partial(socket.socket, family, kind, protocol))


# ---------------------------------------------------------------- processes


@probe
def trace(facts: Facts) -> None:
    """Attaches to processes as a debugger does (`ptrace`), by seizing them too."""
    child = os.fork()
    if child == 0:
        signal.pause()
    for pid in (facts.victim, 1, os.getppid(), child):
        for request in (16, 0x4206):
            _refused("ptrace", _number(101, 117), request, pid, 0, 0)
    os.kill(child, signal.SIGKILL)


@probe
def signals(facts: Facts) -> None:
    """Sends signals to processes of the host, by their numbers and to groups."""
    for pid in (facts.victim, -facts.victim, *range(1000, 5000, 7)):
        if pid != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                if pid in (facts.victim, -facts.victim):
                    raise Out("a process of the host can be signalled")


@probe
def processes_of_others(facts: Facts) -> None:
    """Reads the environment, the memory and the command line of a process of the host in `/proc`."""
    for name in ("environ", "mem", "cmdline", "maps", "root/etc/shadow", "cwd", "fd"):
        _fails(f"/proc/PID/{name}", partial(os.stat, f"/proc/{facts.victim}/{name}"))
    numbers = [name for name in os.listdir("/proc") if name.isdecimal()]
    if len(numbers) > 4:
        raise Out(f"{len(numbers)} processes are visible")


@probe
def process_1(facts: Facts) -> None:
    """Writes into the memory of process 1, which runs with fewer restrictions, to make it act for the probe."""
    _unwritable(["/proc/1/mem", "/proc/1/task/1/mem", "/proc/self/../1/mem"])
    for name in ("root", "cwd", "fd", "ns/mnt", "environ"):
        _fails(f"/proc/1/{name}", partial(os.stat, f"/proc/1/{name}"))
    _fails("a descriptor of process 1", partial(_steal, 1))


def _steal(pid: int) -> None:
    if _call(438, os.pidfd_open(pid), 0, 0) < 0:
        raise OSError("pidfd_getfd is refused")


@probe
def memory_of_others(facts: Facts) -> None:
    """Reads and writes the memory of other processes by system calls (`process_vm_readv`, `pidfd_getfd`)."""
    for pid in (1, os.getppid(), os.getpid()):
        _refused("process_vm_readv", _number(310, 270), pid, 0, 0, 0, 0, 0)
        _refused("process_vm_writev", _number(311, 271), pid, 0, 0, 0, 0, 0)
    _fails("pidfd_getfd", partial(_steal, os.getpid()))


@probe
def inherited_descriptors(facts: Facts) -> None:
    """Looks for open files, folders and sockets that it inherited."""
    for number in range(3, 1024):
        with contextlib.suppress(OSError):
            os.fstat(number)
            raise Out(f"descriptor {number} is open: {os.readlink(f'/proc/self/fd/{number}')}")


@probe
def environment_secrets(facts: Facts) -> None:
    """Looks for secrets of the server in its own environment and in that of every process that it sees."""
    if facts.secret in str(dict(os.environ)):
        raise Out("the environment contains a secret")
    _unreadable((f"/proc/{name}/environ" for name in os.listdir("/proc") if name.isdecimal()), facts.secret)


@probe
def daemons(facts: Facts) -> None:
    """Leaves daemons: in sessions of their own, forked twice, deaf to signals, and with closed outputs."""
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            if os.fork() == 0:
                for descriptor in (0, 1, 2):
                    os.close(descriptor)
                while True:
                    time.sleep(0.05)
            os._exit(0)


@probe
def daemons_at_the_end_of_time(facts: Facts) -> None:
    """Starts such daemons and waits until its time is up."""
    daemons(facts)
    time.sleep(60)


# ---------------------------------------------------------------- the kernel


@probe
def kernel_settings(facts: Facts) -> None:
    """Changes settings in `/proc/sys`, of the kernel, of memory and of file systems."""
    for folder, _, names in os.walk("/proc/sys"):
        _unwritable(f"{folder}/{name}" for name in names if "/net/" not in folder)
    _unwritable(["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr"])


@probe
def core_pattern(facts: Facts) -> None:
    """Makes the kernel run a program for a crash (`core_pattern`), and crashes to leave a core file."""
    _fails("writing core_pattern", lambda: Path("/proc/sys/kernel/core_pattern").write_text(f"|{facts.target}"))
    if os.fork() == 0:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
        os.kill(os.getpid(), signal.SIGSEGV)
    if os.WCOREDUMP(os.wait()[1]):
        raise Out("a core file was written")


@probe
def kernel_objects(facts: Facts) -> None:
    """Changes the kernel through `/sys`: its modules, its control groups and their release agent, and its debugging doors."""
    _unwritable(["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled"])
    _unwritable(["/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent"])
    for path in ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf"):
        _fails(path, partial(os.listdir, path))


@probe
def mounts(facts: Facts) -> None:
    """Mounts file systems by the old and the new calls, makes `/` writable, and unmounts."""
    os.makedirs("/tmp/m", exist_ok=True)
    for source, kind, flags in ((b"x", b"tmpfs", 0), (b"/", None, 4096), (b"x", b"proc", 0), (None, None, 32 | 4096)):
        if _LIBC.mount(source, b"/tmp/m", kind, ctypes.c_ulong(flags), None) == 0:
            raise Out("mount works")
    if _LIBC.umount2(b"/usr", 2) == 0 or _LIBC.umount2(b"/proc/1", 2) == 0:
        raise Out("umount works")
    _refused("open_tree", 428, -100, b"/", 1)
    _refused("fsopen", 430, b"tmpfs", 0)
    _refused("fspick", 433, -100, b"/", 0)
    _refused("move_mount", 429, -100, b"/usr", -100, b"/tmp/m", 0)
    _refused("mount_setattr", 442, -100, b"/", 0, ctypes.create_string_buffer(32), 32)


@probe
def roots(facts: Facts) -> None:
    """Changes its root folder (`chroot`, `pivot_root`) to walk out of it."""
    _fails("chroot", lambda: os.chroot("/tmp"))
    _refused("pivot_root", _number(155, 41), b"/tmp", b"/tmp")


@probe
def namespaces(facts: Facts) -> None:
    """Makes a user namespace to have privileges in it, and joins other namespaces (`unshare`, `clone`, `clone3`, `setns`)."""
    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80):
        if _LIBC.unshare(flag) == 0:
            raise Out(f"unshare({flag:#x}) works")
    _refused("clone", _number(56, 220), 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    _refused("clone3", 435, struct.pack("=11Q", 0x10000000, *[0] * 10), 88)
    for name in ("user", "mnt", "net", "pid"):
        with contextlib.suppress(OSError):
            _refused("setns", _number(308, 268), os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0)


@probe
def io_uring(facts: Facts) -> None:
    """Sets up `io_uring`, whose operations no filter of system calls sees."""
    _refused("io_uring_setup", 425, 8, ctypes.create_string_buffer(120))
    _refused("io_uring_register", 427, 0, 0, 0, 0)


@probe
def bpf(facts: Facts) -> None:
    """Loads a program into the kernel (`bpf`)."""
    for command in (0, 5):
        _refused("bpf", _number(321, 280), command, struct.pack("=IIIIIIII", 1, 4, 4, 1, 0, 0, 0, 0), 32)


@probe
def performance_counters(facts: Facts) -> None:
    """Watches the kernel and other processes by performance counters (`perf_event_open`)."""
    attributes = struct.pack("=IIQ", 1, 112, 0) + bytes(96)
    _refused("perf_event_open", _number(298, 241), attributes, 0, -1, -1, 0)


@probe
def keys(facts: Facts) -> None:
    """Reads and adds keys of the kernel (`keyctl`, `add_key`, `request_key`)."""
    _refused("keyctl", _number(250, 219), 0, -3, 1)
    _refused("add_key", _number(248, 217), b"user", b"probe", b"x", 1, -3)
    _refused("request_key", _number(249, 218), b"user", b"probe", 0, -3)


@probe
def page_faults(facts: Facts) -> None:
    """Handles page faults of the kernel (`userfaultfd`), which makes races in it easy to win."""
    for flags in (0, 1, os.O_CLOEXEC | os.O_NONBLOCK):
        _refused("userfaultfd", _number(323, 282), flags)


@probe
def kernel_modules(facts: Facts) -> None:
    """Loads another kernel or a module, and restarts the machine."""
    _refused("kexec_load", _number(246, 104), 0, 0, 0, 0)
    _refused("kexec_file_load", _number(320, 294), -1, -1, 0, 0, 0)
    _refused("init_module", _number(175, 105), b"x", 1, b"")
    _refused("finit_module", _number(313, 273), 0, b"", 0)
    _refused("delete_module", _number(176, 106), b"loop", 0)
    _refused("reboot", _number(169, 142), 0xFEE1DEAD, 672274793, 0, 0)


@probe
def clocks(facts: Facts) -> None:
    """Changes the time of the machine (`settimeofday`, `clock_settime`, `adjtimex`)."""
    _fails("clock_settime", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600))
    _refused("settimeofday", _number(164, 170), struct.pack("=qq", 0, 0), 0)
    _refused("adjtimex", _number(159, 171), ctypes.create_string_buffer(256))


@probe
def machine_settings(facts: Facts) -> None:
    """Changes the name of the machine, its swap, quotas and accounting, and its console."""
    _fails("sethostname", lambda: socket.sethostname("probe"))
    _refused("swapon", _number(167, 224), b"/work", 0)
    _refused("acct", _number(163, 89), b"/work/acct")
    _refused("quotactl", _number(179, 60), 0x800002, 0, 0, 0)
    _refused("syslog", _number(103, 116), 3, ctypes.create_string_buffer(16), 16)
    _refused("vhangup", _number(153, 58))


@probe
def terminals(facts: Facts) -> None:
    """Types into the terminal of the server (TIOCSTI)."""
    _fails("opening the terminal", lambda: os.open("/dev/tty", os.O_RDWR))
    with contextlib.suppress(OSError):
        own, _ = os.openpty()
        _fails("TIOCSTI", lambda: fcntl.ioctl(own, 0x5412, b"x"))


@probe
def foreign_calls(facts: Facts) -> None:
    """Calls the kernel as a 32-bit program does, whose numbers of system calls differ (`int 0x80`, x32)."""
    if not _X86:
        return
    child = os.fork()
    if child == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # getpid() of the 32-bit table
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        os._exit(OUT)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == OUT:
        raise Out("a 32-bit call works")
    child = os.fork()
    if child == 0:
        os._exit(OUT if _call(0x40000000 + 39) > 0 else 0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == OUT:
        raise Out("an x32 call works")


@probe
def priorities(facts: Facts) -> None:
    """Takes computing time from others: a higher priority, real time, and protection from a lack of memory."""
    _fails("nice -5", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
    _fails("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    _fails("oom_score_adj", lambda: Path("/proc/self/oom_score_adj").write_text("-1000"))


# ---------------------------------------------------------------- what there is of everything


@probe
def memory(facts: Facts) -> None:
    """Fills the memory, in one process and in many."""
    for _ in range(5):
        with contextlib.suppress(OSError):
            os.fork()
    held = []
    while True:
        with contextlib.suppress(MemoryError):
            held.append(bytearray(16 << 20))


@probe
def memory_in_files(facts: Facts) -> None:
    """Fills the memory by files: in `/tmp`, in `/dev/shm`, in files without a name, and in shared memory."""
    for number in range(100):
        for folder in ("/tmp", "/dev/shm"):
            with contextlib.suppress(OSError), open(f"{folder}/{number}", "wb") as file:
                file.write(bytes(8 << 20))
    if _call(_number(319, 279), b"x", 0) >= 0:
        raise Out("memfd_create works")
    if _call(_number(29, 194), 0, 1 << 30, 0o1600) >= 0:
        raise Out("shmget works")


@probe
def forks(facts: Facts) -> None:
    """Forks without end, with threads too."""
    while True:
        with contextlib.suppress(OSError, RuntimeError):
            os.fork()
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@probe
def open_files(facts: Facts) -> None:
    """Opens files, pipes and sockets without end."""
    held: list[Any] = []
    try:
        while len(held) < 100_000:
            held.append(os.dup(0) if len(held) % 2 else socket.socket())
    except OSError:
        return
    raise Out(f"{len(held):,} files are open")


@probe
def disk(facts: Facts) -> None:
    """Fills the disk through the work folder: by one large file, by many, and by files that are removed but open."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    held = []
    for number in range(100_000):
        file = open(f"file{number}", "wb")  # noqa: SIM115  it stays open
        with contextlib.suppress(OSError):
            for _ in range(1024):
                file.write(bytes(1 << 20))
        if number % 2:
            os.unlink(f"file{number}")
            held.append(file)


@probe
def names(facts: Facts) -> None:
    """Fills the disk by empty files and folders without end."""
    for number in range(10_000_000):
        os.mkdir(f"folder{number}")
        with open(f"folder{number}/file", "wb"):
            pass


@probe
def depths(facts: Facts) -> None:
    """Nests folders without end, so that whoever looks into them runs out of descriptors or of stack."""
    while True:
        os.mkdir("folder")
        os.chdir("folder")


@probe
def log_flood(facts: Facts) -> None:
    """Writes to both outputs without end."""
    piece = b"x" * (1 << 20)
    while True:
        os.write(1, piece)
        os.write(2, piece)


HARMLESS = frozenset(
    {
        "read_host_files",
        "hidden_files",
        "loopback_tcp",
        "loopback_udp",
        "path_sockets",
        "abstract_sockets",
        "processes_of_others",
    }
)
"""Probes that do no harm where they get out."""


def main() -> None:
    if os.geteuid() == 0 and sys.argv[1] not in HARMLESS:
        sys.exit(f"{sys.argv[1]} would do harm as root, outside of the wall; it does not run")
    values = json.loads(sys.argv[2])
    try:
        PROBES[sys.argv[1]](Facts(values))
    except Out as out:
        print(out)
        sys.exit(OUT)


if __name__ == "__main__":
    main()
