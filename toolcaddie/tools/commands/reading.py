"""Decides whether a command line only reads.

Such a line runs without a question, in a sandbox in which it can write nothing and reach no network. So a mistake here changes
nothing outside the sandbox: at worst a line runs that fails because it cannot write, or a person is asked about a harmless one.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

from toolcaddie.tools.commands.awk import awk_doubt
from toolcaddie.tools.commands.git import git_doubt
from toolcaddie.tools.commands.programs import known_programs, listed_doubt
from toolcaddie.tools.commands.sed import sed_doubt
from toolcaddie.tools.commands.shell import Redirection, SimpleCommand, UnreadableError, Word, read, shell

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROGRAMS = ":".join((*_SYSTEM_FOLDERS, f"{sys.prefix}/bin", f"{sys.base_prefix}/bin"))
"""Folders of the programs that a sandbox shows."""


def doubt(command: str) -> str:
    """Returns the reason why a command line may do more than read; empty: it only reads."""
    try:
        script = read(command)
    except UnreadableError as error:
        return f"it cannot be understood: {error}"
    if len(script.commands) > _MOST:
        return f"it has more than {_MOST} commands"
    if not any(each.words for each in script.commands):
        return "it names no program"
    for name in script.variables:
        if _VARIABLE.fullmatch(name) is None:
            return f"it sets the variable {name}"
    try:
        return next((reason for each in script.commands if (reason := _command_doubt(each))), "")
    except RecursionError:
        return "it has too many programs that run each other"


_MOST = 500
"""Commands of one line that are judged."""
_VARIABLE = re.compile(r"[a-z][a-z0-9_]*|[A-Z]")
"""Variables that no program and no shell reads by itself."""
_HARMLESS_VARIABLE = re.compile(
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|CLICOLOR|BLOCKSIZE|BLOCK_SIZE|POSIXLY_CORRECT"
)
_NOWHERE = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"))


def _command_doubt(command: SimpleCommand) -> str:
    for name, _ in command.assignments:
        if _HARMLESS_VARIABLE.fullmatch(name) is None:
            return f"it sets the variable {name}"
    for redirection in command.redirections:
        if reason := _redirection_doubt(redirection):
            return reason
    return _program_doubt(command.words) if command.words else ""


def _redirection_doubt(redirection: Redirection) -> str:
    target = redirection.target
    if redirection.operator in ("<", "<<<"):
        return f"it reads from {target.text}" if target.text.startswith(("/dev/tcp", "/dev/udp")) else ""
    is_stream = redirection.operator in (">&", "<&") and re.fullmatch(r"[0-9]|-", target.text)
    if target.is_plain and (is_stream or target.text in _NOWHERE):
        return ""
    return f"it writes to {target.text}"


def _program_doubt(words: Sequence[Word]) -> str:
    """Returns the reason why a program with these arguments may do more than read."""
    name, arguments = words[0], words[1:]
    if not name.is_plain:
        return f"its program {name.text} is known only when it runs"
    program = name.text
    for folder in _SYSTEM_FOLDERS:
        program = program.removeprefix(f"{folder}/")
    if program == "[[" and not shell().endswith("bash"):
        return "the shell does not know [["
    if program in _CHECKS:
        return _CHECKS[program](arguments)
    texts = [word.text for word in arguments]
    tells_of_itself = "/" not in program and texts in (["--version"], ["--help"])
    if tells_of_itself or (not texts and _is_absent(program)):
        return ""
    return listed_doubt(program, texts)


def _is_absent(program: str) -> bool:
    """Returns whether there is no such program, so that the shell would only say so. A person may still want to know of a call of
    one with arguments, because these say what the model was after."""
    return (
        re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", program) is not None
        and program not in known_programs().shell
        and shutil.which(program, path=_PROGRAMS) is None
    )


# --- programs that run others -----------------------------------------------------------------------------------------


def _after_options(arguments: Sequence[Word], allowed: str, *, with_value: str = "") -> Sequence[Word] | None:
    """Returns the arguments after the options; None: there is an option that is not among `allowed` (a pattern). Options that
    match `with_value` take the next argument too."""
    at = 0
    while at < len(arguments) and arguments[at].text.startswith("-") and arguments[at].text != "-":
        option = arguments[at].text
        at += 1
        if option == "--":
            break
        if with_value and re.fullmatch(with_value, option):
            at += 1
        elif re.fullmatch(allowed, option) is None:
            return None
    return arguments[at:]


def _run_by(what: str, allowed: str, *, with_value: str = "", skip: int = 0) -> Callable[[Sequence[Word]], str]:
    """Returns the check of a program that runs the program among its arguments, after `skip` arguments of its own."""

    def check(arguments: Sequence[Word]) -> str:
        rest = _after_options(arguments, allowed, with_value=with_value)
        if rest is None:
            return f"{what} has options that are not known to be harmless"
        return _program_doubt(rest[skip:]) if rest[skip:] else ""

    return check


def _env(arguments: Sequence[Word]) -> str:
    rest = _after_options(arguments, r"-i|-0|--null|--ignore-environment|-u\w+|--unset=\w+", with_value=r"-u|--unset")
    if rest is None:
        return "env has options that are not known to be harmless"
    while rest and "=" in rest[0].text:
        name = rest[0].text.partition("=")[0]
        if _HARMLESS_VARIABLE.fullmatch(name) is None:
            return f"it sets the variable {name}"
        rest = rest[1:]
    return _program_doubt(rest) if rest else ""


def _command(arguments: Sequence[Word]) -> str:
    if arguments and arguments[0].text in ("-v", "-V"):
        return ""
    return _run_by("command", "-p")(arguments)


def _xargs(arguments: Sequence[Word]) -> str:
    allowed = r"-[0rtx]+|-[nLPsdIE].+|--null|--no-run-if-empty|--verbose|--max-args=\d+|--max-procs=\d+|--delimiter=.*"
    rest = _after_options(arguments, allowed, with_value=r"-[nLPsdIE]|--max-args|--max-procs|--delimiter")
    if rest is None:
        return "xargs has options that are not known to be harmless"
    program = rest[0].text if rest else "echo"
    if program in ("xargs", "env", "command", "find", "sed", "awk", "git", "timeout", "nice", "stdbuf"):
        return f"xargs gives {program} arguments that are known only when it runs"
    return _program_doubt(rest) if rest else ""


def _find(arguments: Sequence[Word]) -> str:
    at = 0
    while at < len(arguments):
        test = arguments[at].text
        at += 1
        if test in ("-exec", "-execdir"):
            end = next((i for i in range(at, len(arguments)) if arguments[i].text in (";", "+")), None)
            if end is None or end == at:
                return f"find {test} has no end"
            if reason := _program_doubt(arguments[at:end]):
                return reason
            at = end + 1
        elif test in ("-delete", "-ok", "-okdir") or test.startswith(("-fprint", "-fls")):
            return f"find {test} changes files or runs programs"
    return ""


# --- words of the shell and programs with a language of their own -----------------------------------------------------


def _read_builtin(arguments: Sequence[Word]) -> str:
    rest = _after_options(arguments, r"-[rs]+|-[dnNtu].+", with_value=r"-[rs]*[dnNtu]")
    if rest is None or any(not word.is_plain or _VARIABLE.fullmatch(word.text) is None for word in rest):
        return "read sets variables that are not known to be harmless"
    return ""


def _set_builtin(arguments: Sequence[Word]) -> str:
    texts = [word.text for word in arguments]
    while texts and re.fullmatch(r"[-+][eufxo]+|pipefail|errexit|nounset|xtrace|noglob", texts[0]):
        texts = texts[1:]
    return "set changes the shell" if texts else ""


def _printf(arguments: Sequence[Word]) -> str:
    if arguments and arguments[0].text.startswith("-v"):
        name = arguments[0].text[2:] or (arguments[1].text if len(arguments) > 1 else "")
        return "" if _VARIABLE.fullmatch(name) else f"it sets the variable {name}"
    return ""


def _awk(arguments: Sequence[Word]) -> str:
    return awk_doubt([(word.text, word.is_plain) for word in arguments])


def _sed(arguments: Sequence[Word]) -> str:
    return sed_doubt([(word.text, word.is_plain) for word in arguments])


def _tee(arguments: Sequence[Word]) -> str:
    rest = _after_options(arguments, r"-[aip]+|--append|--ignore-interrupts")
    if rest is None or any(not word.is_plain or word.text not in _NOWHERE for word in rest):
        return "tee writes to a file"
    return ""


def _tar(arguments: Sequence[Word]) -> str:
    allowed = (
        r"-?t[vfzjJaO]*|-[tvfzjJ]*t[vfzjJ]*f?|--list|--verbose|--file=.*|--gzip|--bzip2|--xz|-[zjJvf]+|-C|--exclude=.*"
    )
    texts = [word.text for word in arguments]
    lists = bool(texts) and ("--list" in texts or re.fullmatch(r"-?[vfzjJa]*t[vfzjJa]*", texts[0]) is not None)
    if not lists or any(text.startswith("-") and re.fullmatch(allowed, text) is None for text in texts):
        return "tar may write files"
    return ""


def _ip(arguments: Sequence[Word]) -> str:
    objects = r"a|addr|address|l|link|r|ro|route|n|neigh|neighbour|rule|maddr|maddress|-[0-9a-z]+|--?[a-z]+"
    verbs = r"s|sh|show|ls|list|get|dev|up|to|table|all|main|-[a-z0-9]+"
    texts = [word.text for word in arguments]
    at = next((i for i, text in enumerate(texts) if not text.startswith("-")), len(texts))
    if not texts or re.fullmatch(objects, texts[min(at, len(texts) - 1)]) is None:
        return "ip may change the network"
    following = texts[at + 1 : at + 2]
    if any(text.startswith(("-b", "-n", "--n")) for text in texts) or (
        following and not re.fullmatch(verbs, following[0])
    ):
        return "ip may change the network"
    return ""


_CHECKS: Mapping[str, Callable[[Sequence[Word]], str]] = {
    "awk": _awk,
    "command": _command,
    "env": _env,
    "find": _find,
    "gawk": _awk,
    "git": lambda arguments: git_doubt([word.text for word in arguments]),
    "ip": _ip,
    "mawk": _awk,
    "nice": _run_by("nice", r"-\d+|-n-?\d+|--adjustment=-?\d+", with_value="-n|--adjustment"),
    "printf": _printf,
    "read": _read_builtin,
    "sed": _sed,
    "set": _set_builtin,
    "stdbuf": _run_by("stdbuf", r"-[ioe](0|L|\d+\w?)", with_value="-[ioe]"),
    "tar": _tar,
    "tee": _tee,
    "time": _run_by("time", "-[pv]"),
    "timeout": _run_by("timeout", r"-[sk].+|--\w[\w-]*(=.*)?", with_value="-[sk]", skip=1),
    "xargs": _xargs,
}
"""Programs whose arguments need more than a list of options."""
