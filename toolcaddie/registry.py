"""The registry: it makes the replaceable parts of Toolcaddie, such as tool sources, rankers and model providers.

    registry = Registry()                      # all installed factories, also those of other packages
    registry.add("source", "tickets", tickets) # and a factory of this program
    source = registry.make("source", "tickets", {"url": "https://tickets.example.com"}, Parts())

Each kind of part has a socket, here "source". A factory, a function or a class, makes a part of that kind.

The keyword parameters of a factory are its settings: their names, types and defaults determine what `toolcaddie.toml` and `make`
accept; any other key is refused by name. `**options: Unpack[Options]` stands for the keys of the typed dictionary `Options`. A
parameter `parts` receives the `Parts` of the host, the program that uses the registry. A package declares its factories as entry
points in the group of the socket, and Toolcaddie declares its own in the same way.
"""

from __future__ import annotations

import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from toolcaddie.core.errors import ConfigError, ToolcaddieError
from toolcaddie.parts import Parts
from toolcaddie.util.suggest import did_you_mean

Factory = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A kind of part."""

    name: str
    group: str
    """The entry-point group of installed factories."""
    makes: str
    """The protocol of `toolcaddie.ports` that its parts implement."""
    members: tuple[str, ...] = ()
    """Names of members that each part must have; they are checked when a part is made."""
    per_catalog: bool = False
    """True if the first argument of a factory is a catalog. `make` then returns the factory with its settings bound, and the
    caller passes each catalog to it."""


SOCKETS: Mapping[str, Socket] = {
    socket.name: socket
    for socket in (
        Socket(
            name="source",
            group="toolcaddie.sources",
            makes="ToolSource",
            members=("name", "revision", "tools", "categories", "call_tool"),
        ),
        Socket(name="ranker", group="toolcaddie.rankers", makes="Ranker", per_catalog=True),
        Socket(
            name="embedder", group="toolcaddie.embedders", makes="Embedder", members=("name", "dimensions", "languages")
        ),
        Socket(
            name="provider",
            group="toolcaddie.providers",
            makes="Provider",
            members=("name", "complete", "stream", "models", "close"),
        ),
        Socket(name="sink", group="toolcaddie.sinks", makes="EventSink", members=("emit",)),
        Socket(name="middleware", group="toolcaddie.middleware", makes="Middleware", members=("__call__",)),
        Socket(name="policy", group="toolcaddie.policies", makes="Policy", members=("version", "visible", "decide")),
        Socket(name="approver", group="toolcaddie.approvers", makes="Approver", members=("approve",)),
        Socket(name="classifier", group="toolcaddie.classifiers", makes="Classifier", members=("__call__",)),
        Socket(
            name="store",
            group="toolcaddie.stores",
            makes="Store",
            members=("get", "put", "compare_and_set", "delete", "scan", "append", "lease"),
        ),
        Socket(name="interpreter", group="toolcaddie.interpreters", makes="Interpreter", members=("session", "close")),
        Socket(
            name="sandbox",
            group="toolcaddie.sandboxes",
            makes="Sandbox",
            members=("name", "holds", "run", "start", "facts", "close"),
        ),
        Socket(
            name="state",
            group="toolcaddie.states",
            makes="StatePlugin",
            members=(
                *("name", "description", "attributes", "may_lock_out"),
                *("query", "planned", "effects", "question", "apply", "back_ends", "close"),
            ),
        ),
        Socket(name="cache", group="toolcaddie.caches", makes="CacheStore", members=("get", "put", "level")),
        Socket(name="search", group="toolcaddie.searches", makes="SearchProvider", members=("name", "search", "close")),
        Socket(
            name="reviewer", group="toolcaddie.reviewers", makes="Reviewer", members=("name", "contained", "review")
        ),
        Socket(
            name="telephony",
            group="toolcaddie.telephonies",
            makes="Telephony",
            members=("name", "place", "report", "close"),
        ),
        Socket(
            name="channel",
            group="toolcaddie.channels",
            makes="Channel",
            members=(
                *(
                    "longest",
                    "busy_seconds",
                    "open",
                    "listen",
                    "receive",
                    "send",
                    "show_busy",
                    "picture",
                    "facts",
                    "close",
                ),
            ),
        ),
        Socket(name="meta_tool", group="toolcaddie.meta_tools", makes="MetaTool", members=("name", "definition")),
    )
}
"""Every socket, by its name."""

_GIVEN = frozenset({"parts", "registry"})
"""Parameters of factories that are no settings: the services of the host, and the registry that makes the part, for parts that
consist of other parts."""

_RENAMED = {"toolcaddie.catalogs": "toolcaddie.sources"}
"""Groups of earlier versions. Plugins in one of them are listed with an error and never used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """An installed factory as its package declares it, and the error that makes it unusable."""

    name: str
    group: str
    target: str
    """The factory as `module:attribute`."""
    distribution: str
    """The package that declares the plugin."""
    version: str
    """The version of that package."""
    error: str | None = None
    """The reason why the plugin cannot be used, or None if it can be used."""


class Registry:
    """Finds factories by socket and name. A factory passed to `add` takes precedence over an installed one of the same name."""

    def __init__(self) -> None:
        self._added: dict[tuple[str, str], Factory] = {}

    def add(self, socket: str, name: str, factory: Factory) -> None:
        """Adds a factory; it replaces an installed one of the same name. Raises `ConfigError`."""
        _socket(socket)
        if not callable(factory):
            raise ConfigError(
                f"{socket} {name!r}: a {type(factory).__name__} cannot be called; pass a function or a class that makes the part"
            )
        self._added[socket, name] = factory

    def names(self, socket: str) -> list[str]:
        """Returns the names of the factories of a socket, sorted, without loading the factories."""
        added = {name for kind, name in self._added if kind == socket}
        return sorted(added.union(point.name for point in _points(_socket(socket).group)))

    def plugins(self, socket: str) -> list[Plugin]:
        """Returns every installed plugin of a socket, sorted by name. Each is loaded; if that fails, the error is in
        `Plugin.error` and not raised."""
        group = _socket(socket).group
        plugins: list[Plugin] = []
        targets: dict[str, str] = {}
        for point in sorted(_points(group), key=lambda point: (point.name, point.value)):
            error = f"the name is taken by {targets[point.name]}" if point.name in targets else _try(point)[1]
            targets.setdefault(point.name, point.value)
            plugins.append(_plugin(point, error))
        return plugins + [
            _plugin(point, f"this group was renamed to {group}; rename it in the pyproject.toml of that package")
            for old, new in _RENAMED.items()
            if new == group
            for point in sorted(_points(old), key=lambda point: (point.name, point.value))
        ]

    def factory(self, socket: str, name: str) -> Factory:
        """Returns the factory of that name. Raises `ConfigError` if there is none, or it cannot be loaded."""
        if (socket, name) in self._added:
            return self._added[socket, name]
        group = _socket(socket).group
        points = sorted((point for point in _points(group) if point.name == name), key=lambda point: point.value)
        if not points:
            raise ConfigError(f"no plugin {name!r} in {group}; {self._remedy(socket, name)}")
        factory, error = _try(points[0])
        if error is not None:
            raise ConfigError(f"plugin {name!r} of {group} ({points[0].value}) cannot be loaded: {error}")
        if not callable(factory):
            raise ConfigError(
                f"plugin {name!r} of {group} ({points[0].value}) is a {type(factory).__name__}; "
                "name a function or a class that makes the part"
            )
        return typing.cast(Factory, factory)

    def config_type(self, socket: str, name: str) -> type[msgspec.Struct]:
        """Returns the settings of a factory as a struct, a field for each keyword parameter. Raises `ConfigError`."""
        return config_type(self.factory(socket, name), name=name, per_catalog=_socket(socket).per_catalog)

    def make(self, socket: str, name: str, config: Mapping[str, Any] | None = None, parts: Parts | None = None) -> Any:
        """Returns a part of this socket, made by the factory of that name from these settings. If the socket is `per_catalog`, it
        returns the factory with its settings bound.

        Raises `ConfigError` for an unknown name or key, a value of the wrong type, and any error in the factory.
        """
        factory, place = self.factory(socket, name), f"{socket} {name!r}"
        settings = _checked(place, factory, config or {}, config_type(factory, per_catalog=_socket(socket).per_catalog))
        given = {"parts": parts or Parts(), "registry": self}
        settings |= {each.name: given[each.name] for each in _parameters(factory) if each.name in _GIVEN}
        if _socket(socket).per_catalog:
            return partial(factory, **settings) if settings else factory
        try:
            part = factory(**settings)
        except ToolcaddieError:
            raise
        except Exception as error:  # code of another package: anything it raises is reported with its place
            raise ConfigError(f"{place}: making it failed: {traced(error)}") from error
        _check_members(place, part, _socket(socket))
        return part

    def _remedy(self, socket: str, name: str) -> str:
        group = _socket(socket).group
        for old, new in _RENAMED.items():
            if new == group and any(point.name == name for point in _points(old)):
                return f"it is in the group {old}, which was renamed to {new}; rename it in the pyproject.toml of its package"
        return did_you_mean(name, self.names(socket))


def config_type(factory: Factory, *, name: str = "config", per_catalog: bool = False) -> type[msgspec.Struct]:
    """Returns the settings of a factory as a struct, a field for each named parameter except `parts`, `registry` and the
    catalog."""
    required: list[tuple[str, Any]] = []
    optional: list[tuple[str, Any, Any]] = []
    annotations = _annotations(factory)
    for parameter in _settings_of(factory, per_catalog):
        kind = _readable(annotations.get(parameter.name, Any))
        if parameter.default is inspect.Parameter.empty:
            required.append((parameter.name, kind))
        else:
            optional.append((parameter.name, kind, msgspec.field(default_factory=partial(_same, parameter.default))))
    optional += [(name, _readable(kind), None) for name, kind in _options(factory).items()]
    return msgspec.defstruct(
        name.replace("-", "_"),
        [*required, *optional],
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=not _is_open(factory),
    )


def traced(error: BaseException) -> str:
    """Returns an error in the code of another package as a line of text, with the file and line where it was raised. For a syntax
    error, these are the file and line that cannot be parsed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _socket(name: str) -> Socket:
    if name not in SOCKETS:
        raise ConfigError(f"there is no socket {name!r}; {did_you_mean(name, sorted(SOCKETS))}")
    return SOCKETS[name]


def _points(group: str) -> Sequence[EntryPoint]:
    return _installed(tuple(sys.path)).get(group, ())


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Mapping[str, Sequence[EntryPoint]]:
    """Returns the installed factories by group; `path` is `sys.path`.

    Reading the entry points opens a file of every installed package, and one selection looks up ten names. So they are read once,
    and again only if `sys.path` has changed.
    """
    points = entry_points()
    return {group: points.select(group=group) for group in points.groups if group.startswith("toolcaddie.")}


def _try(point: EntryPoint) -> tuple[Any, str | None]:
    try:
        return point.load(), None
    except Exception as error:  # noqa: BLE001  import of another package: whatever it raises, the others still load
        return None, traced(error)


def _plugin(point: EntryPoint, error: str | None) -> Plugin:
    return Plugin(
        name=point.name,
        group=point.group,
        target=point.value,
        distribution=point.dist.name if point.dist else "",
        version=point.dist.version if point.dist else "",
        error=error,
    )


def _settings_of(factory: Factory, per_catalog: bool) -> Sequence[inspect.Parameter]:
    """Returns the parameters that settings may set."""
    kinds = [inspect.Parameter.KEYWORD_ONLY, *([] if per_catalog else [inspect.Parameter.POSITIONAL_OR_KEYWORD])]
    return [each for each in _parameters(factory) if each.kind in kinds and each.name not in _GIVEN]


def _is_open(factory: Factory) -> bool:
    """Returns True if the factory takes any keyword (`**more`)."""
    return _rest(factory) is not None and not _options(factory)


def _options(factory: Factory) -> Mapping[str, Any]:
    """Returns the optional settings that the factory takes as `**options: Unpack[Options]`, and their types."""
    rest = _rest(factory)
    kind = None if rest is None else _annotations(factory).get(rest)
    if typing.get_origin(kind) is not typing.Unpack:
        return {}
    return typing.get_type_hints(typing.get_args(kind)[0], include_extras=True)


def _rest(factory: Factory) -> str | None:
    """Returns the name of the parameter that takes the other keywords; None: there is none."""
    kind = inspect.Parameter.VAR_KEYWORD
    return next((parameter.name for parameter in _parameters(factory) if parameter.kind is kind), None)


def _parameters(factory: Factory) -> Sequence[inspect.Parameter]:
    try:
        return list(inspect.signature(factory).parameters.values())
    except ValueError:  # a built-in written in C: it has no readable parameters
        return []


def _annotations(factory: Factory) -> Mapping[str, Any]:
    """Returns the types of the parameters, or no types if one of them uses a name that only type checkers know."""
    if isinstance(factory, partial):
        return _annotations(factory.func)
    target: Any = factory
    if isinstance(factory, type):
        target = factory.__init__  # type: ignore[misc]  # the `__init__` of this very class
    elif not inspect.isroutine(factory):
        target = type(factory).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        return {}


def _readable(kind: Any) -> Any:
    """Returns the type if msgspec can check values of a file by it; otherwise `Any`, so that any value is accepted."""
    try:
        msgspec.inspect.type_info(kind)
    except TypeError:
        return Any
    return kind


def _same(value: Any) -> Any:
    return value


def _checked(place: str, factory: Factory, config: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the settings of a factory, converted to the types of its parameters. Raises `ConfigError`."""
    unknown = [key for key in config if key not in kind.__struct_fields__]
    if unknown and not _is_open(factory):
        raise ConfigError(
            f"{place}: unknown key {unknown[0]!r}; {did_you_mean(unknown[0], sorted(kind.__struct_fields__))}"
        )
    try:
        values = msgspec.convert(dict(config), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: {error}") from error
    return {key: getattr(values, key) if key in kind.__struct_fields__ else value for key, value in config.items()}


def _check_members(place: str, part: Any, socket: Socket) -> None:
    missing = [member for member in socket.members if not hasattr(part, member)]
    if missing:
        lacks = "cannot be called" if missing == ["__call__"] else f"lacks {', '.join(missing)}"
        raise ConfigError(f"{place}: its factory made a {type(part).__name__}, which {lacks}; see ports.{socket.makes}")
