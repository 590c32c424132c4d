"""Findings in TypeScript source, by its words: the source is not parsed, so a text or a comment counts like code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from toolcaddie.tools.authored.values import Finding

_MODULES = (
    "async_hooks|bun|child_process|cluster|dgram|diagnostics_channel|dns|fs|http|http2|https|inspector|module|net|os|path|perf_hooks"
    "|process|repl|sqlite|test|tls|trace_events|tty|v8|vm|wasi|worker_threads"
)
_REFUSED: Mapping[str, str] = {
    rf"""["'`](node:|bun:)?({_MODULES})(/\w+)?["'`]""": "names a module that reaches the machine or the interpreter",
    r"\bprocess\s*(\.|\[|\?\.)": "uses process, which has the environment, signals and the interpreter",
    r"\beval\b|\bFunction\s*\(|\bnew\s+Function\b|\bAsyncFunction\b|\bGeneratorFunction\b": "makes code out of text",
    r"\bconstructor\b": "reaches a constructor, from which code can be made out of text",
    r"\b(Bun|Deno)\s*[.\[]": "uses the interpreter's own functions for files, processes or the network",
    r"\bchild_process\b|\bexecSync\b|\bspawn(Sync)?\b": "starts a process",
    r"__proto__|\bprototype\b|\bsetPrototypeOf\b|\b__defineGetter__\b": "changes what all objects do",
    r"\bWebAssembly\b": "loads code that nobody can read",
}
_WARNINGS: Mapping[str, str] = {
    r"\brequire\b|\bimport\s*\(|\bimport\.meta\b": "loads other code while it runs",
    r"^\s*(import|export)\b.*\bfrom\b|^\s*import\s+[\"'`]": "imports other code",
    r"\bfetch\b|\bXMLHttpRequest\b|\bWebSocket\b|\bEventSource\b": "needs a network; a tool has none",
    r"\bglobalThis\b|\bglobal\s*[.\[]|\bwindow\s*[.\[]|\bself\s*\[": "reaches the global object",
    r"\bProxy\b|\bReflect\b|\bdefineProperty\b": "runs code where the text does not show it",
    r"while\s*\(\s*(true|1)\s*\)|for\s*\(\s*;\s*;\s*\)": "may never end",
    r"\\u00[0-9a-fA-F]{2}|\\u\{|\\x[0-9a-fA-F]{2}|\batob\b|fromC(har|ode)\w*|Buffer\.from": "makes text that the source hides",
}
_HIDDEN = ("Cc", "Cf", "Co", "Cs")


def findings(source: str) -> Sequence[Finding]:
    """Returns what a reader should look at, by line."""
    return [finding for number, line in enumerate(source.split("\n"), start=1) for finding in _of_line(line, number)]


def _of_line(line: str, number: int) -> Sequence[Finding]:
    problems = [Finding(severity="refused", line=number, text=f"This {text}.") for text in _texts(line, _REFUSED)]
    problems += [Finding(severity="warning", line=number, text=f"This {text}.") for text in _texts(line, _WARNINGS)]
    if any(unicodedata.category(each) in _HIDDEN and each not in "\t\r" for each in line):
        problems.append(Finding(severity="refused", line=number, text="The line has characters that nobody sees."))
    return problems


def _texts(line: str, patterns: Mapping[str, str]) -> Sequence[str]:
    return [text for pattern, text in patterns.items() if re.search(pattern, line)]
