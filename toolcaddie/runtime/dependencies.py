"""Objects that the application hands to tools by type: databases, clients, the session of whoever asks.

Runtime(provider=..., sources=[find_orders], dependencies=[Orders(url)])   # one for all requests
Runtime(provider=..., sources=[find_orders], dependencies=[Session])       # a class: each request gives its own
await runtime.run("...", dependencies=[session])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.run import RunRequest


class Dependencies:
    """The dependencies of one runtime, by their types. Raises `ConfigError` for two dependencies of the same type, and for a type
    such as `str`, whose parameters would look like arguments of the model."""

    def __init__(self, objects: Sequence[Any]) -> None:
        self._values: dict[type, Any] = {}
        self.types: tuple[type, ...] = tuple(dict.fromkeys(map(_type, objects)))
        """The types that tools may ask for."""
        if len(self.types) < len(objects):
            names = [kind.__name__ for kind in map(_type, objects)]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"dependencies: there are two of type {twice}; give each a class of its own")
        for value in objects:
            if not isinstance(value, type):
                self._values[type(value)] = value

    def of(self, request: RunRequest) -> Mapping[type, Any]:
        """Returns the dependencies of one request by type. Raises `RequestError` for an object that no tool takes, and for a
        dependency that neither the runtime nor the request has."""
        if not self.types:
            if request.dependencies:
                raise RequestError(_untaken(request.dependencies[0], ()), param="dependencies")
            return {}
        values = {**self._values, **{self._declared(value): value for value in request.dependencies}}
        missing = [kind.__name__ for kind in self.types if kind not in values]
        if missing:
            raise RequestError(
                f"dependencies: tools take {missing[0]}, and neither the runtime nor the request gives one; write "
                f"dependencies=[{missing[0]}(...)]",
                param="dependencies",
            )
        return values

    def _declared(self, value: Any) -> type:
        exact = type(value)
        kind = exact if exact in self.types else next((kind for kind in self.types if isinstance(value, kind)), None)
        if kind is None:
            raise RequestError(_untaken(value, self.types), param="dependencies")
        return kind


def _type(value: Any) -> type:
    """Returns the type by which tools ask for an object, or the object itself if it is a type. Raises `ConfigError` for a
    built-in type."""
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ == "builtins":
        raise ConfigError(
            f"dependencies: a {kind.__name__} cannot be told from an argument of a tool; wrap it in a class of your own"
        )
    return kind


def _untaken(value: Any, types: Sequence[type]) -> str:
    name = type(value).__name__
    choices = f"there are {', '.join(kind.__name__ for kind in types)}" if types else "there are none"
    return f"dependencies: no tool takes {name} ({choices}); declare it, Runtime(dependencies=[{name}])"
