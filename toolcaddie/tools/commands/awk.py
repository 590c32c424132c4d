"""Judges programs of awk, which can write files and run commands. What it does not know, it doubts.

Awk reads a `/` as a division after a value and as the beginning of a pattern elsewhere. Where the awks that we know differ, the
program is doubted, because a text that one of them takes for a pattern or a string may be a command to another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_OPTIONS = re.compile(
    r"-[Fv].+|--field-separator=.*|--assign=.*|--re-interval|--posix|--traditional|--csv|-k", re.DOTALL
)
_WITH_VALUE = ("-F", "-v", "--field-separator", "--assign")


def awk_doubt(arguments: Sequence[tuple[str, bool]]) -> str:
    """Returns the reason why awk with these arguments may do more than read; empty: it only reads. Each argument comes with
    whether it is known before the command runs."""
    rest = iter(arguments)
    for argument, is_plain in rest:
        if not is_plain:
            return "its awk program is known only when it runs"
        if argument in _WITH_VALUE:
            if not next(rest, ("", True))[1]:
                return "its awk program is known only when it runs"
        elif argument == "--":
            argument, is_plain = next(rest, ("", True))
            return _program_doubt(argument) if is_plain else "its awk program is known only when it runs"
        elif argument.startswith("-") and len(argument) > 1:
            if argument in ("--version", "--help"):
                return ""
            if _OPTIONS.fullmatch(argument) is None:
                return f"awk {argument} is not known to be harmless"
        else:
            return _program_doubt(argument)
    return ""


_WRITES = "its awk program may write a file or run a program"


def _program_doubt(program: str) -> str:
    try:
        tokens = list(_tokens(program))
    except _UnclearError as error:
        return f"its awk program is not understood: {error}"
    return _WRITES if any(token in _DOUBTFUL for token in tokens) or _prints_to_a_file(tokens) else ""


class _UnclearError(ValueError):
    """A program that some awks read in another way, with the reason."""


_DOUBTFUL = frozenset(("system", "|", "|&", "@", ">>", "ARGV", "PROCINFO"))
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_PATTERN = re.compile(r"/((?:[^/\\\n]|\\[^\n])*)/")
_BRACKETS = re.compile(r"\\.|\[\^?(?:\[:\w+:\]|\\.|[^\]\[\\/])+\]")
_TOKEN = re.compile(
    r"(?P<blank>[ \t]+|(?<!\w)\\\n|#[^\n]*)|[A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
    r"|\|\||\|&|&&|>>|[<>=!]=|\+\+|--|[\n!-/:-@\[\]^`{-~]"
)
_VALUE = re.compile(r"[A-Za-z_0-9.].*|[)\]]", re.DOTALL)
"""A token after which a `/` divides."""
_NO_VALUE = frozenset(("print", "printf", "return", "else", "do", "exit", "if", "while", "for"))
"""Words after which a `/` begins a pattern."""
_EITHER = frozenset(
    (
        "getline",
        "length",
        "next",
        "nextfile",
        "break",
        "continue",
        "BEGIN",
        "END",
        "function",
        "func",
        "in",
        "delete",
        "case",
    )
) | {"default", "++", "--", '"', "$", "/"}
"""Tokens after which it may be both."""


def _tokens(program: str) -> Iterator[str]:
    """Yields the tokens of a program: a string as `"`, a pattern as `/`, a division as `÷`, and no
    comments. Raises `_UnclearError`."""
    at = 0
    before = "\n"
    heads: list[bool] = []
    """Whether each open parenthesis holds a condition, after which a statement begins."""
    is_head = False
    """Whether the last token closed such a parenthesis."""
    while at < len(program):
        character = program[at]
        token = character
        if character == '"':
            at = _end(_STRING.match(program, at), "a string has no end")
        elif character == "/" and not _divides(before, is_head=is_head):
            at = _end_of_pattern(program, at)  # its token is `/`
        else:
            match = _TOKEN.match(program, at)
            at = _end(match, f"{character!r} has no meaning in it")
            assert match is not None
            if match["blank"]:
                continue
            token = "÷" if match[0] == "/" else match[0]
        is_head = False
        if token == "(":
            heads.append(before in ("if", "while", "for", "switch"))
        elif token == ")":
            is_head = bool(heads) and heads.pop()
        before = token
        yield token


def _end(match: re.Match[str] | None, problem: str) -> int:
    if match is None:
        raise _UnclearError(problem)
    return match.end()


def _divides(before: str, *, is_head: bool) -> bool:
    if is_head or before in _EITHER:
        raise _UnclearError(f"a / after {before} may be a division or a pattern")
    return before not in _NO_VALUE and _VALUE.fullmatch(before) is not None


def _end_of_pattern(program: str, at: int) -> int:
    match = _PATTERN.match(program, at)
    end = _end(match, "a pattern has no end")
    assert match is not None
    if "[" in _BRACKETS.sub("", match[1]):
        raise _UnclearError("a pattern has a [ whose end is not clear")
    return end


_CONTINUES = frozenset((",", "&&", "||", "?", ":", "{"))
"""Tokens after which a statement goes on in the next line."""


def _prints_to_a_file(tokens: Sequence[str]) -> bool:
    """Returns whether a `>` outside of parentheses follows a `print` in the same statement."""
    depth = 0
    printing: int | None = None
    """The depth of the parentheses around the `print` that is being read."""
    before = ""
    for token in tokens:
        if token in ("print", "printf"):
            printing = depth
        elif token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        elif printing is not None and depth <= printing:
            if token == ">":
                return True
            if token in (";", "}") or (token == "\n" and before not in _CONTINUES):
                printing = None
        before = token
    return False
