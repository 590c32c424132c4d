"""Marks claims of an answer: sentences which say that something was done, although no call that could have done it succeeded.

`control/claims/` decides; this file collects the calls of the run and of the earlier conversation for it. Calls of the caller's
own tools count too, because their results are messages of the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolcaddie.control.claims.judging import Evidence, is_confirmation, unsupported
from toolcaddie.control.claims.statements import statements_of
from toolcaddie.control.claims.support import PastCall
from toolcaddie.core.catalog import View
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import EXECUTE_TOOL, LOOKING, META_TOOLS, READ_RESULT, RUN_PROGRAM
from toolcaddie.core.run import RunResult
from toolcaddie.core.tool import ToolCall

_CHARACTERS = 8_000
"""Characters of arguments, results and requests that are read."""
_CALLS = 50
"""The largest number of calls that are looked at, the latest ones."""
_REQUESTS = 3
"""The largest number of the user's messages that are read, if the last ones only confirm something."""
_ANSWERS = 20
"""The largest number of earlier answers that are read."""
_OWN_BLOCKS = frozenset(
    {
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "message",
        "reasoning",
        "function_call",
        "output_text",
        "web_search_call",
        "file_search_call",
        "web_search_tool_result",
    }
)
"""Types of blocks of an answer behind which no action of the provider can be."""
_ERROR = re.compile(
    r"\s*(?:error\b|failed\b|\{\s*\"(?:error|is_?error)\"\s*:(?!\s*(?:null|false|\"\")))", re.IGNORECASE
)
"""Beginning of a result that a client could not mark as an error, because its API has no mark for it."""


def with_claims(result: RunResult, view: View) -> RunResult:
    """Returns the result with the claims of its answer that no call supports. Only the text of a model's finished answer is
    judged, not a typed answer, the result of a direct call, or the text beside calls that the caller still has to make."""
    if result.status != "completed" or result.state.without_model or result.output is not None:
        return result
    statements = statements_of(result.text)
    if not statements:
        return result
    claims = unsupported(statements, _evidence(result, view))
    return replace(result, unsupported_claims=claims) if claims else result


def _evidence(result: RunResult, view: View) -> Evidence:
    state = result.state
    history, own = state.messages[: state.first_new], state.messages[state.first_new :]
    made = [*_calls(history, view, is_own=False), *_calls(own, view, is_own=True)]
    calls = (*made[-_CALLS:], *(_call(name, "", "", view) for name in state.succeeded))
    has_calls = any(message.tool_calls for message in history)
    answers = [message.text for message in history if message.role == "assistant"]
    return Evidence(
        calls=calls, asked=_asked(history), tried=_has_tried(own), earlier=() if has_calls else answers[-_ANSWERS:]
    )


def _has_tried(messages: Sequence[Message]) -> bool:
    """Returns True if a call failed or was refused, apart from a search for tools."""
    made = {call.id: call for message in messages for call in message.tool_calls}
    failures = (made.get(message.tool_call_id or "") for message in messages if message.is_error)
    return any(call is not None and call.name not in LOOKING for call in failures)


def _asked(history: Sequence[Message]) -> str:
    """Returns the last request. If it only confirms what was said before ("yes, do it"), that belongs to it."""
    texts: list[str] = []
    requests = 0
    for message in reversed(history):
        if message.role not in ("user", "assistant") or not message.text:
            continue
        text = message.text[:_CHARACTERS]
        texts.append(text)
        if message.role == "user":
            requests += 1
            if requests == _REQUESTS or not is_confirmation(text):
                break
    return "\n".join(reversed(texts))[-_CHARACTERS:]


def _calls(messages: Sequence[Message], view: View, *, is_own: bool) -> Iterator[PastCall]:
    """Yields the successful calls of these messages. `is_own`: True for the messages of this run, whose programs list their calls
    in the state."""
    made: dict[str, ToolCall] = {}
    for message in messages:
        if message.native and any(block.get("type") not in _OWN_BLOCKS for block in message.native):
            yield PastCall(tool="")  # the provider may have run something itself
        for call in message.tool_calls:
            made[call.id] = call
        call_made = made.get(message.tool_call_id or "")
        if call_made is None or message.is_error or message.role not in ("tool", "function"):
            continue
        text = message.text[:_CHARACTERS]
        if _ERROR.match(text):
            continue
        name = call_made.name
        if name == RUN_PROGRAM:
            yield PastCall(tool=name, read_only=True, result=text) if is_own else PastCall(tool="")
        elif name == EXECUTE_TOOL:
            yield _call(_executed(call_made), call_made.arguments[:_CHARACTERS], text, view)
        elif name not in META_TOOLS and name != READ_RESULT:
            yield _call(name, call_made.arguments[:_CHARACTERS], text, view)


def _executed(call: ToolCall) -> str:
    """Returns the name of the tool that a call of `execute_tool` runs; empty: it cannot be read."""
    try:
        name = json.loads(call.arguments)["tool_name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""


def _call(name: str, arguments: str, result: str, view: View) -> PastCall:
    tool = view.get(name)
    if tool is None:
        return PastCall(tool=name, arguments=arguments, result=result)
    read_only = False if tool.annotations.destructive else tool.annotations.read_only
    return PastCall(tool=name, description=tool.description, read_only=read_only, arguments=arguments, result=result)
