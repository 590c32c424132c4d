"""What the model reads of a command that has ended: its exit code, its output, its errors, and what was cut."""

from __future__ import annotations

from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.ports import Outcome
from toolcaddie.tools.commands.plans import Plan
from toolcaddie.util.replacing import replace

_NO_WRITING = "Read-only file system"
"""What programs say that cannot write in the sandbox."""


def result_of(outcome: Outcome, plan: Plan, *, seconds: float, characters: int) -> ToolResult:
    """Returns the result of a command. It is a success only if the exit code is 0.

    `characters`: how much of both outputs together is shown; `seconds`: the time that the command was given.
    """
    stdout, stderr = (data.decode(errors="replace") for data in (outcome.stdout, outcome.stderr))
    for_stderr = min(len(stderr), max(characters // 2, characters - len(stdout)))
    parts = [
        _ending(outcome, seconds),
        _part("Output", stdout, outcome.stdout_bytes, characters - for_stderr),
        _part("Errors", stderr, outcome.stderr_bytes, for_stderr),
        _hint(outcome, plan),
    ]
    text = "\n\n".join(part for part in parts if part)
    if outcome.exit_code == 0:
        result = ToolResult(content=text)
    else:
        result = failed(text, "timeout" if outcome.ending == "timeout" else "failed")
    return replace(
        result,
        structured={
            "success": outcome.exit_code == 0,
            "exit_code": outcome.exit_code,
            "ending": outcome.ending,
            "stdout": stdout[: characters - for_stderr],
            "stderr": stderr[:for_stderr],
            "stdout_bytes": outcome.stdout_bytes,
            "stderr_bytes": outcome.stderr_bytes,
        },
    )


def _ending(outcome: Outcome, seconds: float) -> str:
    match outcome.ending:
        case "exited":
            return f"Exit code {outcome.exit_code}."
        case "timeout":
            return f"The command was killed after {seconds:g} seconds, with everything that it had started."
        case "memory":
            return "The command was killed because it used more memory than it may."
        case "disk":
            return "The command was killed because it wrote more to the work folder than it may."
        case "killed":
            return "The command was killed."


def _part(name: str, text: str, size: int, characters: int) -> str:
    """Returns an output under its name, cut to so many characters; empty if there is none."""
    if not size:
        return "" if name == "Errors" else "There is no output."
    shown = text[:characters]
    is_whole = len(shown) == len(text) and size <= len(text.encode(errors="replace"))
    cut = (
        ""
        if is_whole
        else f" (the first {len(shown):,} characters of {size:,} bytes; narrow the command to see others)"
    )
    return f"{name}{cut}:\n{shown.rstrip()}"


def _hint(outcome: Outcome, plan: Plan) -> str:
    """Returns what to do about a command that only reads by our judgement, and wanted to write."""
    if not plan.only_reads or outcome.exit_code == 0 or _NO_WRITING.encode() not in outcome.stdout + outcome.stderr:
        return ""
    if plan.argv:
        return "It ran without permission to write."
    return (
        "It ran without permission to write. If it has to, call exec again with write = true; then a person is asked."
    )
