"""A real HTTP server that has every request checked by `openapi-core`, a validator that shares no code with Toolcaddie.

`openapi-core` matches the address, takes parameters and body apart, and checks each value. It knows the styles `simple`, `form`,
`pipeDelimited` and `deepObject`; the server of `bed` checks the others.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import yaml
from aiohttp import web
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from tests.sources.openapi.drawing import FORMATS, HOSTILE, INSIDE, PLAIN, TAME, Undrawable, arguments
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool
from toolcaddie.parts import Parts, Secrets
from toolcaddie.sources.openapi import Credential, OpenApi, OpenApiSource

JSON_TYPES = ("json-patch", "merge-patch", "strategic-merge-patch", "apply-patch", "vnd.api", "problem", "hal")
UNDECIDED = "could not be resolved"
"""Part of the messages for requests on which the validator fails itself, for instance at the mapping of a discriminator."""
KNOWN_FORMATS = (*(FORMATS.keys() - {"url"}), "binary", "int32", "int64", "float", "double")
OWN_ERRORS = (TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors that are the validator's own, not the request's."""
CONTEXT = RunContext(run_id="r1", view=View(catalog=Catalog.of(())), model="m", principal=Principal())


class Received:
    """A request in the form that `openapi-core` reads."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.host_url = f"http://{request.host}"
        self.path = request.url.path
        self.method = request.method.lower()
        self.body = body or None
        self.content_type = request.headers.get("Content-Type", "")
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(list(request.query.items())),
            header=Headers(list(request.headers.items())),
            cookie=ImmutableMultiDict(list(request.cookies.items())),
        )


@dataclass
class Judge:
    document: Mapping[str, Any]
    url: str = ""
    faults: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    """What was read from each valid request."""
    api: OpenAPI | None = None

    def serve(self, url: str) -> None:
        self.url = url
        here = {**_readable(self.document, self.document), "servers": [{"url": url}]}
        readers = {f"application/{name}+json": json.loads for name in JSON_TYPES}
        readers |= {"application/json; charset=utf-8": json.loads, "*/*": json.loads}
        self.api = OpenAPI.from_dict(
            here, config=Config(spec_validator_cls=None, extra_media_type_deserializers=readers)
        )

    async def answer(self, request: web.Request) -> web.Response:
        assert self.api is not None
        received = Received(request, await request.read())
        try:
            result = self.api.unmarshal_request(received)
            result.raise_for_errors()
        except (OpenAPIError, *OWN_ERRORS) as error:
            reasons = [repr(error), *(each.message for each in getattr(error.__cause__, "schema_errors", ()))]
            reasons += [] if isinstance(error, OpenAPIError) else [UNDECIDED]
            self.faults.append(f"{request.method} {request.raw_path[:300]}: {'; '.join(reasons)[:600]}")
            return web.json_response({"invalid": reasons[0][:200]}, status=400)
        read = result.parameters
        self.values.append([read.path, read.query, read.header, read.cookie, result.body])
        return web.json_response({"valid": True})


def _readable(node: Any, document: Mapping[str, Any]) -> Any:
    """Returns a copy of a document without what `openapi-core` takes for rules although it is none: discriminators, which only
    help to choose a schema, defaults, formats that nobody defined, and parameters for headers that OpenAPI ignores."""
    if isinstance(node, list):
        return [_readable(each, document) for each in node if not _is_ignored(each, document)]
    if not isinstance(node, Mapping):
        return node
    return {key: _readable(value, document) for key, value in node.items() if not _is_hint(key, value)}


def _is_hint(key: str, value: Any) -> bool:
    if key == "discriminator":
        return isinstance(value, Mapping) and isinstance(value.get("propertyName"), str)
    if key == "default":
        return not isinstance(value, Mapping)
    return key == "format" and isinstance(value, str) and value not in KNOWN_FORMATS


def _is_ignored(node: Any, document: Mapping[str, Any]) -> bool:
    if not isinstance(node, Mapping) or "/parameters/" not in node.get("$ref", "/parameters/"):
        return False
    node = _target(document, node)
    return node.get("in") == "header" and str(node.get("name")).lower() in ("accept", "authorization", "content-type")


@asynccontextmanager
async def judging(document: Mapping[str, Any]) -> AsyncIterator[Judge]:
    """Yields a running server for a document."""
    judge = Judge(document)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", judge.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    judge.serve(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        yield judge
    finally:
        await runner.cleanup()


@dataclass
class Verdict:
    operations: int
    called: int
    """Operations that were called at least once."""
    calls: int
    valid: int
    faults: list[str]
    left_out: Counter[str]
    """The numbers of tools that were not called, by reason."""
    undecided: int = 0
    """Calls on which the validator failed itself, beyond `calls`."""


async def verdict_on(document: Mapping[str, Any], calls: int, *, judged: Mapping[str, Any] | None = None) -> Verdict:
    """Makes generated calls of all operations, in turn, and returns what the judge says of their requests. `judged`: the document
    by which it judges, if it is another one."""
    chance = Random(11)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.json"
        path.write_text(json.dumps(document, default=str))
        async with judging(judged or json.loads(path.read_text())) as judge:
            # A schema that is shortened may accept more than its document, so none is shortened here.
            api = OpenApi(
                name="judged",
                document=str(path),
                servers=(judge.url,),
                auth=_credentials(document),
                max_schema_bytes=16 * 1024 * 1024,
            )
            source = OpenApiSource(api, Parts(secrets=Secrets(SECRETS)))
            await source.open()
            try:
                return await _called(source, judge, calls, chance)
            finally:
                await source.close()


SECRETS = {"JUDGED_TOKEN": "t0ken", "JUDGED_PASSWORD": "pass"}


def _credentials(document: Mapping[str, Any]) -> dict[str, Credential]:
    """Returns a credential for each security scheme of the document."""
    schemes = document.get("components", {}).get("securitySchemes", {})
    basic = Credential(username="ann", password_env="JUDGED_PASSWORD")
    token = Credential(token_env="JUDGED_TOKEN")
    return {name: basic if scheme.get("scheme") == "basic" else token for name, scheme in schemes.items()}


async def _called(source: OpenApiSource, judge: Judge, calls: int, chance: Random) -> Verdict:
    tools = list(source.tools())
    verdict = Verdict(len(tools), 0, 0, 0, [], Counter())
    called: set[str] = set()
    reasons = {tool.name: beyond(source, tool, judge.document) for tool in tools}
    verdict.left_out.update(filter(None, reasons.values()))
    waiting = [tool for tool in tools if not reasons[tool.name]]
    chance.shuffle(waiting)
    while verdict.calls < calls and waiting:
        tool = waiting.pop(0)
        try:
            values = arguments(tool.input_schema, chance, _words(source, tool))
        except Undrawable:
            verdict.left_out["no arguments were drawn"] += 1
            continue
        fault = await _fault(source, judge, tool, values)
        if UNDECIDED in fault:
            verdict.undecided += 1
            continue
        waiting.append(tool)
        called.add(tool.name)
        verdict.calls += 1
        verdict.valid += not fault
        verdict.faults += [f"{tool.name}: {fault}; arguments {json.dumps(values)[:300]}"] if fault else []
    verdict.called = len(called)
    return verdict


def beyond(source: OpenApiSource, tool: Tool, document: Mapping[str, Any]) -> str:
    """Returns the reason why `openapi-core` cannot read the requests of an operation, or an empty text."""
    assert source._reading is not None
    operation = source._reading.routes[tool.name].operation
    if re.search(r"[#?]|\}[^/]*\{", operation.path):
        return "operations of one address"
    for each in operation.parameters:
        schema = _target(document, each.schema)
        if schema.get("readOnly"):
            return "parameters that are marked as read-only"
        kind = schema.get("type", "string")
        if each.style in ("label", "matrix", "spaceDelimited"):
            return f"style {each.style}"
        if not each.is_json and (not isinstance(kind, str) or {"anyOf", "oneOf", "allOf"} & schema.keys()):
            return "parameters of several types"
        if not each.is_json and kind == "object" and (each.style != "deepObject" or not _is_flat(document, schema)):
            return "parameters that are objects"
        if kind == "array" and not _is_flat(document, {"properties": {"items": schema.get("items", {})}}):
            return "parameters that are lists of objects"
    body = operation.body
    if body is not None and not body.media_type.partition(";")[0].endswith("json"):
        schema = _target(document, body.schema)
        if not schema.get("properties", {}).keys() >= set(schema.get("required", ())):
            return "forms with fields that are not described"
        if "multipart" in body.media_type and any(each.get("type") != "string" for each in _members(document, schema)):
            return "multipart bodies with other values than texts"
        is_form = body.media_type in ("application/x-www-form-urlencoded", "multipart/form-data")
        if body.media_type != "text/plain" and (not is_form or body.encoding or not _is_flat(document, schema)):
            return "bodies with files or nested forms"
    return ""


def _target(document: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    while isinstance(schema, Mapping) and "$ref" in schema:
        node: Any = document
        for key in schema["$ref"].removeprefix("#/").split("/"):
            key = unquote(key).replace("~1", "/").replace("~0", "~")
            node = node[int(key)] if isinstance(node, list) else node[key]
        schema = node
    return schema if isinstance(schema, Mapping) else {}


def _is_flat(document: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Returns True if all members are single values and none is a file."""
    members = _members(document, schema)
    return bool(members) and all(
        each.get("type") in ("string", "integer", "number", "boolean") and each.get("format") != "binary"
        for each in members
    )


def _members(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_target(document, each) for each in schema.get("properties", {}).values()]


_WORDS = {"path": INSIDE, "query": TAME, "header": PLAIN, "cookie": PLAIN}


def _words(source: OpenApiSource, tool: Tool) -> dict[str, tuple[str, ...]]:
    """Returns the pieces of which the texts of each argument are made."""
    assert source._reading is not None
    route = source._reading.routes[tool.name]
    words = {name: _WORDS[each.location] for name, each in route.parameters.items()}
    body = route.operation.body
    return words | {"body": HOSTILE if body is None or "multipart" not in body.media_type else PLAIN}


async def _fault(source: OpenApiSource, judge: Judge, tool: Tool, values: dict[str, Any]) -> str:
    """Calls the tool. Returns what is wrong with its request, or an empty text."""
    faults, arrived = len(judge.faults), len(judge.values)
    result = await source.call_tool(tool, values, CONTEXT)
    if len(judge.faults) > faults:
        return judge.faults[-1]
    if len(judge.values) == arrived:
        return f"no request arrived: {result.text[:300]}"
    lost = Counter(leaves(values)) - Counter(leaves(judge.values[-1]))
    lost = {each for each in lost if each not in FORMATS.values()}  # dates and the like arrive as objects
    return f"lost {sorted(lost)[:5]}, arrived {judge.values[-1]!r:.400}" if lost else ""


def leaves(value: Any) -> Iterator[str]:
    """Yields the single values inside a value, as text."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(float(value))
    elif value is not None:
        yield str(value)


def everything(version: str) -> dict[str, Any]:
    """Returns the document `everything.yaml` in a version of OpenAPI."""
    document: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "everything.yaml").read_text())
    document["openapi"] = version
    schemas = document["components"]["schemas"]
    if version.startswith("3.0"):
        schemas["Node"]["properties"]["name"]["nullable"] = True
        schemas["Line"]["properties"]["price"]["exclusiveMinimum"] = True
    else:
        schemas["Node"]["properties"]["name"]["type"] = ["string", "null"]
        schemas["Line"]["properties"]["price"]["exclusiveMinimum"] = 1
        # In 3.1 a property that is required is required in requests as well, even if it is read-only.
        schemas["Order"]["required"].remove("id")
    return document
