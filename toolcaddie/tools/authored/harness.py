"""Runs a tool of type `python` inside the sandbox: loads `tool.py` beside this file, calls `run` with the arguments of
`arguments.json`, and writes `{"success": ..., "content": ...}` to the standard output.

It is alone there, with the standard library only. What the tool prints goes to the standard error.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def main() -> int:
    """Returns the exit status of the process: 1 if the tool failed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)
    folder = Path(__file__).parent
    try:
        outcome = _called(folder / "tool.py", json.loads((folder / "arguments.json").read_bytes()))
        text = json.dumps(_answer(outcome), ensure_ascii=False)
    except Exception as error:  # noqa: BLE001 (a tool may raise anything, and its caller reads what)
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if line.filename.endswith("tool.py")]
        sys.stderr.writelines([*traceback.format_list(own), *traceback.format_exception_only(error)])
        return 1
    answers.write(text)
    answers.flush()
    return 0


def _called(path: Path, arguments: dict[str, Any]) -> Any:
    spec = importlib.util.spec_from_file_location("tool", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outcome = module.run(**arguments)
    return asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome


def _answer(outcome: Any) -> dict[str, Any]:
    if isinstance(outcome, dict) and set(outcome) == {"success", "content"}:
        return {"success": bool(outcome["success"]), "content": _text(outcome["content"])}
    return {"success": True, "content": _text(outcome)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


if __name__ == "__main__":
    sys.exit(main())
