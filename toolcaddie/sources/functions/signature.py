"""Makes a tool of a callable: its signature and docstring become a schema and a converter of arguments.

The schema has only the parameters that the model fills in. The others get their values when the function is called:

- a parameter whose name begins with `_` gets a value that the caller injects (`_chatId`), and so does `**kwargs`;
- a parameter annotated `RunContext` gets the context of the run;
- a parameter annotated with a type of the application's dependencies gets that dependency;
- a parameter annotated as a `logging.Logger` or a structlog logger, or without annotation and named `logger`, gets a logger
  that names the tool;
- a keyword argument that a `functools.partial` has fixed stays fixed.
"""

from __future__ import annotations

import inspect
import logging
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from toolcaddie.core.catalog import check_tool
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import JsonObject, Tool, ToolAnnotations
from toolcaddie.sources.functions.backing import backing_of
from toolcaddie.sources.functions.docstrings import read_docstring
from toolcaddie.sources.functions.options import ToolOptions, options_of
from toolcaddie.sources.functions.place import code_of, place_of, underlying
from toolcaddie.util.replacing import replace

Role = Literal["argument", "injected", "context", "dependency", "logging", "structlog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a function and the source of its value."""

    name: str
    wire: str
    """Name of the parameter in the schema: the alias, if it has one."""
    role: Role
    annotation: Any
    required: bool
    default: Any
    """Python's own default; `inspect.Parameter.empty`: there is none."""
    positional: bool
    """True: the parameter is positional-only."""
    description: str | None
    dependency: type | None = None
    """The type of dependency that it gets; None: it gets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A function as a tool, with all that is needed to call it."""

    tool: Tool
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    arguments: TypeAdapter[dict[str, Any]]
    """Converts the model's JSON to Python values, by parameter name."""
    takes_more: bool
    """True: the function has `**kwargs`."""
    is_async: bool
    wrap: bool
    """True: the output schema wraps the value as `{"result": ...}`."""
    place: str
    """Name, file and line of the function, for messages."""


def define(function: Callable[..., Any], *, source: str, dependencies: Collection[type] = ()) -> Definition:
    """Returns the definition of a callable. `dependencies`: the types of the objects that the application provides.

    Raises `CatalogError` naming the function, its file and line, and what is wrong.
    """
    place = place_of(function)
    options = options_of(function) or ToolOptions()
    name = options.get("name") or _name_of(function)
    summary, described = read_docstring(code_of(function))
    signature, hints = _signature_of(function, place)
    parameters = tuple(
        _parameters(signature, hints, described, dependencies, fixed=underlying(function)[1], place=place)
    )
    arguments, input_schema = _arguments(name, parameters, place)
    output_schema, wrap = _output_schema(options, hints.get("return", Any), place)
    personal = any(parameter.role in ("context", "dependency") for parameter in parameters)
    tool = replace(_tool(name, source, options, summary, input_schema, output_schema), personal=personal)
    tool = replace(tool, backing=backing_of(function))
    try:
        check_tool(tool)
    except CatalogError as error:
        raise CatalogError(f"{place}: {error}") from error
    if tool.idempotency_key is not None and tool.idempotency_key not in tool.input_schema["properties"]:
        raise CatalogError(
            f"{place}: idempotency_key {tool.idempotency_key!r} is not one of its parameters; name the one that carries it"
        )
    return Definition(
        tool=tool,
        function=function,
        parameters=parameters,
        arguments=arguments,
        takes_more=any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()),
        is_async=inspect.iscoroutinefunction(code_of(function)),
        wrap=wrap,
        place=place,
    )


def _tool(
    name: str, source: str, options: ToolOptions, summary: str, schema: JsonObject, output: JsonObject | None
) -> Tool:
    """Returns the tool with these options. `summary`: the docstring's text, used if the options have no description. `output`:
    the output schema."""
    read_only, destructive = options.get("read_only"), options.get("destructive")
    return Tool(
        name=name,
        description=options.get("description", summary),
        input_schema=schema,
        output_schema=output,
        category=options.get("category"),
        hints=tuple(options.get("hints", ())),
        source=source,
        annotations=ToolAnnotations(
            title=options.get("title"),
            read_only=read_only,
            # A function of the application is trusted to destroy nothing unless it says otherwise; other tools are not.
            destructive=False if destructive is None else destructive,
            idempotent=options.get("idempotent"),
            open_world=options.get("open_world"),
        ),
        core=options.get("core", False),
        concurrent=options.get("concurrent", False),
        polling=options.get("polling", False),
        idempotency_key=options.get("idempotency_key"),
        scope=options.get("scope", "all"),
        roles=tuple(options.get("roles", ())),
        tags=tuple(options.get("tags", ())),
        timeout=options.get("timeout"),
        cache_ttl=options.get("cache_ttl"),
        untrusted=options.get("untrusted", False),
        ends_run=options.get("ends_run", False),
    )


_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _name_of(function: Callable[..., Any]) -> str:
    inner, _ = underlying(function)
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else _WORD_START.sub("_", type(inner).__name__).lower()


def _signature_of(function: Callable[..., Any], place: str) -> tuple[inspect.Signature, dict[str, Any]]:
    """Returns the signature of a function and its resolved annotations. Raises `CatalogError` for a generator, and for a function
    or an annotation that cannot be read. `place`: name, file and line, for the message."""
    code = code_of(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise CatalogError(f"{place} is a generator; a tool gives one result, so return a list")
    try:
        return inspect.signature(function), typing.get_type_hints(code, include_extras=True)
    except NameError as error:
        raise CatalogError(
            f"{place}: the annotation {error.name!r} cannot be found; import or define it at the top of the module, "
            "not under TYPE_CHECKING and not inside a function"
        ) from error
    except (ValueError, TypeError) as error:
        raise CatalogError(
            f"{place}: its signature cannot be read ({error}); wrap it in a function of your own"
        ) from error


def _parameters(
    signature: inspect.Signature,
    hints: dict[str, Any],
    described: dict[str, str],
    dependencies: Collection[type],
    *,
    fixed: frozenset[str],
    place: str,
) -> Iterator[Parameter]:
    """Yields the parameters of a function, without those in `fixed` (values that a partial has set). `hints`: the annotations by
    name; `described`: the docstring's sentences by name; `dependencies`: the types that the application provides. Raises
    `CatalogError` for `*args`."""
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise CatalogError(
                f"{place}: *{parameter.name} has no names a model could fill in; take one list parameter instead"
            )
        if parameter.kind is parameter.VAR_KEYWORD or parameter.name in fixed:
            continue
        annotation = hints.get(parameter.name, Any)
        fields = [parameter.default] if isinstance(parameter.default, FieldInfo) else []
        if fields:  # `x: int = Field(5, ge=1)`: pydantic supplies the default, so Python's must not be used
            annotation = Annotated[annotation, parameter.default]
        fields += [item for item in _extras(annotation) if isinstance(item, FieldInfo)]
        default = parameter.empty if fields and parameter.default is fields[0] else parameter.default
        dependency = _dependency(annotation, dependencies, f"{place}: parameter {parameter.name!r}")
        yield Parameter(
            name=parameter.name,
            wire=next((field.alias for field in fields if field.alias), parameter.name),
            role=_role(parameter.name, annotation) if dependency is None else "dependency",
            annotation=annotation,
            required=default is parameter.empty and all(field.is_required() for field in fields),
            default=default,
            positional=parameter.kind is parameter.POSITIONAL_ONLY,
            description=_annotated_description(annotation) or described.get(parameter.name),
            dependency=dependency,
        )


def _extras(annotation: Any) -> tuple[Any, ...]:
    return annotation.__metadata__ if typing.get_origin(annotation) is Annotated else ()


def _annotated_description(annotation: Any) -> str | None:
    """Returns the text of `Annotated[str, "what it is"]` or `Annotated[str, Doc("what it is")]`; pydantic reads `Field`
    itself."""
    for item in _extras(annotation):
        text = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def _role(name: str, annotation: Any) -> Role:
    """Returns the source of a parameter's value, by its name and annotation: the model, the caller, the run's context, or a
    logger."""
    for kind in _alternatives(annotation):
        if kind is RunContext:
            return "context"
        if isinstance(kind, type) and issubclass(kind, logging.Logger):
            return "logging"
        if getattr(kind, "__module__", "").split(".")[0] == "structlog":
            return "structlog"
    if name == "logger" and annotation is Any:
        return "structlog"
    return "injected" if name.startswith("_") else "argument"


def _dependency(annotation: Any, declared: Collection[type], where: str) -> type | None:
    """Returns the declared type that an annotation names, by itself or by a base class; None: there is none."""
    for kind in _alternatives(annotation) if declared else ():
        if kind in declared:
            return cast("type", kind)
        below = [each for each in declared if _is_below(each, kind)]
        if len(below) > 1:
            names = " and ".join(each.__name__ for each in below)
            raise CatalogError(f"{where}: {names} are both a {kind.__name__}; annotate it with one of them")
        if below:
            return below[0]
    return None


def _is_below(declared: type, kind: Any) -> bool:
    """Returns whether a dependency is also of this kind. Built-in types never are, because every class is an `object`."""
    if not isinstance(kind, type) or kind.__module__ in ("builtins", "typing", "collections.abc"):
        return False
    try:
        return issubclass(declared, kind)
    except TypeError:  # a protocol that `issubclass` does not support
        return False


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


_UNUSABLE = (PydanticUserError, SchemaError, TypeError, NameError)
"""Errors of pydantic for a type without a schema."""


def _arguments(
    name: str, parameters: tuple[Parameter, ...], place: str
) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    """Returns the converter of the model's arguments, and the tool's input schema. Raises `CatalogError` naming the parameter
    whose type has no schema."""
    visible = [parameter for parameter in parameters if parameter.role == "argument"]
    try:
        adapter = _adapter(name, visible)
        return adapter, _input_schema(adapter, visible)
    except _UNUSABLE as error:
        raise CatalogError(f"{place}: {_culprit(visible)}{_reason(error)}{_advice(name, visible)}") from error


def _adapter(name: str, parameters: Sequence[Parameter]) -> TypeAdapter[dict[str, Any]]:
    # A TypedDict and not a model, because it allows any name ("schema", "copy"), and because omitted arguments stay absent, so
    # that the function's own default applies. No argument is required here, because the application may inject it.
    fields = cast("Any", TypedDict)(name, {p.name: NotRequired[p.annotation] for p in parameters})
    fields.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return TypeAdapter(fields)


def _input_schema(adapter: TypeAdapter[dict[str, Any]], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Returns the schema of the arguments, with descriptions, defaults and the list of required ones."""
    generated = _json_schema(adapter)
    properties = generated.get("properties", {})
    for parameter in parameters:
        _describe(properties[parameter.wire], parameter)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [parameter.wire for parameter in parameters if parameter.required]:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema | ({"$defs": generated["$defs"]} if generated.get("$defs") else {})


def _culprit(parameters: Sequence[Parameter]) -> str:
    parameter = _without_schema(parameters)
    return "" if parameter is None else f"parameter {parameter.name!r}: "


def _advice(tool: str, parameters: Sequence[Parameter]) -> str:
    """Returns the advice for a parameter that may be meant as a dependency."""
    parameter = _without_schema(parameters)
    kinds = () if parameter is None else _alternatives(parameter.annotation)
    kind = next((kind for kind in kinds if isinstance(kind, type) and kind.__module__ != "builtins"), None)
    if kind is None:
        return ""
    return f"; if the application gives tool {tool!r} its {kind.__name__}, write Runtime(dependencies=[{kind.__name__}(...)])"


def _without_schema(parameters: Sequence[Parameter]) -> Parameter | None:
    """Returns the first parameter whose type has no schema; None: all have one."""
    for parameter in parameters:
        try:
            _json_schema(_adapter("Alone", [parameter]))
        except _UNUSABLE:
            return parameter
    return None


def _reason(error: Exception) -> str:
    first = str(error).split("\n", 1)[0]
    return f"no JSON Schema can be made of its type ({first}); use a type that JSON can carry"


class _Schema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # the title "Member" of a field "member" tells a model nothing, and costs tokens


def _json_schema(
    adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"] = "validation"
) -> dict[str, Any]:
    """Returns the JSON schema of a type, without titles that only repeat a name."""
    schema = adapter.json_schema(schema_generator=_Schema, mode=mode)
    schema.pop("title", None)
    for name, body in schema.get("$defs", {}).items():
        if body.get("title") == name:
            del body["title"]
    return schema


def _describe(schema: dict[str, Any], parameter: Parameter) -> None:
    """Adds the description and the default of a parameter to its schema."""
    if parameter.description:
        schema.setdefault("description", parameter.description)
    if parameter.default is inspect.Parameter.empty or parameter.default is None:
        return
    try:
        schema.setdefault("default", to_jsonable_python(parameter.default))
    except (PydanticSerializationError, ValueError):
        return  # JSON cannot show the default (a sentinel): the model omits the argument, and Python uses the default


def _output_schema(options: ToolOptions, annotation: Any, place: str) -> tuple[JsonObject | None, bool]:
    """Returns the output schema that the options ask for (None: no schema), and True if it wraps the value as `{"result": ...}`.
    Raises `CatalogError` for a return annotation without a schema."""
    option = options.get("output_schema", False)
    if option is False:
        return None, False
    if option is not True:
        return option, False
    try:
        schema = _json_schema(TypeAdapter(annotation), mode="serialization")
    except _UNUSABLE as error:
        raise CatalogError(f"{place}: the return annotation: {_reason(error)}") from error
    definitions = schema.get("$defs", {})
    root = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), schema)
    if root.get("type") == "object":
        return schema, False
    definitions = {"$defs": schema.pop("$defs")} if definitions else {}
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]} | definitions, True
