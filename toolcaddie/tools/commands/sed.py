"""Judges programs of sed, which can write files and run commands. What it does not know, it doubts."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*)"
_SED_PREFIX = re.compile(rf"[\s;]*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?{_ADDRESS}))?)?\s*!?\s*")
_SED_PLAIN = re.compile(r"[=dDgGhHnNpPxlz{}]|[qQ]\d*|[btT:][ \t]*[A-Za-z0-9_]*|[aic]\\?[^\n]*")
_SED_END = re.compile(r"[ \t]*(?:#[^\n]*)?(?=[;\n}]|$)")
_SED_OPTIONS = re.compile(
    r"-[nErsuz]+|--quiet|--silent|--regexp-extended|--null-data|--separate|--unbuffered|--posix|--sandbox|--debug"
)
_SED_FLAGS = re.compile(r"[gpiIMm0-9]*")


_UNKNOWN = "its sed script is known only when it runs"


def sed_doubt(arguments: Sequence[tuple[str, bool]]) -> str:
    """Returns the reason why sed with these arguments may do more than read; empty: it only reads. Each argument comes with
    whether it is known before the command runs."""
    scripts: list[tuple[str, bool]] = []
    operands: list[tuple[str, bool]] = []
    rest = iter(arguments)
    for argument, is_plain in rest:
        if argument in ("-e", "--expression") or re.fullmatch(r"-[nErsuz]+e", argument):
            scripts.append(next(rest, ("", True)))
        elif argument.startswith("--expression="):
            scripts.append((argument.partition("=")[2], is_plain))
        elif _SED_OPTIONS.fullmatch(argument):
            continue
        elif argument.startswith("-") and len(argument) > 1:
            return f"sed {argument} changes files or is not known"
        else:
            operands.append((argument, is_plain))
    if not scripts:
        scripts = operands[:1]
    if not all(is_plain for _, is_plain in scripts):
        return _UNKNOWN
    if all(_is_harmless_sed(script) for script, _ in scripts):
        return ""
    return "its sed script may write a file or run a program, or is not understood"


def _is_harmless_sed(script: str) -> bool:
    at = 0
    while at < len(script):
        prefix = _SED_PREFIX.match(script, at)
        assert prefix is not None
        at = prefix.end()
        if at == len(script):
            return True
        end = _substitution(script, at) if script[at] in "sy" else _plain(script, at)
        if end is None:
            return False
        at = end
    return True


def _plain(script: str, at: int) -> int | None:
    """Returns the end of a command without a file or program; None: it is another one."""
    match = _SED_PLAIN.match(script, at)
    if match is None:
        return None
    if match[0] in "{":
        return match.end()
    end = _SED_END.match(script, match.end())
    return None if end is None else end.end()


def _substitution(script: str, at: int) -> int | None:
    """Returns the end of `s/a/b/flags` or `y/a/b/`; None: it writes, runs a program, or is not understood."""
    delimiter = script[at + 1 : at + 2]
    if not delimiter or delimiter in "\\\n" or delimiter.isalnum():
        return None
    part = rf"(?:[^{re.escape(delimiter)}\\\n]|\\.|\\\n)*"
    match = re.compile(re.escape(delimiter) + (part + re.escape(delimiter)) * 2).match(script, at + 1)
    if match is None:
        return None
    flags = _SED_FLAGS.match(script, match.end())
    assert flags is not None
    end = _SED_END.match(script, flags.end())
    return None if end is None else end.end()
