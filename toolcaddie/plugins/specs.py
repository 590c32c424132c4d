"""A catalog by the words a person names it with."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcaddie.core.errors import CatalogError, ConfigError, ToolcaddieError
from toolcaddie.core.tool import Tool
from toolcaddie.plugins.found import CATALOGS, choices, load, told
from toolcaddie.ports import ToolSource
from toolcaddie.sources.definitions import DefinitionSource, read_jsonl

WrapFunctions = Callable[[str, Sequence[Any]], ToolSource]
"""Makes a source of that name from functions, modules or objects; `functions.FunctionSource` is one."""


def load_catalog(spec: str, *, wrap_functions: WrapFunctions) -> ToolSource:
    """The tools that `spec` names.

        gym                    a sample or plugin (entry points of `toolcaddie.catalogs`)
        tools.jsonl            one definition a line; such tools are selected and shown, but cannot run
        python:module          its `source`, or its functions marked @tool
        python:module:name     a ToolSource, a list of functions or of Tools, or a function without arguments making one

    Raises `CatalogError` (file and line named) or `ConfigError`.
    """
    if spec.startswith("python:"):
        return _from_python(spec, wrap_functions)
    if spec.endswith(".jsonl"):
        return read_jsonl(Path(spec))
    names = sorted({point.name for point in entry_points(group=CATALOGS)})
    if spec not in names:
        raise ConfigError(
            f"no catalog {spec!r}; {choices(spec, names)}. A catalog is one of these names, a file ending in .jsonl, "
            "or python:module"
        )
    return _as_source(load(CATALOGS, spec), what=f"catalog {spec!r}", name=spec, wrap_functions=wrap_functions)


def _from_python(spec: str, wrap_functions: WrapFunctions) -> ToolSource:
    module_name, _, attribute = spec.removeprefix("python:").partition(":")
    if not module_name:
        raise ConfigError(f"catalog {spec!r} names no module; write python:module or python:module:name")
    module = _import(spec, module_name)
    target: Any = module
    if attribute:
        target = _attribute(spec, module, attribute)
    elif hasattr(module, "source"):
        target = module.source
    return _as_source(
        target, what=f"catalog {spec!r}", name=module_name.rpartition(".")[2], wrap_functions=wrap_functions
    )


def _import(spec: str, name: str) -> ModuleType:
    # A person names a file of the folder they stand in; a command's own path does not hold that folder.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise CatalogError(f"catalog {spec!r}: {told(error)}; install it, or mend the import") from error
        raise CatalogError(
            f"catalog {spec!r}: there is no module {error.name!r} in {here} nor among the installed ones; "
            "write the name as in an import statement"
        ) from error
    except Exception as error:  # a stranger's code at import: whatever it raises is said with its place
        raise CatalogError(f"catalog {spec!r}: importing {name} failed: {told(error)}") from error


def _attribute(spec: str, module: ModuleType, path: str) -> Any:
    target: Any = module
    for name in path.split("."):
        if not hasattr(target, name):
            public = sorted(known for known in vars(module) if not known.startswith("_"))
            raise CatalogError(f"catalog {spec!r}: {module.__name__} has no {path!r}; {choices(name, public)}")
        target = getattr(target, name)
    return target


def _as_source(target: Any, *, what: str, name: str, wrap_functions: WrapFunctions) -> ToolSource:
    if callable(target) and not _is_source(target):
        target = _made(target, what)
    if _is_source(target):
        source: ToolSource = target
    elif isinstance(target, ModuleType):
        source = _wrapped(name, [target], what, wrap_functions)
    elif isinstance(target, list | tuple) and target and all(isinstance(item, Tool) for item in target):
        source = DefinitionSource(name, target, origin=what)
    elif isinstance(target, list | tuple):
        source = _wrapped(name, target, what, wrap_functions)
    else:
        raise CatalogError(
            f"{what}: a {type(target).__name__} is no catalog; name a ToolSource, a list of functions or of Tools, "
            "or a function without arguments that makes one"
        )
    if not source.tools():
        raise CatalogError(f"{what} holds no tools; mark functions with @tool, or list them")
    return source


def _wrapped(name: str, targets: Sequence[Any], what: str, wrap_functions: WrapFunctions) -> ToolSource:
    try:
        return wrap_functions(name, targets)
    except CatalogError as error:
        raise CatalogError(f"{what}: {error}") from error


def _is_source(target: Any) -> bool:
    return not isinstance(target, type) and all(hasattr(target, name) for name in ("tools", "call_tool", "categories"))


def _made(make: Callable[..., Any], what: str) -> Any:
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
    except Exception as error:  # a stranger's code: whatever it raises is said with its place
        raise CatalogError(f"{what}: making it failed: {told(error)}") from error
