"""`@tool`, with which the author of a function describes it as a tool.

It only checks options and marks the function; the schema is made later, so that a module full of tools imports fast.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import JsonObject
from toolcaddie.sources.functions.place import place_of

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__toolcaddie__"
"""Attribute of a function that has its options."""


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`: fields of `Tool` and of its annotations, and `output_schema`."""

    name: str
    """The function's own name if omitted."""
    description: str
    """The docstring up to its sections if omitted."""
    title: str
    category: str
    hints: Sequence[str]
    core: bool
    read_only: bool
    destructive: bool
    """False if omitted: a function of the application is trusted to destroy nothing, even if it writes."""
    idempotent: bool
    open_world: bool
    concurrent: bool
    polling: bool
    idempotency_key: str
    scope: str
    roles: Sequence[str]
    tags: Sequence[str]
    timeout: float
    cache_ttl: float
    untrusted: bool
    ends_run: bool
    """True: the function may return `Finish(text=...)`, or a `ToolResult` with this effect, which ends the run with the text."""
    output_schema: bool | JsonObject
    """True: made from the return annotation (anything but an object is wrapped as `{"result": ...}`)."""


@overload
def tool(function: F, /, **options: Unpack[ToolOptions]) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Marks a function, method or other callable as a tool.

    ```python
    @tool
    def freeze(member: str) -> str: ...

    @tool(category="members", hints=["pause"], read_only=False, timeout=5)
    async def freeze(member: str, days: int = 30) -> str: ...

    tool(library.lookup, name="lookup", read_only=True)  # a callable of another package
    ```
    Returns the function itself; one that cannot be marked (a bound method), or is marked already, is returned wrapped.
    Raises `ConfigError` for an option that does not exist or contradicts another one.
    """
    if function is None:
        return functools.partial(_mark, options=options)
    return _mark(function, options)


def options_of(function: Any) -> ToolOptions | None:
    """Returns the options of a callable, or of the function inside a partial; None: it is not marked."""
    options = getattr(function, _MARK, None)
    if options is None and isinstance(function, functools.partial):
        return options_of(function.func)
    return cast("ToolOptions | None", options)


def _mark(function: Any, options: ToolOptions) -> Any:
    """Stores the options in an attribute of the function and returns it. A function that takes no attributes, or that is marked
    already, is returned inside a `functools.partial`."""
    _check(function, options)
    bearer = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    if _MARK in getattr(bearer, "__dict__", {}):  # marked again: a second tool, whose options add to the first ones
        return _mark(functools.partial(function), cast("ToolOptions", {**getattr(bearer, _MARK), **options}))
    try:
        setattr(bearer, _MARK, options)
    except AttributeError:  # bound methods, builtins and slotted objects take no attributes
        return _mark(functools.partial(function), options)
    return function


def _check(function: Any, options: ToolOptions) -> None:
    """Raises `ConfigError` for an object that is no function, and for options that are unknown, wrong or contradict each
    other."""
    if not callable(function) and not isinstance(function, classmethod | staticmethod):
        raise ConfigError(f"@tool marks functions, and {function!r:.80} is not one; write @tool above a function")
    place = place_of(function)
    if isinstance(function, type):
        raise ConfigError(
            f"{place} is a class; mark its methods with @tool and pass an instance of it to FunctionSource"
        )
    for name in options:
        if name not in ToolOptions.__annotations__:
            close = difflib.get_close_matches(name, ToolOptions.__annotations__, n=1)
            advice = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(ToolOptions.__annotations__)}"
            raise ConfigError(f"{place}: @tool has no option {name!r}; {advice}")
    for name in ("hints", "roles", "tags"):
        words = options.get(name)
        if isinstance(words, str) or not all(isinstance(word, str) for word in cast("Sequence[Any]", words or ())):
            raise ConfigError(f"{place}: {name} must be a list of strings, not {words!r}")
    if options.get("read_only") and options.get("destructive"):
        raise ConfigError(f"{place}: a tool cannot be read_only and destructive; drop one of the two")
    if not _is_number(timeout := options.get("timeout", 1.0)) or timeout <= 0:
        raise ConfigError(f"{place}: timeout must be more than 0 seconds, not {timeout!r}")
    if not _is_number(cache_ttl := options.get("cache_ttl", 0.0)) or cache_ttl < 0:
        raise ConfigError(f"{place}: cache_ttl must be 0 seconds or more, not {cache_ttl!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
