"""Turns the bytes of an OpenAPI document into tools and the routes of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.tool import Tool
from toolcaddie.sources.openapi.addresses import joined, lies_below, origin
from toolcaddie.sources.openapi.api import OpenApi
from toolcaddie.sources.openapi.operations import Operation, operations_of, server_addresses
from toolcaddie.sources.openapi.patterns import check_patterns, matches
from toolcaddie.sources.openapi.reading import is_address, parse
from toolcaddie.sources.openapi.schemas import Schemas
from toolcaddie.sources.openapi.security import Scheme, check_auth, schemes_of
from toolcaddie.sources.openapi.tools import Makers, Route, categories_of, names_of, tool_of


class Reading(Struct, frozen=True, kw_only=True):
    """Everything that a document says, as far as it is used."""

    tools: tuple[Tool, ...]
    categories: tuple[Category, ...]
    routes: Mapping[str, Route]
    schemes: Mapping[str, Scheme]
    servers: Mapping[str, str]
    """The base address for each tool that can be called."""
    problems: Sequence[str]


def read(content: bytes, api: OpenApi, bounds: Bounds) -> Reading:
    """Returns the tools of a document. Raises `CatalogError` for a document that cannot be read or has no operations, and
    `ConfigError` for settings that do not fit it."""
    what = f"OpenAPI source {api.name!r}"
    document = parse(content, what=f"the document {api.document!r}")
    operations, problems = operations_of(document)
    if not operations:
        detail = f": {problems[0]}" if problems else ""
        raise CatalogError(f"{what}: the document has no operations{detail}")
    named = list(zip(operations, names_of(operations, api.prefix, api.name), strict=True))
    check_patterns((*api.include, *api.exclude, *api.read_only), named, what=what)
    schemes = schemes_of(document)
    check_auth(api, schemes)
    wanted = [(operation, name) for operation, name in named if _is_wanted(operation, name, api)]
    return _converted(document, wanted, api, schemes, problems, bounds)


def _is_wanted(operation: Operation, name: str, api: OpenApi) -> bool:
    included = any(pattern == "*" or matches(pattern, operation, name) for pattern in api.include)
    return included and not any(matches(pattern, operation, name) for pattern in api.exclude)


def _converted(
    document: Mapping[str, Any],
    wanted: Sequence[tuple[Operation, str]],
    api: OpenApi,
    schemes: Mapping[str, Scheme],
    problems: list[str],
    bounds: Bounds,
) -> Reading:
    makers = Makers(plain=Schemas(document), files=Schemas(document, files=True))
    tools: list[Tool] = []
    routes: dict[str, Route] = {}
    for operation, name in wanted:
        tool, routes[name], note = tool_of(operation, name, api, makers, schemes, bounds)
        tools.append(tool)
        problems += [note] if note else []
    common = server_addresses(document.get("servers")) or ("/",)
    servers = {name: address for operation, name in wanted if (address := server_of(operation, common, api))}
    return Reading(
        tools=tuple(tools),
        categories=categories_of(document, (operation for operation, _ in wanted), api),
        routes=routes,
        schemes=schemes,
        servers=servers,
        problems=tuple(dict.fromkeys((*problems, *makers.plain.problems, *makers.files.problems))),
    )


def server_of(operation: Operation, common: Sequence[str], api: OpenApi) -> str:
    """Returns the base address for an operation; empty: none of its servers may be called."""
    if not operation.servers and api.servers:
        return api.servers[0]
    addresses = [joined(_base(api), address) for address in operation.servers or common]
    allowed = [each for each in addresses if "{" not in each and _may_call(each, api)]
    return allowed[0] if allowed else ""


def _base(api: OpenApi) -> str:
    return api.document if is_address(api.document) else (api.servers[0] if api.servers else "")


def _may_call(address: str, api: OpenApi) -> bool:
    if api.servers:
        return any(lies_below(address, server) for server in api.servers)
    try:
        return is_address(api.document) and origin(address) == origin(api.document)
    except ValueError:
        return False
