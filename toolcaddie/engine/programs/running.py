"""Runs the programs of an answer: each call of a program becomes a call of the run, and passes the same gates, limits and trail.

A program that waits for a person is put away with its run: the state has the text of the program and the calls that it made, with
their results. To go on, in this process or another one, it is run again from its beginning with those results. That is exact,
because nothing else determines the course of a program, and it needs no memory image, which would have to be trusted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.control.admission import Admitted
from toolcaddie.control.arguments import checked_arguments
from toolcaddie.control.results.text import utf8_size
from toolcaddie.control.results.truncate import truncated
from toolcaddie.control.visibility import may_use
from toolcaddie.core.errors import InterpreterError
from toolcaddie.core.events import MetaCalled
from toolcaddie.core.programs import Ended, Program, ProgramCall, ProgramLimits, ProgramResult, Waiting
from toolcaddie.core.run import PendingCall, RunState
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Finish, Tool, ToolCall, ToolResult, failed
from toolcaddie.engine.callids import inner_id
from toolcaddie.engine.engine import Run
from toolcaddie.engine.programs.functions import declarations, function_name, functions_in, is_wrapped
from toolcaddie.meta.lookup import unknown_tool
from toolcaddie.ports import ProgramSession, ProgramTool
from toolcaddie.util.log import Logger

log = Logger(__name__)

_UNKNOWN = re.compile(r"Name `(\w+)` used when not defined|name '(\w+)' is not defined")
"""Finds unknown names in the errors of a program."""
_ENDED = "The program was stopped, because one of its calls ended the task."


class Made(Struct, frozen=True, kw_only=True):
    """The calls of an answer and of its programs, with the results so far."""

    state: RunState
    outcomes: list[PendingCall]
    admitted: dict[int, Admitted] = {}
    """The calls that ran, by their index in `outcomes`."""


MakeCalls = Callable[[Run, Made], Awaitable[Made]]
"""Makes all calls that have no result yet."""


def program_tool(run: Run, state: RunState, pending: PendingCall) -> ProgramTool | None:
    """Returns the meta tool of a call whose arguments are a program; None for every other call."""
    if pending.program or pending.call.name not in state.meta:
        return None
    tool = run.engine.meta_tools.get(pending.call.name)
    return tool if isinstance(tool, ProgramTool) else None


async def run_programs(run: Run, made: Made, make_calls: MakeCalls) -> Made:
    """Runs the programs among the calls, one after another, each until it ends or waits for a person."""
    for index, pending in enumerate(made.outcomes):
        tool = program_tool(run, made.state, pending)
        if pending.result is None and tool is not None:
            made = await _run_program(run, made, index, tool, make_calls)
            result = made.outcomes[index].result
            if result is not None:
                await run.emit(MetaCalled(run_id=made.state.run_id, call=pending.call, result=result, added=()))
    return made


async def _run_program(run: Run, made: Made, index: int, tool: ProgramTool, make_calls: MakeCalls) -> Made:
    """Runs one program, and returns the calls with its result, or without it if the program waits."""
    programs, call = run.engine.programs, made.outcomes[index].call
    assert programs is not None, "run_program is offered only if there is an interpreter"
    arguments = checked_arguments(call, run.engine.meta_definition(call.name))
    if isinstance(arguments, ToolResult):
        return _with_outcome(made, index, result=arguments)
    code, most = tool.code(arguments.values), programs.limits.code_bytes
    if utf8_size(code) > most:
        return _with_outcome(made, index, result=failed(f"Not run: a program may have {most:,} bytes.", "limit"))
    began = made.outcomes[index].began
    usable = [each for each in run.context.view if may_use(each, run.context.principal)]
    functions = functions_in(code, usable)
    if not began:
        began = run.engine.gates.clock()
        made = _with_outcome(made, index, began=began)
        stubs = declarations(functions) if programs.check_types else ""
    else:
        stubs = ""  # its types were checked when it began
    program = Program(code=code, stubs=stubs, now=began, seed=_seed(made.state, call), limits=programs.limits)
    try:
        async with programs.interpreter.session(program) as session:
            return await _played(run, made, index, session, functions, make_calls)
    except InterpreterError as error:
        log.exception("program_not_run", run_id=made.state.run_id)
        return _with_outcome(made, index, result=failed(f"The program could not be run: {error}"))


async def _played(
    run: Run, made: Made, index: int, session: ProgramSession, functions: Mapping[str, Tool], make_calls: MakeCalls
) -> Made:
    """Runs a program on until it ends, or until one of its calls waits for a person."""
    parent, programs = made.outcomes[index].call, run.engine.programs
    assert programs is not None
    step = await session.start()
    while isinstance(step, Waiting):
        made = _with_calls(run, made, parent, step.calls, functions)
        if any(item.result is None for item in _calls_of(made, parent)):
            made = await make_calls(run, made)
        outcomes = _calls_of(made, parent)
        if any(item.waiting for item in outcomes):
            return made
        if any(item.result and isinstance(item.result.effect, Finish) for item in outcomes):
            return _with_outcome(made, index, result=ToolResult(content=_ENDED))
        if not all(_is_same(step_call, outcomes[step_call.number]) for step_call in step.calls):
            return _with_outcome(made, index, result=_strayed(outcomes))
        step = await session.go_on(
            {
                each.number: _read(outcomes, each.number, programs.limits, functions.get(each.function))
                for each in step.calls
            }
        )
    return _with_outcome(made, index, result=_result(run, step))


def _with_calls(
    run: Run, made: Made, parent: ToolCall, calls: Sequence[ProgramCall], functions: Mapping[str, Tool]
) -> Made:
    """Adds the calls of a program that are not among the calls of the run yet."""
    known = len(_calls_of(made, parent))
    new = [_pending(run, parent, call, functions) for call in calls if call.number >= known]
    return replace(made, outcomes=[*made.outcomes, *new])


def _pending(run: Run, parent: ToolCall, call: ProgramCall, functions: Mapping[str, Tool]) -> PendingCall:
    """Returns a call of a program as a call of the run. One that cannot be made has a result already."""
    tool, result = functions.get(call.function), None
    if tool is None:
        result = unknown_tool(call.function, run.context.view)
    elif call.args:
        result = failed(f"{call.function} takes its arguments by their names only.", "invalid_arguments")
    arguments = _json(call.arguments)
    if arguments is None:
        result = failed(f"{call.function}: an argument is not JSON.", "invalid_arguments")
    made = ToolCall(
        id=inner_id(parent.id, call.number),
        name=call.function if tool is None else tool.name,
        arguments=arguments or "{}",
    )
    return PendingCall(call=made, program=parent.id, result=result)


def _calls_of(made: Made, parent: ToolCall) -> list[PendingCall]:
    """Returns the calls of a program in the order of their numbers."""
    return [item for item in made.outcomes if item.program == parent.id]


def _is_same(call: ProgramCall, recorded: PendingCall) -> bool:
    """Returns True if a call of a program that is run again is the recorded call."""
    arguments = _json(call.arguments) or "{}"
    return function_name(recorded.call.name) == call.function and recorded.call.arguments == arguments


def _strayed(outcomes: Sequence[PendingCall]) -> ToolResult:
    """Returns the result of a program that took another way when it was run again."""
    names = ", ".join(dict.fromkeys(item.call.name for item in outcomes))
    return failed(f"The program could not go on after its pause, and was stopped. It has called: {names}.")


def _read(outcomes: Sequence[PendingCall], number: int, limits: ProgramLimits, tool: Tool | None) -> ProgramResult:
    """Returns the result of a call as the program reads it: its value, or else its text."""
    result = outcomes[number].result
    assert result is not None, "a program goes on when all its calls have results"
    if result.is_error:
        return ProgramResult(error=result.text)
    value = _value(result)
    if tool is not None and is_wrapped(tool) and isinstance(value, Mapping) and "result" in value:
        value = value["result"]
    size, name = _size(value), outcomes[number].call.name
    if size > limits.result_bytes:
        return ProgramResult(error=f"{name}: its result has {size:,} bytes, a program reads {limits.result_bytes:,}")
    before = sum(_size(_value(item.result)) for item in outcomes[:number])
    if before + size > limits.results_bytes:
        return ProgramResult(error=f"{name}: a program reads {limits.results_bytes:,} bytes of results in all")
    return ProgramResult(value=value)


def _value(result: ToolResult | None) -> Any:
    """Returns the value of a result, or its text if it has none."""
    return None if result is None else result.text if result.structured is None else result.structured


def _size(value: Any) -> int:
    return utf8_size(value) if isinstance(value, str) else len(canonical_json(value))


def _result(run: Run, end: Ended) -> ToolResult:
    """Returns the result of a program as the model reads it: what was printed, and the value of the last line."""
    if end.error:
        text = f"{end.output}{end.error.rstrip()}{_suggestions(end.error, run)}"
        return truncated(failed(text), run.limits.result_bytes)
    value = "" if end.value is None else _json(end.value) or f"(a value of the type {type(end.value).__name__})"
    text = f"{end.output}{value}" or "(The program printed nothing, and its last line has no value.)"
    return truncated(ToolResult(content=text), run.limits.result_bytes)


def _suggestions(error: str, run: Run) -> str:
    """Returns a line for each unknown name of the program with the tool that it may mean."""
    names = dict.fromkeys(match[1] or match[2] for match in _UNKNOWN.finditer(error))
    return "".join(f"\n{unknown_tool(name, run.context.view).text}" for name in names)


def _seed(state: RunState, call: ToolCall) -> int:
    return int.from_bytes(hashlib.sha256(f"{state.run_id}/{call.id}".encode()).digest()[:6], "big")


def _json(value: Any) -> str | None:
    """Returns JSON, or None for a value that JSON cannot hold."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, RecursionError):
        return None


def _with_outcome(made: Made, index: int, **changes: Any) -> Made:
    outcomes = list(made.outcomes)
    outcomes[index] = replace(outcomes[index], **changes)
    return replace(made, outcomes=outcomes)
