"""Judges a call of git: its sub-command, and the options with which a reading sub-command writes or runs another program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from toolcaddie.tools.commands.programs import known_programs


def git_doubt(arguments: Sequence[str]) -> str:
    """Returns the reason why git with these arguments may do more than read; empty: it only reads."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("--version", "--help", "-h", "-v", "--html-path", "--man-path", "--info-path"):
            return ""
        if option == "-C" and rest:
            rest.pop(0)
        elif option not in _HARMLESS:
            return f"git {option} may run programs or write elsewhere"
    if not rest:
        return ""
    command, *rest = rest
    options = [word for word in _before_paths(rest) if word.startswith("-")]
    operands = [word for word in rest if not word.startswith("-")]
    for option in options:
        name = option.partition("=")[0]
        if _runs_or_writes(name) or re.match(_RUNS.get(command, "$."), name):
            return f"git {command} {name} writes a file or runs a program"
    if command in known_programs().git or _SHOWS.fullmatch(command):
        return ""
    check = _CHECKS.get(command)
    return f"git {command} may change something" if check is None else check(options, operands)


def _runs_or_writes(option: str) -> bool:
    """Returns whether an option, or a beginning of it that git takes for it, writes a file or runs a program."""
    if option in ("-x", "--textconv", "--filters"):
        return True
    if len(option) <= len("--") or option == "--text":
        return False
    return any(each.startswith(option) for each in _RUNS_OR_WRITES)


_RUNS: Mapping[str, str] = {"grep": r"-\w*O", "difftool": r"-\w*x", "branch": "--ed|--e$"}
"""Patterns of further such options of a sub-command."""
_HARMLESS = frozenset(
    ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "--bare")
)
_RUNS_OR_WRITES = frozenset(
    (
        "--output",
        "--ext-diff",
        "--extcmd",
        "--open-files-in-pager",
        "--exec",
        "--upload-pack",
        "--textconv",
        "--lost-found",
    )
)
_SHOWS = re.compile(r"show-[a-z-]+")
"""Sub-commands that show something, of git and of packages that extend it."""


def _before_paths(arguments: Sequence[str]) -> Sequence[str]:
    """Returns the arguments before `--`, after which there are only paths."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _branch(options: Sequence[str], operands: Sequence[str]) -> str:
    """Permits to list branches, and to create, rename and delete one where no commit can get lost. Those need `write`; without it
    git says that it cannot write."""
    for option in options:
        forces = re.fullmatch(r"-[a-zA-Z]*[DMCfu][a-zA-Z]*", option) is not None
        if forces or option.startswith(("--force", "--edit", "--set-up", "--unset", "--track")):
            return f"git branch {option} may change something"
    return ""


def _tag(options: Sequence[str], operands: Sequence[str]) -> str:
    lists = any(re.match(r"-l|-n\d*$|--list|--contains|--points-at|--merged|--no-merged", option) for option in options)
    return "" if lists or not (operands or options) else "git tag may change something"


def _one_of(command: str, *verbs: str, bare: bool = False) -> Callable[[Sequence[str], Sequence[str]], str]:
    """Returns the check of a sub-command that only reads with one of these verbs. `bare`: also without a verb."""

    def check(options: Sequence[str], operands: Sequence[str]) -> str:
        verb = operands[0] if operands else ""
        reads = verb in verbs or (bare and not verb)
        return "" if reads else f"git {command} {verb}".rstrip() + " may change something"

    return check


def _config(options: Sequence[str], operands: Sequence[str]) -> str:
    scopes = (
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "-z",
        "--null",
        "--name-only",
    )
    rest = [option for option in options if option not in scopes]
    reads = ("--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch", "--get-color", "--get-colorbool")
    if all(option in reads for option in rest) and (rest or operands[:1] in (["get"], ["list"]) or len(operands) == 1):
        return ""
    return "git config may change settings"


def _help(options: Sequence[str], operands: Sequence[str]) -> str:
    return "git help opens a browser" if any(option.startswith(("-w", "--web")) for option in options) else ""


def _symbolic_ref(options: Sequence[str], operands: Sequence[str]) -> str:
    harmless = all(option in ("--short", "-q", "--quiet") for option in options)
    return "" if harmless and len(operands) == 1 else "git symbolic-ref may change something"


_CHECKS: Mapping[str, Callable[[Sequence[str], Sequence[str]], str]] = {
    "bisect": _one_of("bisect", "log"),
    "branch": _branch,
    "bundle": _one_of("bundle", "list-heads"),
    "config": _config,
    "help": _help,
    "notes": _one_of("notes", "list", "show", bare=True),
    "reflog": _one_of("reflog", "show", "exists", "list", "HEAD", bare=True),
    "remote": _one_of("remote", "get-url", "show", bare=True),
    "stash": _one_of("stash", "list", "show"),
    "submodule": _one_of("submodule", "status", "summary", bare=True),
    "symbolic-ref": _symbolic_ref,
    "tag": _tag,
    "worktree": _one_of("worktree", "list"),
}
