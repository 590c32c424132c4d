"""The operations of an OpenAPI document as values: method, path, parameters, body, servers and security of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from toolcaddie.core.errors import CatalogError
from toolcaddie.sources.openapi.references import followed
from toolcaddie.util.text import visible, visible_line

Location = Literal["path", "query", "header", "cookie"]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
LOCATIONS = ("path", "query", "header", "cookie")

_STYLES: Mapping[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles for each place of a parameter; the first is the default."""

_IGNORED_HEADERS = frozenset(
    {
        *("accept", "content-type", "authorization", "host", "content-length", "transfer-encoding", "connection"),
        *("cookie", "expect", "te", "trailer", "upgrade"),
    }
)
"""Headers that a document cannot make parameters: OpenAPI ignores the first three, and the others belong to the connection."""


_LONGEST_ADDRESS = 2000


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter outside the body."""

    name: str
    location: Location
    required: bool
    schema: Any
    description: str
    style: str
    explode: bool
    allow_reserved: bool = False
    is_json: bool = False
    """True: the value is written as JSON (the field `content` of the document)."""


class Body(Struct, frozen=True, kw_only=True):
    """The body of a request in the one media type that is used."""

    media_type: str
    required: bool
    schema: Any
    description: str
    encoding: Mapping[str, Any]


class Operation(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    """The path in the document. What follows a `#` is never sent: it distinguishes operations of the same address."""
    id: str
    """The document's own id; empty: it has none."""
    summary: str
    description: str
    tags: Sequence[str]
    parameters: Sequence[Parameter]
    body: Body | None
    servers: Sequence[str]
    """The operation's own servers, which may be relative to the document; empty: those of the whole document."""
    security: Sequence[Mapping[str, Sequence[str]]]
    """Alternatives, each with the schemes that are needed together and their scopes. Empty: none is needed."""
    deprecated: bool = False

    @property
    def title(self) -> str:
        """The method and the path, for people."""
        return f"{self.method} {self.path}"


def operations_of(document: Mapping[str, Any]) -> tuple[list[Operation], list[str]]:
    """Returns all operations in the order of the document, and sentences about those that cannot be read."""
    operations: list[Operation] = []
    problems: list[str] = []
    for path, item in _paths(document):
        try:
            item = followed(document, item) | {key: value for key, value in item.items() if key != "$ref"}
        except CatalogError as error:
            problems.append(f"{visible_line(path)[:200]}: {error}")
            continue
        for method, node in _methods(item):
            try:
                operations.append(_operation(document, item, path, method, node))
            except CatalogError as error:
                problems.append(f"{method.upper()} {visible_line(path)[:200]}: {error}")
    return operations, problems


def _paths(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if isinstance(item, dict) and path.startswith("/"):
            yield path, item


def _methods(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for method, node in item.items():
        if method.lower() in METHODS and isinstance(node, dict):
            yield method.lower(), node


def _operation(
    document: Mapping[str, Any], item: Mapping[str, Any], path: str, method: str, node: Mapping[str, Any]
) -> Operation:
    """Returns one operation. Raises `CatalogError` if a parameter or the body cannot be read."""
    if not path.isprintable():
        raise CatalogError("its path has characters that a path cannot have")
    return Operation(
        method=method.upper(),
        path=path,
        id=_text(node.get("operationId")),
        summary=visible(_text(node.get("summary")) or _text(item.get("summary"))).strip(),
        description=visible(_text(node.get("description")) or _text(item.get("description"))).strip(),
        tags=tuple(tag for tag in _list(node.get("tags")) if isinstance(tag, str) and tag.strip()),
        parameters=_with_path_names(path, _parameters(document, item, node)),
        body=_body(document, node.get("requestBody")),
        servers=server_addresses(node.get("servers") or item.get("servers")),
        security=_security(node.get("security", document.get("security"))),
        deprecated=node.get("deprecated") is True,
    )


def _with_path_names(path: str, parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Returns the parameters and a text for each name in the path that the document does not describe."""
    names = dict.fromkeys(re.findall(r"\{([^{}]+)\}", path.partition("#")[0]))
    described = tuple(each for each in parameters if each.location != "path" or each.name in names)
    known = {each.name for each in described if each.location == "path"}
    missing = [
        Parameter(
            name=name,
            location="path",
            required=True,
            schema={"type": "string"},
            description="",
            style="simple",
            explode=False,
        )
        for name in names
        if name not in known
    ]
    return (*described, *missing)


def _parameters(document: Mapping[str, Any], item: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Returns the parameters of the path and of the operation, which replace those of the path."""
    parameters: dict[tuple[str, str], Parameter] = {}
    for each in (*_list(item.get("parameters")), *_list(node.get("parameters"))):
        parameter = _parameter(document, followed(document, each))
        if parameter is not None:
            parameters[parameter.location, parameter.name] = parameter
    return tuple(parameters.values())


def _parameter(document: Mapping[str, Any], node: Mapping[str, Any]) -> Parameter | None:
    name, location = node.get("name"), node.get("in")
    if not isinstance(name, str) or not name or location not in LOCATIONS:
        raise CatalogError(f"a parameter has no name, or a place that does not exist: {str(location)[:40]!r}")
    if location == "header" and (name.lower() in _IGNORED_HEADERS or not re.fullmatch(r"[!#$%&'*+.^_`|~\w-]+", name)):
        return None
    style = node.get("style")
    if style not in _STYLES[location]:
        style = _STYLES[location][0]
    schema, is_json = node.get("schema"), False
    content = node.get("content")
    if schema is None and isinstance(content, dict) and content:
        schema, is_json = followed(document, next(iter(content.values()))).get("schema"), _is_json(next(iter(content)))
    explode = node.get("explode")
    return Parameter(
        name=name,
        location=location,
        required=location == "path" or node.get("required") is True,
        schema={} if schema is None else schema,
        description=visible(_text(node.get("description"))).strip(),
        style=style,
        explode=explode if isinstance(explode, bool) else style == "form",
        allow_reserved=node.get("allowReserved") is True,
        is_json=is_json,
    )


def _is_json(media_type: str) -> bool:
    return bool(re.match(r"(?i)\s*application/([\w.+-]*\+)?json\b", media_type))


def _body(document: Mapping[str, Any], node: Any) -> Body | None:
    if node is None:
        return None
    node = followed(document, node)
    content = node.get("content")
    media = (
        {key: value for key, value in content.items() if isinstance(value, dict)} if isinstance(content, dict) else {}
    )
    if not media:
        return None
    media_type = min(media, key=_preference)
    chosen = followed(document, media[media_type])
    if media_type.strip() in ("*/*", "application/*") and _has_parts(document, chosen.get("schema")):
        media_type = "application/json"
    encoding = chosen.get("encoding")
    return Body(
        media_type=media_type.strip(),
        required=node.get("required") is True,
        schema=chosen.get("schema", {}),
        description=visible(_text(node.get("description"))).strip(),
        encoding=encoding if isinstance(encoding, dict) else {},
    )


def _has_parts(document: Mapping[str, Any], schema: Any) -> bool:
    """Returns True if a schema is of an object or a list, so that a body of any media type can only be JSON."""
    try:
        node = followed(document, schema)
    except CatalogError:
        return False
    return node.get("type") in ("object", "array") or bool({"properties", "items"} & node.keys())


def _preference(media_type: str) -> int:
    """Returns the rank of a media type among those of one body; JSON comes first."""
    name = media_type.partition(";")[0].strip().lower()
    if name == "application/json":
        return 0
    if _is_json(name):
        return 1
    order = {"application/x-www-form-urlencoded": 2, "multipart/form-data": 3, "text/plain": 4}
    return order.get(name, 6 if name in ("*/*", "application/*") else 5)


def server_addresses(servers: Any) -> tuple[str, ...]:
    """Returns the addresses of a list of servers, with the default values of their variables."""
    return tuple(
        _address(each) for each in _list(servers) if isinstance(each, dict) and isinstance(each.get("url"), str)
    )


def _address(server: Mapping[str, Any]) -> str:
    variables = server.get("variables")
    address: str = server["url"]
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        default = variable.get("default") if isinstance(variable, dict) else None
        if (
            isinstance(default, str | int)
            and len(address) <= _LONGEST_ADDRESS
            and len(str(default)) <= _LONGEST_ADDRESS
        ):
            address = address.replace(f"{{{name}}}", str(default))
    # Values may contain variables, so an address can multiply; with its braces it is never called.
    return address if len(address) <= _LONGEST_ADDRESS else "{}"


def _security(node: Any) -> tuple[Mapping[str, Sequence[str]], ...]:
    alternatives = [each for each in _list(node) if isinstance(each, dict)]
    return tuple(
        {str(name): tuple(scope for scope in _list(scopes) if isinstance(scope, str)) for name, scopes in each.items()}
        for each in alternatives
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
