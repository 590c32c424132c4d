"""Programs by what they make of their arguments: code, another program, deleted files, a network."""

from __future__ import annotations

import re
from collections.abc import Mapping

# fmt: off
_SHELLS = dict.fromkeys(("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "yash", "zsh"), ("-c",))
_LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "bun": ("-e", "-p", "--eval"), "deno": ("eval",), "elixir": ("-e",), "erl": ("-eval",), "groovy": ("-e",),
    "guile": ("-c", "-e"), "julia": ("-e", "-E"), "lua": ("-e", "-l"), "luajit": ("-e", "-l"),
    "node": ("-e", "-p", "-r", "--eval", "--import", "--print", "--require"),
    "nodejs": ("-e", "-p", "-r", "--eval", "--print"), "ocaml": ("-e",), "octave": ("--eval",), "osascript": ("-e",),
    "perl": ("-e", "-E", "-M", "-m", "-I"), "php": ("-r", "-B", "-R"), "pwsh": ("-c", "-Command", "-EncodedCommand"),
    "pypy": ("-c", "-m"), "pypy3": ("-c", "-m"), "python": ("-c", "-m"), "python2": ("-c", "-m"), "python3": ("-c", "-m"),
    "R": ("-e",), "Rscript": ("-e",), "ruby": ("-e", "-r", "-I"), "scala": ("-e",), "swipl": ("-g", "-t"), "tclsh": (),
    "wish": (), "expect": ("-c",), "ts-node": ("-e",),
}
_SMALL_LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "awk": ("-e", "-f", "--source", "--file", "-i", "-l"), "gawk": ("-e", "-f", "--source", "--file", "-i", "-l"),
    "mawk": ("-f",), "nawk": ("-f",), "original-awk": ("-f",), "sed": ("-e", "-f", "--expression", "--file"),
    "bc": (), "dc": ("-e", "-f"), "jq": ("-f", "--from-file", "-L"),
}
INTERPRETERS: frozenset[str] = frozenset({*_SHELLS, *_LANGUAGES})
"""Programs that run whole programs."""
CODE_OPTIONS: Mapping[str, tuple[str, ...]] = {**_SHELLS, **_LANGUAGES, **_SMALL_LANGUAGES}
"""Options after which such a program reads or loads code. Without one, its first plain argument is code or a file with code."""
STARTERS: Mapping[str, int | None] = {
    **dict.fromkeys(("busybox", "env", "ionice", "nice", "nohup", "setsid", "stdbuf", "time", "command", "exec"), 0),
    "timeout": 1, "flock": 1,
    **dict.fromkeys((
        "at", "batch", "bwrap", "chpst", "chroot", "crontab", "docker", "ed", "emacs", "entr", "eval", "ex", "find",
        "firejail", "gdb", "git", "gmake", "gnuplot", "kubectl", "less", "ltrace", "m4", "make", "man", "more", "mysql",
        "nc", "ncat", "nmap", "nsenter", "nvim", "parallel", "podman", "psql", "rsync", "run-parts", "scp", "screen",
        "script", "sftp", "socat", "sqlite3", "ssh", "start-stop-daemon", "strace", "systemd-run", "tar", "tcpdump", "tmux",
        "unshare", "vi", "vim", "watch", "xargs", "zip",
    ), None),
}
"""Programs that can start another one: the number of arguments before it, or None where arguments can start one anywhere."""
POWER = frozenset({
    "chattr", "chgrp", "chmod", "chown", "chroot", "dd", "doas", "fdisk", "insmod", "iptables", "kexec", "kill", "killall",
    "losetup", "mkfs", "modprobe", "mount", "nft", "nsenter", "pkexec", "pkill", "reboot", "rm", "rmmod", "runuser",
    "setcap", "shred", "shutdown", "su", "sudo", "swapoff", "sysctl", "systemctl", "umount", "unshare", "useradd",
    "usermod",
})
WRITERS = frozenset({"cp", "install", "ln", "mkfifo", "mknod", "mv", "rmdir", "tee", "truncate", "unlink"})
NETWORK = frozenset({
    "curl", "dig", "ftp", "git", "host", "lynx", "nc", "ncat", "netcat", "nmap", "nslookup", "ping", "rsync", "scp", "sftp",
    "socat", "ssh", "telnet", "tftp", "wget", "whois",
})
# fmt: on
STARTING_OPTIONS = re.compile(
    r"^-{1,2}(\w+-)*(exec|command|cmd|program|prog|shell|rsh|eval|script|pager|editor|hook|filter|plugin|preload|action|askpass|loader"
    r"|library|pack|load|require|import)(-\w+)*(=.*)?$|^(\w*COMMAND|LD_\w+|PYTHON\w+|PATH|IFS|BASH_ENV|ENV|SHELL|EDITOR|PAGER)=",
    re.IGNORECASE,
)
"""Options and variables that by their names start a program or load code."""
_VERSION = re.compile(r"[-.]?\d[\d.]*$")


def name_of(program: str) -> str:
    """Returns the name of a program without its folder and version: `python3.11` is `python`."""
    name = program.rpartition("/")[2]
    return name if name in CODE_OPTIONS or name in STARTERS else _VERSION.sub("", name) or name
