"""Approved tools run in a process of their own, with nothing but their arguments, and always leave a result."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.authored.service import Contained, a_tool
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import Sandbox
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.values import AuthoredLimits

pytestmark = pytest.mark.anyio
ANY: dict[str, Any] = {"type": "object", "properties": {}}


async def ran(source: str, arguments: dict[str, Any] | None = None, **limits: Any) -> ToolResult:
    box: Sandbox = Contained()
    tool = a_tool(source=source, parameters=ANY)
    return await running.run(tool, arguments or {}, sandbox=box, limits=AuthoredLimits(**limits))


async def said(code: str, **limits: Any) -> ToolResult:
    """The result of a command that runs this Python."""
    tool = a_tool(source=json.dumps([sys.executable, "-c", code]), of="command", parameters=ANY)
    return await running.run(tool, {}, sandbox=Contained(), limits=AuthoredLimits(**limits))


@pytest.mark.proves("R002-86", "R002-91")
@pytest.mark.parametrize(
    ("returned", "text", "is_error"),
    [
        ("'a b'", "a b", False),
        ("{'a': [1, None]}", '{"a": [1, null]}', False),
        ("None", "null", False),
        ("{'success': True, 'content': 'fine'}", "fine", False),
        ("{'success': False, 'content': 'no such record'}", "no such record", True),
        ("{'success': True, 'content': {'a': 1}}", '{"a": 1}', False),
        ("'é \\ud800'", "é ?", False),
    ],
)
async def test_what_run_returns_is_the_result(returned: str, text: str, is_error: bool) -> None:
    result = await ran(f"def run():\n    return {returned}\n")
    assert (result.text, result.is_error) == (text, is_error)


async def test_arguments_arrive_by_name_as_they_were_called() -> None:
    arguments = {"a": "x\0y é\n", "b": [1, {"c": None}], "d": 1.5}
    result = await ran("def run(**arguments):\n    return arguments\n", arguments)
    assert json.loads(result.text) == arguments


@pytest.mark.proves("R002-93")
async def test_arguments_that_begin_with_an_underscore_are_not_passed_on() -> None:
    result = await ran("def run(**arguments):\n    return sorted(arguments)\n", {"a": 1, "_b": 2, "__c": 3})
    assert result.text == '["a"]'


async def test_an_exception_is_a_failure_with_its_line_and_without_our_own_lines() -> None:
    result = await ran("def run():\n    return 1 / 0\n")
    assert (result.is_error, result.error) == (True, "failed")
    assert "ZeroDivisionError" in result.text
    assert "line 2, in run" in result.text
    assert "harness" not in result.text


@pytest.mark.parametrize("source", ["x = 1", "def run(a): ...", "import nothing_there", "raise SystemExit(3)"])
async def test_a_tool_without_a_usable_run_fails(source: str) -> None:
    assert (await ran(source)).is_error


async def test_what_a_tool_prints_is_no_result_unless_it_fails() -> None:
    assert (await ran("def run():\n    print('aside')\n    return 'result'\n")).text == "result"
    assert "aside" in (await ran("def run():\n    print('aside')\n    raise ValueError\n")).text


async def test_a_tool_may_be_a_coroutine() -> None:
    assert (await ran("async def run():\n    return 'done'\n")).text == "done"


@pytest.mark.proves("R002-91")
async def test_a_tool_that_takes_too_long_is_ended() -> None:
    result = await ran("def run():\n    while True:\n        pass\n", seconds=0.5)
    assert (result.is_error, result.error) == (True, "timeout")


async def test_a_tool_sees_no_variable_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret-value")
    result = await ran("import os\ndef run():\n    return dict(os.environ)\n")
    assert "secret-value" not in result.text


async def test_long_outputs_are_cut_with_a_note() -> None:
    result = await said("print('x' * 300_000)", output_bytes=1_000)
    assert result.text.startswith("x" * 1_000)
    assert "300,001 bytes" in result.text


@pytest.mark.proves("R002-91")
async def test_a_command_that_fails_says_what_it_wrote_to_its_error_output() -> None:
    result = await said("import sys; print('half'); sys.exit('no such thing')")
    assert result.is_error
    assert "exit status 1" in result.text
    assert "no such thing" in result.text
    assert "half" in result.text


@pytest.mark.proves("R002-91")
@pytest.mark.parametrize(
    ("output", "text", "is_error"),
    [
        ('{"success": true, "content": "fine"}', "fine", False),
        ('{"success": false, "content": "no"}', "no", True),
        ('{"success": "yes", "content": "no"}', '{"success": "yes", "content": "no"}', False),
        ('{"success": true}', '{"success": true}', False),
        ("[" * 5_000, "[" * 5_000, False),
        ("plain", "plain", False),
    ],
)
async def test_an_output_is_an_answer_if_it_has_the_form_of_one_and_text_otherwise(
    output: str, text: str, is_error: bool
) -> None:
    result = await said(f"import sys; sys.stdout.write({output!r})")
    assert (result.text, result.is_error) == (text, is_error)


@pytest.mark.proves("R002-92")
async def test_a_command_without_a_value_for_a_placeholder_is_not_run(tmp_path: Path) -> None:
    tool = a_tool(source=json.dumps(["touch", str(tmp_path / "made"), "{{text}}"]), of="command")
    result = await running.run(tool, {}, sandbox=Contained(), limits=AuthoredLimits())
    assert (result.error, os.listdir(tmp_path)) == ("invalid_arguments", [])
    assert "{{text}} has no value" in result.text


async def test_a_default_of_the_schema_is_the_value_of_a_missing_argument() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string", "default": "a b"}}}
    tool = a_tool(source="echo {{text}}", of="command", parameters=schema)
    assert (await running.run(tool, {}, sandbox=Contained(), limits=AuthoredLimits())).text == "a b\n"
