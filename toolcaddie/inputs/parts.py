"""Reads the arguments of `Runtime` and `Picker` in every form that a newcomer may write.

Everything unambiguous is accepted: a name, a single item instead of a list, a plain function. Anything else is a `ConfigError`
that names the argument and the right form. It is raised when the runtime or the picker is made, not by the first request.

A part is an object with a certain interface, such as a policy or a store. A source supplies tools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from toolcaddie.core.approval import EXPIRY_SECONDS
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.presets import Preset, preset
from toolcaddie.core.tool import Tool
from toolcaddie.engine.engine import Programs
from toolcaddie.inputs.requests import tool_of
from toolcaddie.ports import Embedder, RemoteEmbedder, ToolSource
from toolcaddie.registry import SOCKETS, Registry
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.sources.functions.signature import define
from toolcaddie.sources.named import load_catalog

Sources = ToolSource | Callable[..., Any] | str | Sequence[ToolSource | Callable[..., Any] | str]

_FUNCTIONS = "functions"
_PARTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "policy": (("version", "visible", "decide"), "an object with these methods, see ports.Policy"),
    "approver": (("approve",), "an object with these methods, see ports.Approver"),
    "trail": (("emit",), "such as Trail(database.events), see ports.EventSink"),
    "documents": (
        ("get", "get_many", "put", "put_many", "compare_and_set", "delete", "scan", "lease", "holds"),
        "such as database.store, see ports.Store",
    ),
    "meter": (("reserve", "settle"), "such as database.meter, see ports.KeyMeter"),
    "vector_index": (("open", "nearest"), "such as PostgresVectors(url), see ports.VectorIndex"),
    "classifier": (("__call__",), "an async function of messages and view, see ports.Classifier"),
    "experience": (("add", "extend", "past"), "Experience() of toolcaddie.learning"),
    "cache": (("get", "put", "level"), "an object with these methods, see ports.CacheStore"),
    "clock": (("__call__",), "a function that returns seconds, such as time.time"),
}
"""Arguments that are one part -> the members that the part must have, and the end of the error message."""
_LISTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "fallbacks": ((), "providers, see docs/providers.md"),
    "middleware": (("__call__",), "an async function, see ports.Middleware"),
    "sinks": (("emit",), "an object with these methods, see ports.EventSink"),
}
"""Arguments that are a list of parts; values as in `_PARTS`."""
_MAPPINGS = ("rankers", "bots")
"""Arguments that are dicts."""


_OF_A_PRESET = "it belongs to the preset, Runtime(preset=replace(PRESETS['default'], {0}=...))"
_ARGUMENTS: Mapping[str, str] = {
    "tools": "functions and catalogs are Runtime(sources=[...]); definitions without code go to run(..., client_tools=[...])",
    "functions": "functions are Runtime(sources=[...])",
    "catalog": "catalogs are Runtime(sources=['gym'])",
    "api_key": "the key belongs to the provider, Runtime(provider=OpenAIChat(url, api_key))",
    "base_url": "the address belongs to the provider, Runtime(provider=OpenAIChat(base_url, api_key))",
    "system": "instructions of every run are Runtime(instructions='...')",
    "system_prompt": "instructions of every run are Runtime(instructions='...')",
    "store": "the store is Runtime(documents=...)",
    "max_tools": "it belongs to the request, run(..., max_tools=12), or to the budget of the preset",
    **{name: _OF_A_PRESET.format(name) for name in ("limits", "budget", "selection", "delivery")},
}
"""Advice for arguments that `Runtime` does not have but newcomers expect."""


def refuse_unknown(arguments: Collection[str]) -> None:
    """Raises `ConfigError` for the first of these arguments. `Runtime` has none of them."""
    for name in arguments:
        raise ConfigError(
            f"Runtime has no argument {name!r}; {_ARGUMENTS.get(name) or 'help(Runtime) lists all of them'}"
        )


def sources_from(argument: Any, dependencies: Collection[type] = ()) -> list[ToolSource]:
    """Returns the sources that the argument `sources` names: the sources in the list, catalogs by name, and one source that has
    all plain functions.

    `dependencies`: the types of the objects that the runtime passes to functions. Raises `ConfigError` for a wrong item, and for
    a function that takes an object of any other type.
    """
    if (
        isinstance(argument, str | Mapping | Tool | type)
        or callable(argument)
        or _is_source(argument)
        or not _is_list(argument)
    ):
        argument = [argument]
    functions: list[Callable[..., Any]] = []
    sources: list[ToolSource] = []
    for place, item in enumerate(argument):
        if isinstance(item, str):
            sources.append(load_catalog(item))
        elif _is_source(item):
            sources.append(item)
        elif isinstance(item, Mapping | Tool):
            raise ConfigError(
                f"sources[{place}] is a definition without code, so it cannot be run: pass the function itself; or run the tool "
                "yourself and pass its definition with each request, run(..., client_tools=[...]); to select only, use "
                "Picker.of([...])"
            )
        elif item is None or isinstance(item, int | float | bytes | list | tuple | set):
            raise ConfigError(
                f"sources[{place}] is {_called(item)}, not a source: pass a function, a ToolSource or a catalog's name"
            )
        else:
            functions.append(item)  # a function, a module, or an object with methods
    for source in sources:
        _check_needed(source, dependencies)
    return [*sources, FunctionSource(_FUNCTIONS, functions, dependencies=dependencies)] if functions else sources


def _check_needed(source: ToolSource, dependencies: Collection[type]) -> None:
    """Raises `ConfigError` for a function that takes an object of a type which is not among the dependencies."""
    for tool, parameter, kind in source.needed() if isinstance(source, FunctionSource) else ():
        if kind not in dependencies:
            raise ConfigError(
                f"source {source.name!r}: the parameter {parameter!r} of tool {tool!r} takes {kind.__name__}, but there is none; "
                f"write Runtime(dependencies=[{kind.__name__}(...)])"
            )


def tools_from(argument: Any) -> tuple[list[Tool], list[Category]]:
    """Returns the tools to select from, and their categories. `argument` is a source, or a list of `Tool`s, definitions in
    OpenAI's format and functions. Raises `CatalogError` naming the item."""
    if isinstance(argument, str):
        argument = load_catalog(argument)
    if _is_source(argument):
        return list(argument.tools()), list(argument.categories())
    if isinstance(argument, Mapping | Tool) or callable(argument):
        argument = [argument]
    if not isinstance(argument, Iterable):
        raise CatalogError(
            f"tools must be a list of functions, Tools or definitions, not {type(argument).__name__}; or a ToolSource"
        )
    return [_tool(item, place) for place, item in enumerate(argument)], []


def embedder_from(argument: Any) -> Embedder | RemoteEmbedder | None:
    """Returns the embedder: the argument itself, or the installed embedder of that name. Raises `ConfigError`."""
    if argument is None:
        return None
    part = Registry().make("embedder", argument) if isinstance(argument, str) else argument
    if isinstance(part, type):
        raise ConfigError(f"embedder: {part.__name__} is a class; pass an instance, {part.__name__}()")
    if not hasattr(part, "name") or not (hasattr(part, "embed") or hasattr(part, "fetch")):
        raise ConfigError(
            f"embedder: {_called(argument)} is not an embedder; pass an object with name, dimensions and embed(texts), or the "
            "name of an installed embedder, such as 'minilm'"
        )
    missing = [member for member in SOCKETS["embedder"].members if not hasattr(part, member)]
    if missing:
        raise ConfigError(
            f"embedder: {_called(argument)} lacks {', '.join(missing)}; `dimensions` is the length of its vectors, `languages` "
            "are the languages of its model, such as ('english',), or None for all; see ports.Embedder"
        )
    embedder: Embedder | RemoteEmbedder = part
    return embedder


def programs_from(argument: Any) -> Programs | None:
    """Returns what runs programs: the argument itself, an interpreter with the default limits, or the installed interpreter of
    that name. Raises `ConfigError`."""
    if argument is None or isinstance(argument, Programs):
        return argument
    part = Registry().make("interpreter", argument) if isinstance(argument, str) else argument
    if isinstance(part, type) or any(not hasattr(part, member) for member in SOCKETS["interpreter"].members):
        raise ConfigError(
            f"programs: {_called(argument)} is not an interpreter; pass the name of an installed one, such as 'monty', or an "
            "object with session(program) and close(); see ports.Interpreter"
        )
    return Programs(interpreter=part)


def preset_from(argument: Any) -> Preset:
    """Returns the preset: the argument itself, or the preset of that name. Raises `ConfigError`."""
    if isinstance(argument, Preset):
        return argument
    if not isinstance(argument, str):
        raise ConfigError(f"preset must be a name or a Preset, not {_called(argument)}; write preset='keyword'")
    return preset(argument)


def check_parts(**parts: Any) -> None:
    """Raises `ConfigError` for the first of these arguments of `Runtime` that is wrong."""
    for name, value in parts.items():
        if name in _PARTS and value is not None:
            _check(name, value, *_PARTS[name])
        elif name in _LISTS:
            if not _is_list(value):
                example = f"[{value!r}]" if isinstance(value, str) else "[...]"
                raise ConfigError(f"{name} must be a list, not {_called(value)}; write {name}={example}")
            for place, item in enumerate(value):
                _check(f"{name}[{place}]", item, *_LISTS[name])
        elif name in _MAPPINGS and value is not None and not isinstance(value, Mapping):
            raise ConfigError(f"{name} must be a dict, not {_called(value)}; write {name}={{'name': ...}}")
    for name, bot in (parts.get("bots") or {}).items():
        if not hasattr(bot, "disabled_tools"):
            raise ConfigError(f"bots[{name!r}] must be a Bot, not {_called(bot)}; write Bot(disabled_tools=(...))")
    if not isinstance(model := parts.get("model", ""), str):
        raise ConfigError(f"model must be a name, not {_called(model)}; write model='gpt-5-mini'")
    patience = parts.get("patience", 0.0)
    if isinstance(patience, bool) or not isinstance(patience, int | float) or patience < 0:
        raise ConfigError(f"patience is {patience!r}; write seconds, 0 or more")
    expiry = parts.get("approval_expiry", EXPIRY_SECONDS)
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not 0 < expiry < math.inf:
        raise ConfigError(f"approval_expiry is {expiry!r}; write seconds, more than 0")


def _check(name: str, value: Any, needed: Collection[str], hint: str) -> None:
    """Raises `ConfigError` if the argument `name` is a class or lacks a member. `hint`: the right form, for the error message."""
    if isinstance(value, type):
        raise ConfigError(f"{name}: {value.__name__} is a class; pass an instance, {value.__name__}(...)")
    missing = [each for each in needed if not hasattr(value, each)]
    if missing:
        lacks = "is not callable" if missing == ["__call__"] else f"lacks {', '.join(missing)}"
        raise ConfigError(f"{name} cannot be {_called(value)}: it {lacks}; pass {hint}")


def _tool(definition: Any, place: int) -> Tool:
    """Returns the tool of a `Tool`, a definition or a function. `place`: its index in the list, for error messages."""
    if isinstance(definition, Tool):
        return definition
    if isinstance(definition, Mapping) or not callable(definition):
        return tool_of(definition, at=place)
    if isinstance(definition, type):
        raise CatalogError(f"tools[{place}]: {definition.__name__} is a class; pass its methods, or definitions")
    return define(definition, source=_FUNCTIONS).tool


def _is_source(value: Any) -> bool:
    return not isinstance(value, type) and isinstance(value, ToolSource)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _called(value: Any) -> str:
    """Returns a description of a value for an error message."""
    return repr(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
