"""Commands that are always refused, with a reason that the model reads: those that destroy the machine that they run on.

This list is a friendly message that comes early. It holds nobody off who hides a command from it: that is the sandbox's task, in
which none of these commands does any harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from toolcaddie.tools.commands.spellings import TooMuchTextError, commands_in


def forbidden(command: str) -> str:
    """Returns the reason why a command line is always refused; empty: it is not."""
    dense = re.sub(r"\s+", "", command)
    if any(bomb.search(dense) for bomb in _FORK_BOMBS) or _FORK_WORDS.search(" ".join(command.split())):
        return "it starts copies of itself without end (a fork bomb)"
    try:
        return _of_commands(command)
    except TooMuchTextError as error:
        return str(error)


def _of_commands(command: str) -> str:
    for words in commands_in(command):
        program, arguments = words[0], words[1:]
        check = _CHECKS.get(program) or (_formats if _FORMATS.fullmatch(program) else None)
        reason = (check(arguments) if check else "") or _raw_write(words)
        if reason:
            return reason
    return ""


_FORK_BOMBS = (
    re.compile(r"(?<![\w:.%@+-])([\w:.%@+-]{1,64})\(\)[{(]:?;?\1[|&]+\1"),
    re.compile(r"function([\w:.-]{1,64}?)(?:\(\))?\{:?;?\1[|&]+\1"),
    re.compile(r"(?:\$0|\"\$0\"|\$\{0\})[|&]+(?:\$0|\"\$0\"|\$\{0\})"),
    re.compile(r"while(?:true|:|\[1\]|1|\(1\));?do(?:\$0|\"\$0\"|bash|sh)&"),
)
"""Lines without their white space."""
_FORK_WORDS = re.compile(
    r"\bfork ?(?:\( ?\))? ?while fork\b|\bwhile ?(?:\(? ?(?:1|True|true) ?\)?)? ?[:{]? ?(?:\w{1,30}\.)?fork\b|\bloop ?\{ ?fork\b"
)
"""Programs of perl, Python and Ruby, with single spaces."""
_LONGEST_MODE = 64
"""Characters of permissions, such as `ug+rw`."""
_FORMATS = re.compile(r"mkfs(?:\.\w+)?|mke2fs|mkswap|mkdosfs|mkntfs|newfs(?:_\w+)?|wipefs|blkdiscard|sgdisk|sfdisk")
_DEVICES = re.compile(
    r"/dev/(?!null$|zero$|full$|random$|urandom$|tty$|stdout$|stderr$|stdin$|fd/|pts/|shm/)\S+|/proc/sysrq-trigger"
)


def _options(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the letters of the short options and the long options."""
    short = "".join(word[1:] for word in arguments if re.fullmatch(r"-[A-Za-z]+", word))
    return short, [word for word in arguments if word.startswith("--")]


def _is_root(argument: str) -> bool:
    """Returns whether an argument is `/`, `//`, `/.`, `/*` or another name of everything."""
    return argument.startswith("/") and set(argument.rstrip("*?").split("/")) <= {"", ".", ".."}


def _remove(arguments: Sequence[str]) -> str:
    short, long = _options(arguments)
    recursive = "r" in short.lower() or any("--recursive".startswith(word) and len(word) > 2 for word in long)
    if any("--no-preserve-root".startswith(word) and len(word) > 4 for word in long):
        return "it deletes the whole file system"
    return "it deletes the whole file system" if recursive and any(map(_is_root, arguments)) else ""


def _find(arguments: Sequence[str]) -> str:
    if any(map(_is_root, arguments[:1])) and "-delete" in arguments and len(arguments) <= 4:
        return "it deletes the whole file system"
    return ""


def _permissions(arguments: Sequence[str]) -> str:
    short, long = _options(arguments)
    opens = any(
        re.fullmatch(r"[0-7]?[0-7]{0,2}[2367]|[augo]*[oa][augo]*[+=][rwxXst]*w[rwxXst]*|[+=][rwxXst]*w[rwxXst]*", word)
        for word in arguments
        if len(word) <= _LONGEST_MODE
    )
    recursive = "R" in short or any(word.startswith("--rec") for word in long)
    if (opens or recursive) and any(map(_is_root, arguments)):
        return "it changes the permissions of the whole file system"
    return ""


def _owner(arguments: Sequence[str]) -> str:
    short, long = _options(arguments)
    recursive = "R" in short or any(word.startswith("--rec") for word in long)
    return "it changes the whole file system" if recursive and any(map(_is_root, arguments)) else ""


def _copy_blocks(arguments: Sequence[str]) -> str:
    outputs = [word.removeprefix("of=") for word in arguments if word.startswith("of=")]
    return "it writes to a device" if any(map(_DEVICES.fullmatch, outputs)) else ""


def _device_last(arguments: Sequence[str]) -> str:
    return "it writes to a device" if arguments and _DEVICES.fullmatch(arguments[-1]) else ""


def _device(arguments: Sequence[str]) -> str:
    return "it writes to a device" if any(_DEVICES.fullmatch(word) for word in arguments) else ""


def _formats(arguments: Sequence[str]) -> str:
    return "" if arguments in (["--help"], ["--version"]) else "it creates or erases a file system"


def _stops(arguments: Sequence[str]) -> str:
    return "" if arguments in (["--help"], ["--version"]) else "it stops or restarts the machine"


def _run_level(arguments: Sequence[str]) -> str:
    return "it stops or restarts the machine" if any(word in ("0", "6") for word in arguments) else ""


def _system_control(arguments: Sequence[str]) -> str:
    verbs = {"poweroff", "reboot", "halt", "kexec", "soft-reboot", "emergency", "rescue", "isolate"}
    targets = ("poweroff.target", "reboot.target", "halt.target")
    stops = any(word in verbs - {"isolate"} or word in targets for word in arguments)
    return "it stops or restarts the machine" if stops else ""


def _raw_write(words: Sequence[str]) -> str:
    """Returns the reason to refuse an output that is redirected to a device."""
    for operator, target in pairwise(words):
        if operator == ">" and _DEVICES.fullmatch(target):
            return "it writes to a device"
    return ""


_CHECKS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "chgrp": _owner,
    "chattr": _owner,
    "chmod": _permissions,
    "chown": _owner,
    "cp": _device_last,
    "dd": _copy_blocks,
    "dcfldd": _copy_blocks,
    "find": _find,
    "halt": _stops,
    "init": _run_level,
    "mv": _device_last,
    "poweroff": _stops,
    "reboot": _stops,
    "rm": _remove,
    "setfacl": _owner,
    "shred": _device,
    "shutdown": _stops,
    "systemctl": _system_control,
    "tee": _device,
    "telinit": _run_level,
}
