"""Reads the transcripts of the providers' APIs as turns: chat completions, Responses and Messages. Items may be dicts or
objects of the SDKs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from toolcaddie.integrations.offering import Turn

_TEXTS = frozenset({"text", "input_text", "output_text"})


def chat_turns(messages: Sequence[Any]) -> list[Turn]:
    """Returns the turns of a conversation in the format of chat completions."""
    turns = []
    for message in messages:
        role = _role(_value(message, "role"))
        functions = [_value(call, "function") for call in _value(message, "tool_calls") or ()]
        calls = tuple((_value(function, "name"), _value(function, "arguments")) for function in functions)
        if role is not None:
            turns.append(Turn(role, _text(_value(message, "content")), calls))
    return turns


def response_turns(items: str | Sequence[Any]) -> list[Turn]:
    """Returns the turns of the input of a request in the format of the Responses API."""
    if isinstance(items, str):
        return [Turn("user", items)]
    turns = []
    for item in items:
        role = _role(_value(item, "role"))
        if _value(item, "type") == "function_call":
            turns.append(Turn("assistant", calls=((_value(item, "name"), _value(item, "arguments")),)))
        elif role is not None:
            turns.append(Turn(role, _text(_value(item, "content"))))
    return turns


def anthropic_turns(messages: Sequence[Any]) -> list[Turn]:
    """Returns the turns of a conversation in Anthropic's format. A message that only brings results of tools is no turn."""
    turns = []
    for message in messages:
        role, content = _role(_value(message, "role")), _value(message, "content")
        used = [] if isinstance(content, str) else [block for block in content if _value(block, "type") == "tool_use"]
        calls = tuple((_value(block, "name"), _value(block, "input")) for block in used)
        text = _text(content)
        if role is not None and (text or calls):
            turns.append(Turn(role, text, calls))
    return turns


def _role(role: Any) -> Literal["user", "assistant"] | None:
    return role if role in ("user", "assistant") else None


def _text(content: str | Iterable[Any] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(_value(part, "text")) for part in content if _value(part, "type") in _TEXTS)


def _value(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)
