"""TypeScript tools: what is refused in their source, and how they run where node is there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.authored.service import Contained, a_tool
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.checks import findings_of
from toolcaddie.tools.authored.values import AuthoredLimits

REFUSED = (
    "process.exit(1)", "globalThis.process['exit'](1)", "import { exec } from 'child_process'", "import fs from 'node:fs'",
    "const p = require('path')", "await import('os')", "import net from `net`", "import 'http'",
    'import vm from "vm"', "eval('1')", "(0, eval)('1')", "new Function('return 1')()",
    "Function('return 1')()", "[].constructor.constructor('a')()",
    "Bun.spawn(['ls'])", "Deno.run({})", "a.__proto__.b = 1", "Object.prototype.a = 1", "new WebAssembly.Module(b)",
    "execSync('ls')", "const a = 1 // \u202e hidden",
)  # fmt: skip
SHOWN = (
    "await fetch('http://127.0.0.1')", "import a from './a'", "while (true) {}", "for (;;) {}", "globalThis['a']",
    "new Proxy(a, b)", "String.fromCharCode(101)", "'\\u0065val'", "atob('ZXZhbA==')", "new WebSocket(a)",
)  # fmt: skip
PLAIN = "export function run({ text }: { text: string }): number {\n  return text.split(/\\s+/).filter(Boolean).length;\n}\n"


def severities(source: str) -> set[str]:
    return {finding.severity for finding in findings_of(a_tool(source=source, of="typescript"))}


@pytest.mark.proves("R002-83")
@pytest.mark.parametrize("source", REFUSED)
def test_ways_to_the_machine_and_to_code_made_of_text_are_refused(source: str) -> None:
    assert "refused" in severities(source)


@pytest.mark.parametrize("source", SHOWN)
def test_what_a_reader_should_look_at_is_shown(source: str) -> None:
    assert severities(source)


def test_an_ordinary_module_is_not_shown() -> None:
    assert not severities(PLAIN)


@pytest.mark.anyio
@pytest.mark.skipif(running.missing("typescript") != "", reason=running.missing("typescript") or "node is there")
@pytest.mark.parametrize(
    ("source", "text", "is_error"),
    [
        (PLAIN, "3", False),
        ("export const run = async ({ text }: any) => ({ success: false, content: text.length })", "5", True),
        ("export const run = () => ({ a: [1] })", '{"a":[1]}', False),
        ("export const run = () => { console.log('aside'); return 'result' }", "result", False),
        ("export const run = () => { throw new Error('no such thing') }", "no such thing", True),
    ],
)
async def test_what_run_returns_is_the_result(source: str, text: str, is_error: bool) -> None:
    tool, limits = a_tool(source=source, of="typescript"), AuthoredLimits()
    result: Any = await running.run(tool, {"text": "a b c", "_hidden": 1}, sandbox=Contained(), limits=limits)
    assert (text in result.text, result.is_error) == (True, is_error), result.text
