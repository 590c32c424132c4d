"""Decides whether a command line only reads.

Such a line runs without a question, in a sandbox in which it can write nothing and reach no network. So a mistake here changes
nothing outside the sandbox: at worst a line runs that fails because it cannot write, or a person is asked about a harmless one.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from toolcaddie.sandbox.commands import SYSTEM_FOLDERS
from toolcaddie.tools.commands.awk import awk_doubt
from toolcaddie.tools.commands.git import git_doubt
from toolcaddie.tools.commands.programs import known_programs, listed_doubt
from toolcaddie.tools.commands.sed import sed_doubt
from toolcaddie.tools.commands.shell import Redirection, Script, SimpleCommand, UnreadableError, Word, read, shell

_PROGRAMS = ":".join((*SYSTEM_FOLDERS, f"{sys.prefix}/bin", f"{sys.base_prefix}/bin"))
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
    if reason := _index_doubt(command, has_variables=bool(script.variables) or _reads_variables(script)):
        return reason
    for name in script.variables:
        if _VARIABLE.fullmatch(name) is None:
            return f"it sets the variable {name}"
    try:
        return next((reason for each in script.commands if (reason := _command_doubt(each))), "")
    except RecursionError:
        return "it has too many programs that run each other"


_COMPARES = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge)\s")
_ASKS = re.compile(r"\s-[vR]\s")
_PART = re.compile(r"\w+:[^-+=?].*|\w+:", re.DOTALL)


def _index_doubt(command: str, *, has_variables: bool) -> str:
    """Returns the reason why a shell may run a command that stands in the index of an array, such as `a[$(id)]`: it does so
    where it calculates, also with the values of variables."""
    _, opening, condition = command.partition("[[")
    compares = bool(opening) and _COMPARES.search(condition) is not None
    if (compares or (opening and _ASKS.search(condition))) and re.search(r"\w\[", condition):
        return "it calculates with the index of an array, which may hold commands"
    sums = (piece.partition(")")[0] for piece in command.split("$((")[1:])
    parts = (piece.partition("}")[0] for piece in command.split("${")[1:])
    calculates = compares or any(re.search("[A-Za-z_]", each) for each in sums) or any(map(_PART.fullmatch, parts))
    return "it calculates with variables, whose values may hold commands" if has_variables and calculates else ""


def _reads_variables(script: Script) -> bool:
    return any(each.words and each.words[0].text == "read" for each in script.commands)


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
    for folder in SYSTEM_FOLDERS:
        program = program.removeprefix(f"{folder}/")
    if program == "[[" and not shell().endswith("bash"):
        return "the shell does not know [["
    if program in _LED or program in known_programs().options:
        own = _before_operands(arguments)
        if any(map(_is_uncertain, own)):
            return (
                f"{program} has arguments that are known only when it runs, and with some it writes or runs a program"
            )
    if program in _CHECKS:
        return _CHECKS[program](arguments)
    texts = [word.text for word in arguments]
    tells_of_itself = "/" not in program and texts in (["--version"], ["--help"])
    if tells_of_itself or (not texts and _is_absent(program)):
        return ""
    return listed_doubt(program, texts)


_LED = frozenset(("date", "find", "git", "ip", "tar", "tee", "xxd"))
"""Programs that an option can make write or run something, in addition to those with options in `programs.toml`."""
_CERTAIN = re.compile(
    r"\$(?:\{(?:HOME|PWD|OLDPWD|USER|TMPDIR|SHELL)\}|(?:HOME|PWD|OLDPWD|USER|TMPDIR|SHELL)(?!\w)|[?#$!])"
)
"""Expansions to text that the line cannot choose."""


def _is_uncertain(word: Word) -> bool:
    """Returns whether a word may be an option that is known only when the line runs."""
    if word.is_plain:
        return False
    text = _CERTAIN.sub("/", word.text)
    return text.startswith(("$", "`", "*", "?", "[", "{")) or (word.is_split and re.search(r"[$`]", text) is not None)


def _before_operands(arguments: Sequence[Word]) -> Sequence[Word]:
    """Returns the arguments before `--`, and before the commands that `find` runs, which are judged by themselves."""
    ends = (at for at, word in enumerate(arguments) if word.text in ("--", "-exec", "-execdir"))
    return arguments[: next(ends, len(arguments))]


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
        if _is_uncertain(arguments[at]):
            return None
        at += 1
        if option == "--":
            break
        if with_value and re.fullmatch(with_value, option):
            if any(map(_is_uncertain, arguments[at : at + 1])):
                return None
            at += 1
        elif re.fullmatch(allowed, option) is None:
            return None
    return arguments[at:]


def _run_by(what: str, allowed: str, *, with_value: str = "", skip: int = 0) -> Callable[[Sequence[Word]], str]:
    """Returns the check of a program that runs the program among its arguments, after `skip` arguments of its own."""

    def check(arguments: Sequence[Word]) -> str:
        rest = _after_options(arguments, allowed, with_value=with_value)
        if rest is None or any(map(_is_uncertain, rest[:skip])):
            return f"{what} has options that are not known to be harmless"
        return _program_doubt(rest[skip:]) if rest[skip:] else ""

    return check


def _env(arguments: Sequence[Word]) -> str:
    rest = _after_options(arguments, r"-i|-0|--null|--ignore-environment|-u\w+|--unset=\w+", with_value=r"-u|--unset")
    if rest is None:
        return "env has options that are not known to be harmless"
    while rest and "=" in rest[0].text:
        name = rest[0].text.partition("=")[0]
        if _HARMLESS_VARIABLE.fullmatch(name) is None or _is_uncertain(rest[0]):
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
    if any(mark in program for mark in _marks(arguments[: len(arguments) - len(rest)])):
        return "xargs runs a program that is known only when it runs"
    name = program.rpartition("/")[2]
    ends = name in known_programs().options and any(word.text == "--" for word in rest)
    if _is_led(name) and not ends:
        return f"xargs gives {program} arguments that are known only when it runs"
    return _program_doubt(rest) if rest else ""


def _marks(options: Sequence[Word]) -> Sequence[str]:
    """Returns the texts that xargs replaces with what it reads, also in the name of the program."""
    texts = [word.text for word in options]
    return [text[2:] or "".join(texts[at + 1 : at + 2]) for at, text in enumerate(texts) if text.startswith("-I")]


def _is_led(program: str) -> bool:
    """Returns whether arguments can make a program write a file or run another one."""
    return program in known_programs().options or (program in _CHECKS and program not in ("printf", "test", "["))


def _find(arguments: Sequence[Word]) -> str:
    at = 0
    while at < len(arguments):
        test = arguments[at].text
        at += 1
        if test in ("-exec", "-execdir"):
            end = next((i for i in range(at, len(arguments)) if arguments[i].text in (";", "+")), None)
            if end is None or end == at:
                return f"find {test} has no end"
            words = [replace(word, is_plain=word.is_plain and "{}" not in word.text) for word in arguments[at:end]]
            if reason := _program_doubt(words):
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
    if arguments and (_is_uncertain(arguments[0]) or re.search(r"%[^a-zA-Z%]*n", arguments[0].text)):
        return "printf may set variables (%n)"
    return ""


def _test(arguments: Sequence[Word]) -> str:
    """`test -v NAME` runs the commands in the index of an array."""
    asks = any(word.text in ("-v", "-R") or (_is_uncertain(word) and word.is_split) for word in arguments)
    return "test may run commands in the index of an array" if asks else ""


def _date(arguments: Sequence[Word]) -> str:
    rest = iter(word.text for word in arguments)
    for text in rest:
        if re.fullmatch(r"-[IRu]*[dfr]|--date|--file|--reference", text):
            next(rest, None)
        elif re.match(r"-[IRu]*s|--s", text) or not text.startswith(("+", "-")):
            return "date may set the clock"
    return ""


def _xxd(arguments: Sequence[Word]) -> str:
    operands = 0
    rest = iter(word.text for word in arguments)
    for text in rest:
        if re.match("--?r", text):
            return f"xxd {text} writes a file"
        if re.fullmatch(r"--?(?:c|cols|g|group|groupsize|l|len|n|name|o|offset|R|s|seek|skip)", text):
            next(rest, None)
        elif text == "-" or not text.startswith("-"):
            operands += 1
    return "xxd with two operands writes a file" if operands > 1 else ""


def _pager(program: str) -> Callable[[Sequence[Word]], str]:
    """Returns the check of a program that shows text page by page and runs the commands in an argument such as `+!ls`."""

    def check(arguments: Sequence[Word]) -> str:
        for word in arguments:
            if word.text.startswith("+") and not re.fullmatch(r"\+{1,2}(?:\d+|[gGF]|/[^!|\n]*)", word.text):
                return f"{program} {word.text} may run a program"
        return listed_doubt(program, [word.text for word in arguments])

    return check


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
    "[": _test,
    "command": _command,
    "date": _date,
    "env": _env,
    "find": _find,
    "gawk": _awk,
    "git": lambda arguments: git_doubt([word.text for word in arguments]),
    "ip": _ip,
    "less": _pager("less"),
    "mawk": _awk,
    "more": _pager("more"),
    "nice": _run_by("nice", r"-\d+|-n-?\d+|--adjustment=-?\d+", with_value="-n|--adjustment"),
    "printf": _printf,
    "read": _read_builtin,
    "sed": _sed,
    "set": _set_builtin,
    "stdbuf": _run_by("stdbuf", r"-[ioe](0|L|\d+\w?)", with_value="-[ioe]"),
    "tar": _tar,
    "tee": _tee,
    "test": _test,
    "time": _run_by("time", "-[pv]"),
    "timeout": _run_by("timeout", r"-[sk].+|--\w[\w-]*(=.*)?", with_value="-[sk]", skip=1),
    "xargs": _xargs,
    "xxd": _xxd,
    "zless": _pager("zless"),
    "zmore": _pager("zmore"),
}
"""Programs whose arguments need more than a list of options."""
