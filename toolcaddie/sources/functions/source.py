"""A tool source of Python functions, which may be added and removed while runs are in progress."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import CatalogError, DuplicateToolError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.sources.functions.calling import Outcome, call
from toolcaddie.sources.functions.options import options_of
from toolcaddie.sources.functions.place import place_of
from toolcaddie.sources.functions.signature import Definition, define
from toolcaddie.sources.functions.threads import Threads

Assess = Callable[[str, dict[str, Any], RunContext], Awaitable[Assessment]]
"""Judges a call by the tool's name, its arguments and the context of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    definition: Definition
    threads: Threads[Outcome] = field(default_factory=Threads)


class FunctionSource:
    """Makes tools of functions and runs them. Implements `ports.ToolSource`.

    ```python
    FunctionSource("gym", [freeze, unfreeze], categories=[Category(name="members", keywords=("freeze",))])
    FunctionSource("desk", [FrontDesk(database)])  # an object: its methods marked @tool, or all public ones if none is
    FunctionSource("mine", my_module)  # a module: its functions marked @tool; one thing needs no list
    ```
    Raises `CatalogError` (function, file and line named) for what cannot be a tool, and `DuplicateToolError`.

    `add`, `replace` and `remove` may be called from any thread at any time; each is done whole or not at all.

    `dependencies`: types of objects that the application provides to functions with a parameter of such a type. The runtime
    has the objects themselves (`Runtime(dependencies=[...])`).

    `claims`: reserved names that the tools of this source may have, because the source is part of Toolcaddie.

    `assess`: a function of the tool's name, the arguments and the run's context that judges each call before the policy does.
    """

    def __init__(
        self,
        name: str,
        functions: Any = (),
        categories: Iterable[Category] = (),
        *,
        dependencies: Iterable[type] = (),
        claims: Iterable[str] = (),
        assess: Assess | None = None,
    ) -> None:
        self._name = name
        self._dependencies = tuple(dependencies)
        self.claims = frozenset(claims)
        self._assess = assess
        self._categories = tuple(categories)
        self._changing = threading.Lock()
        # The dictionary is replaced and never changed, so that readers see one state without a lock.
        self._entries: dict[str, _Entry] = {}
        self._tools: tuple[Tool, ...] = ()
        self._revision = 0
        for function in functions if isinstance(functions, Iterable) else [functions]:
            self.add(function)

    @property
    def name(self) -> str:
        return self._name

    @property
    def revision(self) -> int:
        return self._revision

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return self._categories

    def add(self, function: Any) -> tuple[Tool, ...]:
        """Adds a function, an object with methods or a module. Returns its tools, in order.

        Raises `DuplicateToolError` if a name is taken; then nothing is added.
        """
        added = [
            _Entry(definition=define(each, source=self._name, dependencies=self._dependencies))
            for each in _callables(function)
        ]
        with self._changing:
            entries = dict(self._entries)
            for entry in added:
                holder = entries.setdefault(entry.definition.tool.name, entry)
                if holder is not entry:
                    raise DuplicateToolError(
                        f"source {self._name!r} has a tool {entry.definition.tool.name!r} already: "
                        f"{holder.definition.place} and {entry.definition.place}; give one of them another name"
                    )
            self._replace_entries(entries)
        return tuple(entry.definition.tool for entry in added)

    def replace(self, function: Callable[..., Any]) -> Tool:
        """Replaces the function of the same tool name. Raises `CatalogError` if there is none."""
        entry = _Entry(definition=define(function, source=self._name, dependencies=self._dependencies))
        tool = entry.definition.tool
        with self._changing:
            if tool.name not in self._entries:
                raise CatalogError(f"source {self._name!r} has no tool {tool.name!r} to replace; add it")
            self._replace_entries({**self._entries, tool.name: entry})
        return tool

    def remove(self, name: str) -> None:
        """Removes a tool, whose later calls fail as 'revoked'. Raises `CatalogError` if there is none of that name."""
        with self._changing:
            if name not in self._entries:
                raise CatalogError(f"source {self._name!r} has no tool {name!r} to remove")
            self._replace_entries({held: entry for held, entry in self._entries.items() if held != name})

    def needed(self) -> Iterator[tuple[str, str, type]]:
        """Yields tool, parameter and type of each dependency that the functions take."""
        for name, entry in self._entries.items():
            for parameter in entry.definition.parameters:
                if parameter.dependency is not None:
                    yield name, parameter.name, parameter.dependency

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        return NOTHING if self._assess is None else await self._assess(tool.name, arguments, context)

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Runs the function that has this name now."""
        entry = self._entries.get(tool.name)
        if entry is None:
            return failed(f"the tool {tool.name!r} has been withdrawn; do without it", "revoked")
        return await call(entry.definition, entry.threads, arguments, context)

    def _replace_entries(self, entries: dict[str, _Entry]) -> None:
        self._entries = entries
        self._tools = tuple(entry.definition.tool for entry in entries.values())
        self._revision += 1  # last, so that a reader of the new number finds the new tools


def _callables(target: Any) -> Iterator[Callable[..., Any]]:
    """Yields the functions of a function, an object or a module."""
    if isinstance(target, ModuleType):
        marked = [value for value in vars(target).values() if options_of(value) is not None and callable(value)]
        if not marked:
            raise CatalogError(f"module {target.__name__!r} has no function marked @tool")
        yield from {id(value): value for value in marked}.values()  # one function may have two names in its module
    elif isinstance(target, type):
        raise CatalogError(f"{place_of(target)} is a class; hand over an instance of it, {target.__name__}(...)")
    elif inspect.isroutine(target) or options_of(target) is not None:
        yield target
    else:
        yield from _methods(target)


def _methods(target: Any) -> Iterator[Callable[..., Any]]:
    """Yields the methods of an object that become tools: those marked @tool, otherwise the object itself if it is callable,
    otherwise all public methods. Raises `CatalogError` if there are none."""
    methods = [
        (name, getattr(target, name))
        for name in dict.fromkeys(name for kind in reversed(type(target).__mro__) for name in vars(kind))
        if _is_method(inspect.getattr_static(target, name))
    ]
    marked = [method for _, method in methods if options_of(method) is not None]
    if marked:
        yield from marked
    elif callable(target):
        yield target
    else:
        public = [method for name, method in methods if not name.startswith("_")]
        if not public:
            raise CatalogError(
                f"{target!r:.80} is a {type(target).__name__}: neither callable nor an object with methods; "
                "pass a list of functions, or of objects whose methods are tools"
            )
        yield from public


def _is_method(attribute: Any) -> bool:
    """Returns whether an attribute is a method written in Python, or marked @tool; no property is evaluated for it."""
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    return isinstance(attribute, FunctionType) or (callable(attribute) and options_of(attribute) is not None)
