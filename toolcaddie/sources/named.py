"""Makes the tool source that a text names: a plugin, a file of definitions, or a Python module."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from toolcaddie.core.errors import CatalogError, ConfigError, ToolcaddieError
from toolcaddie.core.tool import Tool
from toolcaddie.parts import Parts
from toolcaddie.ports import OpenableSource, ToolSource
from toolcaddie.registry import Registry, traced
from toolcaddie.sources.definitions import DefinitionSource, read_jsonl
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.util.suggest import did_you_mean

_PYTHON = "python:"
_MCP = "mcp:"
_OPENAPI = "openapi:"
_FILES = ("jsonl", "mcp", "openapi", "python")
"""Sources that need more than a name: a path, an address, or `python:module`."""


def load_catalog(spec: str, *, registry: Registry | None = None, parts: Parts | None = None) -> ToolSource:
    """Returns the source that `spec` names.

        gym                    a sample or plugin (entry points of `toolcaddie.sources`)
        tools.jsonl            one definition in each line; such tools are selected and shown, but cannot run
        python:module          its `source`, or its functions marked @tool
        python:module:name     a ToolSource, a list of functions or of Tools, or a function without arguments that makes one
        mcp:URL                an MCP server over HTTP
        mcp:COMMAND ARGS       an MCP server that is a program
        openapi:FILE_OR_URL    the operations of an HTTP API, by its OpenAPI document

    Raises `CatalogError` (file and line named) or `ConfigError`.
    """
    registry = registry or Registry()
    if spec.startswith(_PYTHON):
        source: ToolSource = registry.make("source", "python", {"target": spec.removeprefix(_PYTHON)}, parts)
    elif spec.startswith(_MCP):
        source = registry.make("source", "mcp", mcp_settings(spec.removeprefix(_MCP)), parts or Parts())
    elif spec.startswith(_OPENAPI):
        source = registry.make("source", "openapi", openapi_settings(spec.removeprefix(_OPENAPI)), parts or Parts())
    elif spec.endswith(".jsonl"):
        source = registry.make("source", "jsonl", {"path": spec}, parts)
    else:
        source = _plugin(spec, registry, parts)
    return source


def catalog_names(registry: Registry) -> list[str]:
    """Returns the names that are catalogs by themselves, sorted."""
    return [name for name in registry.names("source") if name not in _FILES]


def jsonl(*, path: str) -> ToolSource:
    """Returns the definitions of a file with one in each line. Raises `CatalogError` naming file and line."""
    return read_jsonl(Path(path))


def python(*, target: str, name: str = "") -> ToolSource:
    """Returns the tools of `module` or `module:attribute`, under the module's name unless another is given."""
    spec = f"{_PYTHON}{target}"
    module_name, _, attribute = target.partition(":")
    if not module_name:
        raise ConfigError(f"catalog {spec!r} names no module; write python:module or python:module:name")
    module = import_named(spec, module_name)
    value: Any = module
    if attribute:
        value = _attribute(spec, module, attribute)
    elif hasattr(module, "source"):
        value = module.source
    return _as_source(value, what=f"catalog {spec!r}", name=name or module_name.rpartition(".")[2])


def mcp_settings(target: str) -> dict[str, Any]:
    """Returns the settings of the MCP server that `mcp:URL` or `mcp:COMMAND ARGS` names. The server's name comes from its address
    or its command. Raises `ConfigError`."""
    if target.startswith(("http://", "https://")):
        return {"name": _short_name(urlsplit(target).hostname or "server"), "url": target}
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise ConfigError(f"catalog {_MCP + target!r}: the command cannot be split into words: {error}") from error
    if not words:
        raise ConfigError(f"catalog {_MCP + target!r} names no server; write mcp:URL or mcp:COMMAND ARGS")
    # Of `npx -y @scope/server-files /tmp` and `python server.py`, the second word says more than the first.
    plain = [word for word in words[1:] if not word.startswith("-")]
    label = plain[0] if plain and Path(words[0]).name.startswith(_LAUNCHERS) else words[0]
    return {"name": _short_name(Path(label).name.removesuffix(".py")), "command": words[0], "args": tuple(words[1:])}


def openapi_settings(document: str) -> dict[str, Any]:
    """Returns the settings of the API whose document `openapi:FILE_OR_URL` names; it is called after its host or file.
    Raises `ConfigError`."""
    if not document:
        raise ConfigError(f"catalog {_OPENAPI!r} names no document; write openapi:FILE or openapi:URL")
    host = urlsplit(document).hostname if document.startswith(("http://", "https://")) else None
    return {"name": _short_name(host or Path(document).name.partition(".")[0]), "document": document}


_LAUNCHERS = ("python", "npx", "node", "uvx", "uv", "bunx", "deno")


def _short_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:40] or "server"


def _plugin(name: str, registry: Registry, parts: Parts | None) -> ToolSource:
    names = catalog_names(registry)
    if name not in names:
        raise ConfigError(
            f"no catalog {name!r}; {did_you_mean(name, names)}. A catalog is one of these names, a file ending in .jsonl, "
            "python:module, openapi:FILE_OR_URL, mcp:URL or mcp:COMMAND"
        )
    source: ToolSource = registry.make("source", name, {}, parts)
    if not source.tools() and not isinstance(source, OpenableSource):
        raise CatalogError(f"catalog {name!r} holds no tools; mark functions with @tool, or list them")
    return source


def import_named(spec: str, name: str) -> ModuleType:
    # People name a file of the current folder, which is not on the path of an installed command.
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise CatalogError(f"catalog {spec!r}: {traced(error)}; install it, or correct the import") from error
        raise CatalogError(
            f"catalog {spec!r}: there is no module {error.name!r} in {folder} nor among the installed ones; "
            "write the name as in an import statement"
        ) from error
    except Exception as error:  # somebody else's code runs here: any error is reported with its place
        raise CatalogError(f"catalog {spec!r}: importing {name} failed: {traced(error)}") from error


def _attribute(spec: str, module: ModuleType, path: str) -> Any:
    target: Any = module
    for name in path.split("."):
        if not hasattr(target, name):
            public = sorted(each for each in vars(module) if not each.startswith("_"))
            raise CatalogError(f"catalog {spec!r}: {module.__name__} has no {path!r}; {did_you_mean(name, public)}")
        target = getattr(target, name)
    return target


def _as_source(target: Any, *, what: str, name: str) -> ToolSource:
    if callable(target) and not _is_source(target):
        target = _called(target, what)
    if _is_source(target):
        source: ToolSource = target
    elif isinstance(target, ModuleType):
        source = _wrapped(name, [target], what)
    elif isinstance(target, list | tuple) and target and all(isinstance(item, Tool) for item in target):
        source = DefinitionSource(name, target, origin=what)
    elif isinstance(target, list | tuple):
        source = _wrapped(name, target, what)
    else:
        raise CatalogError(
            f"{what}: a {type(target).__name__} is no catalog; name a ToolSource, a list of functions or of Tools, "
            "or a function without arguments that makes one"
        )
    if not source.tools() and not isinstance(source, OpenableSource):
        raise CatalogError(f"{what} holds no tools; mark functions with @tool, or list them")
    return source


def _wrapped(name: str, targets: Sequence[Any], what: str) -> ToolSource:
    try:
        return FunctionSource(name, targets)
    except CatalogError as error:
        raise CatalogError(f"{what}: {error}") from error


def _is_source(target: Any) -> bool:
    return not isinstance(target, type) and all(hasattr(target, name) for name in ("tools", "call_tool", "categories"))


def _called(make: Callable[..., Any], what: str) -> Any:
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise CatalogError(
            f"{what}: it makes no catalog without arguments; name a list of functions instead"
        ) from error
    try:
        return make()
    except ToolcaddieError:
        raise
    except Exception as error:  # somebody else's code: any error is reported with its place
        raise CatalogError(f"{what}: making it failed: {traced(error)}") from error
