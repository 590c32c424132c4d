"""A real HTTP server that reads each request by an OpenAPI document, and arguments for its tools, drawn from their schemas.

The server shares no code with the source: it splits what was sent before it decodes it, and checks each value with `jsonschema`.
It reads JSON and URL-encoded bodies, and lists and single values in parameters; `deepObject` is the one form of objects.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from jsonschema import Draft202012Validator

SEPARATORS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
WORDS = ("a", "/", "?", "#", "&", "%", "+", ";", " ", "'", '"', "ü", "日本", "=", ",", "|", "b", "7")


@dataclass
class Bed:
    document: Mapping[str, Any]
    url: str = ""
    arrived: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The operation and the values of each request, by place and name."""

    async def answer(self, request: web.Request) -> web.Response:
        try:
            operation, values = await self._values(request)
        except (ValueError, KeyError) as error:
            return web.json_response({"invalid": repr(error)}, status=400)
        self.arrived.append((operation, values))
        return web.json_response({"valid": operation})

    async def _values(self, request: web.Request) -> tuple[str, dict[str, Any]]:
        path, _, query = request.raw_path.partition("?")
        template, item, texts = self._match(path)
        node = item[request.method.lower()]
        declared = (
            {(each["in"], each["name"]): each for each in (*item.get("parameters", ()), *node["parameters"])}
            if ("parameters" in node)
            else {}
        )
        pairs = [tuple(pair.partition("=")[::2]) for pair in query.split("&") if pair]
        cookies = [tuple(pair.partition("=")[::2]) for pair in request.headers.get("Cookie", "").split("; ") if pair]
        sent = {
            "path": [(name, text) for name, text in texts.items()],
            "query": pairs,
            "cookie": cookies,
            "header": [
                (name, request.headers[name])
                for place, name in declared
                if place == "header" and name in request.headers
            ],
        }
        values = {}
        for (place, name), each in declared.items():
            value = self._value(each, sent[place])
            if value is not None:
                self._check(each, value)
                values[f"{place} {name}"] = value
            elif each.get("required"):
                raise ValueError(f"{place} {name} is missing")
        self._refuse_unknown(declared, pairs)
        if "requestBody" in node:
            values["body"] = self._body(node["requestBody"]["content"], request.content_type, await request.read())
        return f"{request.method} {template}", values

    def _match(self, path: str) -> tuple[str, Mapping[str, Any], dict[str, str]]:
        for template, item in self.document["paths"].items():
            if match := re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]*)", re.escape(template)), path):
                return template, item, match.groupdict()
        raise ValueError(f"no operation has the path {path}")

    def _refuse_unknown(self, declared: Mapping[tuple[str, str], Any], pairs: list[tuple[str, ...]]) -> None:
        for name, _ in pairs:
            if ("query", unquote(name).partition("[")[0]) not in declared:
                raise ValueError(f"the query has an unknown name {name}")

    def _value(self, parameter: Mapping[str, Any], sent: list[Any]) -> Any:
        name, style = parameter["name"], parameter.get("style")
        if style == "deepObject":
            inner = {
                unquote(key)[len(name) + 1 : -1]: unquote(text)
                for key, text in sent
                if unquote(key).startswith(f"{name}[")
            }
            kinds = parameter["schema"]["properties"]
            return {key: _cast(kinds[key], text) for key, text in inner.items()} or None
        texts = [text for key, text in sent if unquote(key) == name]
        if not texts:
            return None
        if "content" in parameter:
            return json.loads(unquote(texts[0]))
        schema = self._target(parameter["schema"])
        if schema.get("type") != "array":
            return _cast(schema, unquote(texts[0]))
        return [unquote(text) for text in _split(parameter, texts)]

    def _target(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = schema.get("$ref")
        return self.document["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema

    def _check(self, holder: Mapping[str, Any], value: Any) -> None:
        schema = holder["schema"] if "schema" in holder else holder["content"]["application/json"]["schema"]
        whole = {"components": self.document["components"], "allOf": [schema]}
        for error in Draft202012Validator(whole).iter_errors(value):
            raise ValueError(f"{holder.get('in', 'body')} {holder.get('name', '')}: {error.message}")

    def _body(self, content: Mapping[str, Any], media_type: str, body: bytes) -> Any:
        holder = content[media_type]
        if media_type == "application/json":
            value = json.loads(body)
        else:
            kinds = holder["schema"]["properties"]
            pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)
            value = {name: _cast(kinds[name], text) for name, text in pairs}
        self._check(holder, value)
        return value


def _split(parameter: Mapping[str, Any], texts: list[str]) -> list[str]:
    style, explode, text = parameter.get("style"), parameter.get("explode"), texts[0]
    if parameter["in"] == "query":
        return texts if explode is not False else text.split(SEPARATORS.get(str(style), ","))
    if style == "matrix":
        begin = f";{parameter['name']}="
        if not text.startswith(begin):
            raise ValueError(f"{text} does not begin with {begin}")
        return text[len(begin) :].split(begin if explode else ",")
    if style == "label" and not text.startswith("."):
        raise ValueError(f"{text} does not begin with a dot")
    return text.removeprefix("." if style == "label" else "").split(",")


def _cast(schema: Mapping[str, Any], text: str) -> Any:
    if schema.get("type") == "boolean":
        return {"true": True, "false": False}[text]
    return int(text) if schema.get("type") == "integer" else text


@asynccontextmanager
async def serving(document: Mapping[str, Any]) -> AsyncIterator[Bed]:
    """Yields a running server for a document."""
    bed = Bed(document)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", bed.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    bed.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield bed
    finally:
        await runner.cleanup()


def drawn(schema: Mapping[str, Any], root: Mapping[str, Any], source: random.Random, depth: int = 0) -> Any:
    """Returns a value that fits the schema. `depth` ends recursion: deep values have no optional parts."""
    if "$ref" in schema:
        return drawn(root["$defs"][schema["$ref"].rpartition("/")[2]], root, source, depth)
    if "enum" in schema:
        return source.choice(schema["enum"])
    kind = schema.get("type")
    kind = source.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        required = schema.get("required", ())
        names = [name for name in schema["properties"] if name in required or (depth < 4 and source.random() < 0.7)]
        return {name: drawn(schema["properties"][name], root, source, depth + 1) for name in names}
    if kind == "array":
        count = source.randint(schema.get("minItems", 0), 3 if depth < 4 else schema.get("minItems", 0))
        return [drawn(schema["items"], root, source, depth + 1) for _ in range(count)]
    if kind == "integer":
        return source.randint(-9, 999)
    if kind == "boolean":
        return source.random() < 0.5
    return None if kind == "null" else "".join(source.choices(WORDS, k=source.randint(schema.get("minLength", 0), 5)))
