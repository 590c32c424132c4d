"""Makes the tool of an operation, and the route by which its arguments find their places in a request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.catalog import Category, check_tool
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema import canonical_json, digest
from toolcaddie.core.schema.encoding import shorten
from toolcaddie.core.tool import Tool, ToolAnnotations
from toolcaddie.sources.names import LONGEST, tool_names, with_digest
from toolcaddie.sources.openapi.api import OpenApi
from toolcaddie.sources.openapi.cuts import WHOLE, Cut
from toolcaddie.sources.openapi.operations import Body, Operation, Parameter
from toolcaddie.sources.openapi.patterns import matches
from toolcaddie.sources.openapi.schemas import Schemas
from toolcaddie.sources.openapi.security import Scheme

BODY = "body"
"""The argument with the body of the request."""

_SHORT = 160
_NO_PATTERNS = Cut(keywords=frozenset({"pattern", "patternProperties"}))
_SHORT_TEXTS = Cut(keywords=frozenset({"pattern", "patternProperties", "title"}), longest_text=_SHORT)
_READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})
_IDEMPOTENT = frozenset({"PUT", "DELETE", "TRACE"}) | _READ_ONLY


class Route(Struct, frozen=True, kw_only=True):
    """The way from the arguments of a call to a request."""

    operation: Operation
    parameters: Mapping[str, Parameter]
    """The parameter for each argument."""
    files: frozenset[str] = frozenset()
    """Fields of the body that are files; `body` itself if the whole body is one."""


class Makers(Struct, frozen=True, kw_only=True):
    """The converted schemas of a document, with and without files."""

    plain: Schemas
    files: Schemas


def names_of(operations: Sequence[Operation], prefix: str, fallback: str) -> list[str]:
    """Returns a name for each operation: its id, or its method and path; unique, and at most 64 characters long."""
    holders = Counter(each.id for each in operations)
    originals = [each.title if not each.id or holders[each.id] > 1 else each.id for each in operations]
    names = tool_names(prefix, originals, fallback=fallback)
    return [names[original] for original in originals]


def tool_of(
    operation: Operation, name: str, api: OpenApi, makers: Makers, schemes: Mapping[str, Scheme], bounds: Bounds
) -> tuple[Tool, Route, str]:
    """Returns the tool of an operation, its route, and a sentence if its schema had to be shortened, or an empty text."""
    parameters = _arguments(operation, schemes)
    schema, note = _input_schema(operation, parameters, makers, api.max_schema_bytes)
    tool = Tool(
        name=name,
        description=_description(operation)[: bounds.description],
        input_schema=schema,
        category=api.category or (category_name(api.name, operation.tags[0]) if operation.tags else api.name),
        hints=_hints(operation, name),
        source=api.name,
        annotations=_annotations(operation, name, api),
        idempotency_key=next((key for key, each in parameters.items() if each.name.lower() == "idempotency-key"), None),
        tags=tuple(operation.tags),
        timeout=api.timeout,
        original=operation.title,
        backing=digest([api.document, api.servers, operation.title]),
    )
    return tool, Route(operation=operation, parameters=parameters, files=_files(operation.body, makers.files)), note


def category_name(source: str, tag: str) -> str:
    """Returns the name of the category for a tag. It begins with the source, because other sources may have the same tag."""
    return f"{source}.{re.sub(r'[^A-Za-z0-9_-]+', '-', tag.strip()).strip('-').lower() or 'tag'}"


def categories_of(document: Mapping[str, Any], operations: Iterable[Operation], api: OpenApi) -> tuple[Category, ...]:
    """Returns a category for each first tag of an operation, with the tag's description in the document."""
    if api.category is not None:
        return ()
    listed = document.get("tags")
    described = {
        each["name"]: each.get("description")
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    }
    categories: dict[str, Category] = {}
    for operation in operations:
        for tag in operation.tags[:1]:
            name, text = category_name(api.name, tag), described.get(tag)
            description = shorten(text.strip(), _SHORT) if isinstance(text, str) else tag
            words = re.sub(r"[_\-./]+", " ", tag).strip().lower()
            categories.setdefault(name, Category(name=name, description=description, keywords=(words,)))
    return tuple(categories.values())


def _description(operation: Operation) -> str:
    texts = [operation.summary, operation.description if operation.description != operation.summary else ""]
    text = "\n\n".join(each for each in texts if each) or operation.title
    return f"{text}\n\nDeprecated." if operation.deprecated else text


def _hints(operation: Operation, name: str) -> tuple[str, ...]:
    words = " ".join(re.findall(r"[A-Za-z][A-Za-z0-9]*", re.sub(r"\{[^{}]*\}", " ", operation.path)))
    return tuple(dict.fromkeys(each for each in (words, *operation.tags) if each and each != name))


def _annotations(operation: Operation, name: str, api: OpenApi) -> ToolAnnotations:
    read_only = operation.method in _READ_ONLY or any(matches(each, operation, name) for each in api.read_only)
    return ToolAnnotations(
        title=operation.summary[:80] or None,
        read_only=True if read_only else None,
        destructive=True if operation.method == "DELETE" else None,
        idempotent=True if operation.method in _IDEMPOTENT or read_only else None,
        open_world=True,
    )


def _arguments(operation: Operation, schemes: Mapping[str, Scheme]) -> dict[str, Parameter]:
    """Returns the parameters by the names of their arguments. Parameters of one name in different places get the place as a
    prefix. Those that carry a credential are omitted."""
    credentials = {(scheme.location, scheme.name.lower()) for scheme in schemes.values()}
    parameters = [each for each in operation.parameters if (each.location, each.name.lower()) not in credentials]
    plain = [_argument(each.name) for each in parameters]
    times = Counter([*plain, BODY] if operation.body else plain)
    located = [
        name if times[name] == 1 else f"{each.location}_{name}" for name, each in zip(plain, parameters, strict=True)
    ]
    times = Counter([*located, BODY] if operation.body else located)
    return {
        name if times[name] == 1 and len(name) <= LONGEST else with_digest(name, f"{each.location} {each.name}"): each
        for name, each in zip(located, parameters, strict=True)
    }


def _argument(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "value"


def _input_schema(
    operation: Operation, parameters: Mapping[str, Parameter], makers: Makers, most: int
) -> tuple[dict[str, Any], str]:
    """Returns the schema of the arguments, and a sentence if it is not the whole one. A schema that is too large or that a
    validator refuses is shortened in steps: no operation is lost."""
    whole = _schema(operation, parameters, makers)
    reason = _objection(whole, most)
    if not reason:
        return whole, ""
    for shorter in _shorter(operation, parameters, makers):
        if not _objection(shorter, most):
            return shorter, f"the schema of {operation.title} is shortened, because {reason}"
    bare = {"type": "object", "properties": {key: {} for key in whole["properties"]}, "additionalProperties": False}
    bare |= {key: whole[key] for key in ("required",) if key in whole}
    if not _objection(bare, most):
        return bare, f"the schema of {operation.title} is shortened, because {reason}"
    return {"type": "object"}, f"the schema of {operation.title} accepts any arguments, because {reason}"


def _shorter(operation: Operation, parameters: Mapping[str, Parameter], makers: Makers) -> Iterator[dict[str, Any]]:
    yield _schema(operation, parameters, makers, cut=_NO_PATTERNS)
    for levels in (None, 6, 4, 3, 2, 1, 0, -1):
        yield _schema(operation, parameters, makers, levels=levels, cut=_SHORT_TEXTS)


def _objection(schema: dict[str, Any], most: int) -> str:
    """Returns the reason why a schema cannot be used, or an empty text."""
    try:
        size = len(canonical_json(schema))
        if size > most:
            return f"it has {size:,} bytes (setting max_schema_bytes: {most:,})"
        check_tool(Tool(name="tool", input_schema=schema))
    except (CatalogError, ValueError, TypeError, RecursionError) as error:
        return str(error).partition(": ")[2][:300] or str(error)[:300]
    return ""


def _schema(
    operation: Operation,
    parameters: Mapping[str, Parameter],
    makers: Makers,
    *,
    levels: int | None = None,
    cut: Cut = WHOLE,
) -> dict[str, Any]:
    used: set[str] = set()
    properties = {name: _property(each, makers.plain, used) for name, each in parameters.items()}
    required = [name for name, each in parameters.items() if each.required]
    definitions = makers.plain.definitions(used, levels=levels, cut=cut)
    body = operation.body
    if body is not None:
        maker = makers.plain if _holds_json(body) else makers.files
        used = set()
        properties[BODY] = _body_schema(body, maker, used)
        definitions = {**definitions, **maker.definitions(used, levels=levels, cut=cut)}
        required += [BODY] if body.required else []
    properties = {name: cut.applied(each) for name, each in properties.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if definitions:
        schema["$defs"] = definitions
    return schema


def _property(parameter: Parameter, maker: Schemas, used: set[str]) -> Any:
    schema = maker.converted(parameter.schema, used)
    if not parameter.description or not isinstance(schema, dict):
        return schema
    return {**schema, "description": parameter.description}


def _body_schema(body: Body, maker: Schemas, used: set[str]) -> Any:
    schema = maker.converted(body.schema, used)
    if not schema and not _holds_json(body):
        schema = (
            {"type": "string"}
            if body.media_type.lower().startswith("text/")
            else maker.converted({"format": "binary"}, used)
        )
    if not body.description or not isinstance(schema, dict) or "description" in schema:
        return schema
    return {**schema, "description": body.description}


def _holds_json(body: Body) -> bool:
    return bool(re.match(r"(?i)application/([\w.+-]*\+)?json\b", body.media_type))


def _files(body: Body | None, maker: Schemas) -> frozenset[str]:
    """Returns the fields of a body that are files."""
    if body is None or _holds_json(body):
        return frozenset()
    if maker.is_file(body.schema):
        return frozenset({BODY})
    schema = maker.target(body.schema)
    branches = schema.get("allOf") if isinstance(schema, dict) else None
    fields: set[str] = set()
    for part in (schema, *(branches if isinstance(branches, list) else ())):
        part = maker.target(part)
        properties = part.get("properties") if isinstance(part, dict) else None
        fields |= (
            {name for name, each in properties.items() if maker.is_file(each)}
            if isinstance(properties, dict)
            else set()
        )
    return frozenset(fields)
