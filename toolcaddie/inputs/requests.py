"""Reads the messages, tool definitions and options of `Runtime.run` and similar methods, as callers write them in Python.

Everything unambiguous is accepted. Anything else is a `RequestError` that names the argument and shows the right form. It is
raised before anything is sent. `RunRequest` is Toolcaddie's own type for a request; the options are its fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from toolcaddie.core.bots import MODES, Inherited
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import CatalogError, RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, Transcript
from toolcaddie.core.tool import CLIENT_SOURCE, JsonObject, Tool
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names, did_you_mean
from toolcaddie.wires.chat.messages import read_definition, read_message

RequestInput = str | Message | JsonObject | Sequence[Message | JsonObject] | RunRequest | None
"""A text or message of the user, a conversation (`Message`s or OpenAI's dicts) or a whole request."""

_OPTIONS = tuple(item.name for item in fields(RunRequest))
"""Names of all options."""
_INSTEAD: Mapping[str, str] = {
    "tools": "functions belong to the runtime, Runtime(sources=[...]); definitions of tools that you run yourself are "
    "client_tools=[...]",
    "functions": "functions belong to the runtime, Runtime(sources=[...])",
    "stream": "use runtime.stream(...)",
    "system": "a system prompt is a message: messages=[{'role': 'system', 'content': ...}, ...]",
    "prompt": "the text is the first argument: run('...')",
    "user": "the caller is principal=Principal(id='...')",
    "user_id": "the caller is principal=Principal(id='...')",
    "bot": "the bot is part of the principal: principal=Principal(bot='...')",
    "provider": "the provider belongs to the runtime, Runtime(provider=...)",
    "conversation_id": "it is conversation='...'",
    "session": "it is conversation='...'",
    "instructions": "instructions belong to the runtime, Runtime(instructions='...')",
    "system_prompt": "it belongs to the runtime, Runtime(instructions='...')",
    "output_type": "it is output=...",
    "response_model": "it is output=...",
    "deps": "it is dependencies=[...]",
    "context": "objects that tools take are dependencies=[...]; arguments of every call are injected={...}",
}
"""Options that do not exist but that newcomers expect -> advice for the error message."""
_PARAMS = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        "stop",
        "response_format",
        "reasoning_effort",
    }
)
"""Parameters of a model's API, which callers might write as options."""
_TEXT, _TEXT_OR_NONE, _FLAG = (str,), (str, type(None)), (bool,)
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "principal": ((Principal,), "principal=Principal(id='maria')"),
    "model": (_TEXT_OR_NONE, "model='gpt-5-mini'"),
    "preset": (_TEXT_OR_NONE, "the name of one, preset='keyword'; a Preset of your own goes to Runtime(preset=...)"),
    "use_catalog": (_FLAG, "use_catalog=False"),
    "params": ((dict, Mapping), "params={'temperature': 0.2}"),
    "headers": ((dict, Mapping), "headers={'x-team': 'desk'}"),
    "conversation": ((*_TEXT_OR_NONE, Transcript), "conversation='desk-7'"),
    "window": (_TEXT, "window='after-monday'"),
    "mode": (_TEXT, "mode='autonomous'"),
    "inherited": ((Inherited,), "inherited=Inherited(tools=('search',))"),
    "recalled": (_FLAG, "recalled=True"),
    "durable": (_FLAG, "durable=True"),
    "cache_key": (_TEXT, "cache_key='desk-7'"),
    "remember": (_FLAG, "remember=False"),
    "essential": ((dict, Mapping), "essential={'lookup_policy': 'why it must be there'}"),
    "injected": ((dict, Mapping), "injected={'_chatId': '7'}"),
    "run_id": (_TEXT_OR_NONE, "run_id='run_7'"),
    "max_tools": ((int, type(None)), "max_tools=24"),
}
"""Options that are one value -> the allowed types, and an example for the error message."""
_LISTS: Mapping[str, str] = {
    "client_tools": "a list of definitions",
    "delivered": "delivered=result.state.delivered",
    "disabled_tools": "disabled_tools=['send_invoice']",
    "categories": "categories=['members']",
    "tags": "tags=['collab_safe']",
    "dependencies": "dependencies=[Database(...)]",
}
"""Options that are lists -> an example for the error message."""
_MAY_BE_NONE = frozenset({"categories", "tags"})
_CHECKED = (*_KINDS, *_LISTS)
_checked_values = attrgetter(*_CHECKED)


def request_from(argument: RequestInput, options: Mapping[str, Any]) -> RunRequest:
    """Returns the request that a text, a message, a conversation or a `RunRequest` stands for. `options` override its fields.

    If `messages` is among the options, a text or a message is appended to that conversation.
    Raises `RequestError` naming the argument at fault.
    """
    _refuse_unknown(options)
    if isinstance(argument, RunRequest):
        request = replace(argument, **options) if options else argument
    elif argument is None:
        if "messages" not in options:
            raise RequestError("there is nothing to answer; pass a text or messages=[...]", param="messages")
        request = RunRequest(**options)
    else:
        own = messages_from(argument, param="request")
        history = messages_from(options["messages"]) if "messages" in options else ()
        others = {name: value for name, value in options.items() if name != "messages"}
        request = RunRequest(messages=(*history, *own), **others)
    return _in_own_types(request)


def messages_from(argument: Any, *, param: str = "messages") -> tuple[Message, ...]:
    """Returns a text, a message or a sequence of messages as `Message`s. Raises `RequestError` naming the item at fault. `param`:
    the name of the argument, for error messages."""
    if isinstance(argument, str):
        return (Message(role="user", content=argument),)
    if isinstance(argument, Message):
        return (argument,)
    if isinstance(argument, Mapping):
        if "role" not in argument:
            hint = f"; write {param}=body['messages']" if "messages" in argument else ""
            raise RequestError(f"{param}: a dict without a role is not a message{hint}", param=param)
        return (_message(argument, param),)
    if not isinstance(argument, Iterable) or isinstance(argument, bytes):
        raise RequestError(
            f"{param} must be a text or a list of messages, not {_article(argument)}; write "
            "[{'role': 'user', 'content': '...'}]",
            param=param,
        )
    return tuple(_message(item, f"{param}[{place}]") for place, item in enumerate(argument))


def _message(value: Any, where: str) -> Message:
    """Returns a `Message`, or a dict in OpenAI's format, as a `Message`. `where`: its place, for error messages."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{where} must be a Message or a dict with role and content, not {_article(value)}", param=where
        )
    return read_message(value, where, by_hand=True)


def tool_of(definition: Any, *, at: int = 0, param: str = "tools") -> Tool:
    """Returns the tool of a definition in OpenAI's chat format. The model gets the definition unchanged.

    `at` is its index in the argument `param`, for error messages. Raises `CatalogError`.
    """
    try:
        return read_definition(definition, f"{param}[{at}]")
    except RequestError as error:
        raise CatalogError(str(error)) from error


# ---------------------------------------------------------------- options


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    """Raises `RequestError` with advice for the first option that does not exist."""
    for name in options:
        if name in _OPTIONS:
            continue
        if name in _PARAMS:
            raise RequestError(f"{name} is a parameter of the model; write params={{{name!r}: ...}}", param=name)
        close = close_names(name, _OPTIONS, limit=1)
        advice = _INSTEAD.get(name) or (f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_OPTIONS)}")
        raise RequestError(f"there is no option {name!r}; {advice}", param=name)


def _in_own_types(request: RunRequest) -> RunRequest:
    """Returns the request with its messages and tools converted to `Message`s and `Tool`s. Most requests need no conversion and
    are returned unchanged."""
    # A list is made first, because a tuple made of an iterator leaves memory in the interpreter's free lists with every request.
    kinds = tuple([type(value) for value in _checked_values(request)])
    if wrong := _wrong_option(kinds):
        raise RequestError(wrong[1], param=wrong[0])
    if request.mode not in MODES:
        raise RequestError(f"there is no mode {request.mode[:64]!r}; {did_you_mean(request.mode, MODES)}", param="mode")
    most = request.max_tools
    if most is not None and (isinstance(most, bool) or most < 0):
        raise RequestError(
            f"max_tools is {most!r}; write 0 or more, or None for the limit of the preset", param="max_tools"
        )
    changed: dict[str, Any] = {}
    if not _all_are(request.messages, Message):
        changed["messages"] = messages_from(request.messages)
    if not _all_are(request.client_tools, Tool):
        changed["client_tools"] = tuple(_client_tool(tool, place) for place, tool in enumerate(request.client_tools))
    return replace(request, **changed) if changed else request


@lru_cache(maxsize=256)
def _wrong_option(kinds: tuple[type, ...]) -> tuple[str, str] | None:
    """Returns the first option whose value has the wrong type, and its error message; None: all types are right.

    `kinds`: the type of the value of each option in `_CHECKED`. Applications pass the same types again and again, so each
    combination is checked only once.
    """
    for name, kind in zip(_CHECKED, kinds, strict=True):
        if name in _KINDS:
            allowed, form = _KINDS[name]
            if not issubclass(kind, allowed):
                return name, f"{name} cannot be {_article(kind)}; write {form}"
        elif not (kind is type(None) and name in _MAY_BE_NONE) and (
            issubclass(kind, str | Mapping) or not issubclass(kind, Collection)
        ):
            return name, f"{name} must be a list, not {_article(kind)}; write {_LISTS[name]}"
    return None


def _all_are(values: Any, kind: type) -> bool:
    return isinstance(values, list | tuple) and set(map(type, values)) <= {kind}


def _client_tool(definition: Any, at: int) -> Tool:
    """Returns the tool of a definition in `client_tools`, tools that the caller runs itself. `at`: its index, for error
    messages."""
    if isinstance(definition, Tool):
        return replace(definition, source=CLIENT_SOURCE) if definition.source == "local" else definition
    if callable(definition):
        raise RequestError(
            f"client_tools[{at}] is a function; functions are run here, so pass them to Runtime(sources=[...])",
            param="client_tools",
        )
    try:
        return tool_of(definition, at=at, param="client_tools")
    except CatalogError as error:
        raise RequestError(str(error), param="client_tools") from error


def _article(value: Any) -> str:
    """Returns the class name of a value with its article, for the end of a sentence."""
    kind = value if isinstance(value, type) else type(value)
    if kind is type(None):
        return "None"
    name = kind.__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
