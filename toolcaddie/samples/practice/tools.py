"""The tools of a conversation as the practice model (a model without a network, for trying Toolcaddie) knows them, read from
their definitions, and Toolcaddie's selector, which ranks them. A slot is one argument of a tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.meta_names import META_TOOLS
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.schema.walk import resolve
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.samples.practice.english import ANSWERING, READ, VERBS, families_of, listed, stem, stems, words
from toolcaddie.selection.selector import Selector

_SELECTOR = Selector()
_SEARCHES, _NAMING, _PLAIN, _ID_ENDINGS = map(listed, ("search", "naming", "plain", "id"))


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One argument of a tool. `type` is its type in JSON Schema; if there are several, the first that is not null."""

    name: str
    type: str
    format: str
    description: str
    choices: tuple[Any, ...]
    required: bool
    schema: JsonObject

    @cached_property
    def parts(self) -> list[str]:
        """The words of the argument's name."""
        return words(self.name) or [self.name]

    @cached_property
    def words(self) -> frozenset[str]:
        """Stems of the name's words."""
        return frozenset(map(stem, self.parts))

    @property
    def is_id(self) -> bool:
        """True if it takes an identifier: `id`, `order_id`, `orderId`."""
        return not self.choices and self.type in ("string", "integer") and self.parts[-1] in _ID_ENDINGS

    @property
    def thing(self) -> str:
        """The word for the thing that an identifier identifies; empty for a bare `id`."""
        return next((word for word in reversed(self.parts) if word not in _ID_ENDINGS), "")

    @property
    def is_free_text(self) -> bool:
        return self.type == "string" and not self.choices and not self.format and "pattern" not in self.schema

    @property
    def is_search(self) -> bool:
        return self.type == "string" and not self.choices and self.parts[0] in _SEARCHES

    @property
    def is_naming(self) -> bool:
        """True if it takes the name of a thing."""
        return self.type == "string" and not self.choices and not _NAMING.isdisjoint(self.words)


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownTool:
    """A tool that can be called, directly or through `execute_tool`. `schema` is None until the
    model has been shown it."""

    name: str
    description: str = ""
    schema: JsonObject | None = None
    offered: bool = True

    @cached_property
    def name_stems(self) -> list[str]:
        return stems(self.name)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of name, description and arguments."""
        slots = " ".join(f"{slot.name} {slot.description} {slot.choices}" for slot in self.slots)
        return frozenset([*self.name_stems, *stems(f"{self.description} {slots}")])

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return slots_of(self.schema or {})

    @cached_property
    def opening(self) -> str:
        """The first word of the description, which often is another verb for the tool's action."""
        return next(iter(stems(self.description[:100])), "")

    @cached_property
    def families(self) -> frozenset[str]:
        """Families of the verbs in the tool's name."""
        return families_of(self.name_stems)

    @cached_property
    def nouns(self) -> frozenset[str]:
        """Stems of the words in the tool's name that are not verbs: the tool's topic."""
        return frozenset(word for word in self.name_stems if word not in VERBS and word not in _PLAIN)

    @property
    def reads(self) -> bool:
        return READ in self.families

    @property
    def changes(self) -> bool:
        """True if the name of the tool has a known verb and no verb of reading or computing. If it has no known verb: True if its
        first word is also the first word of the description, so that it seems to be a verb. Conversions of a stored thing count
        as changes."""
        if not self.families:
            return self.opening == next(iter(self.name_stems), None)
        converts = "convert" in self.families and any(slot.is_id and slot.required for slot in self.slots)
        return converts or self.families.isdisjoint(ANSWERING)

    def does(self, verb: str) -> bool:
        """Returns True if the stem of a verb stands in the tool's name or opens its description, or if these have a verb of the
        same family (a group of verbs with similar meanings, such as `create` and `add`)."""
        own = {*self.name_stems, self.opening}
        return verb in own or not families_of([verb]).isdisjoint(self.families | families_of([self.opening]))


def slots_of(schema: JsonObject) -> tuple[Slot, ...]:
    """Returns the arguments of a schema. A client's schema may be anything: unknown parts are ignored."""
    required, properties = _list(schema.get("required")), schema.get("properties")
    if not isinstance(properties, Mapping):
        return ()
    return tuple(_slot(str(name), child, schema, required=name in required) for name, child in properties.items())


def _slot(name: str, child: Any, root: JsonObject, *, required: bool) -> Slot:
    """Returns an argument. `child` is its schema, `root` the schema in which references are resolved. Of several types or
    alternatives the first that is not null counts."""
    body = dict(_resolved(child, root))
    for union in ("anyOf", "oneOf"):
        options = [_resolved(option, root) for option in _list(body.get(union))]
        body = {**next((option for option in options if option.get("type") != "null"), {}), **body}
    types = body.get("type", "string")
    names = [types] if isinstance(types, str) else [str(kind) for kind in _list(types) if kind != "null"]
    choices = [body["const"]] if "const" in body else _list(body.get("enum"))
    return Slot(
        name=name,
        type=names[0] if names else "string",
        format=str(body.get("format", "")),
        description=str(body.get("description", "")),
        choices=tuple(choice for choice in choices if choice is not None),
        required=required,
        schema=body,
    )


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _resolved(node: Any, root: JsonObject) -> JsonObject:
    """Returns a subschema with its reference into the same document resolved."""
    for _ in range(8):  # a longer chain of references is taken for a cycle
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            target, rest = resolve(root, node["$ref"]), {key: node[key] for key in node if key != "$ref"}
            node = {**target, **rest} if isinstance(target, Mapping) else rest
    return node if isinstance(node, Mapping) else {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Toolbox:
    """All tools known in a conversation. Meta tools (tools that find and call other tools) are separate."""

    tools: Mapping[str, KnownTool]
    meta: Mapping[str, KnownTool]
    """The meta tools offered."""

    @cached_property
    def _view(self) -> View:
        tools = [
            Tool(name=tool.name, description=tool.description, input_schema=tool.schema or {})
            for tool in self.tools.values()
        ]
        return View(catalog=Catalog.of(tools, check_schemas=False))

    def ranked(self, query: SelectionQuery, limit: int) -> list[tuple[KnownTool, float]]:
        """Returns the tools that match, the best first, each with its score, 0 to 1."""
        matches = _SELECTOR.ranked(self._view, query, limit).tools
        return [(self.tools[match.tool.name], match.score) for match in matches]

    @cached_property
    def verbs(self) -> frozenset[str]:
        """First words of the tools' names. They count as verbs, even if english.toml does not contain them."""
        return frozenset(tool.name_stems[0] for tool in self.tools.values() if tool.name_stems)

    @cached_property
    def name_stems(self) -> frozenset[str]:
        return frozenset(word for tool in self.tools.values() for word in tool.name_stems)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(tool.stems for tool in self.tools.values()))


def toolbox_of(
    offered: Iterable[Any], shown_tools: Iterable[Mapping[str, Any]] = (), *, only: frozenset[str] | None = None
) -> Toolbox:
    """Returns the tools of a request. `offered`: its definitions in OpenAI's function format, as mappings or raw JSON; other
    kinds are omitted. `shown_tools`: definitions from the results of meta tools. `only`: names of the offered tools that may be
    called; None: all."""
    return _toolbox(tuple(map(_canonical, offered)), tuple(map(_canonical, shown_tools)), only)


def _canonical(definition: Any) -> bytes:
    """Returns a definition as JSON, so that equal definitions are equal keys of the cache of `_toolbox`."""
    if isinstance(definition, bytes | bytearray | memoryview | msgspec.Raw):
        return bytes(definition)
    return canonical_json(definition)


@lru_cache(maxsize=64)
def _toolbox(offered: tuple[bytes, ...], shown_tools: tuple[bytes, ...], only: frozenset[str] | None) -> Toolbox:
    """Returns the toolbox. It is cached, because all requests of a conversation have the same tools."""
    functions: list[Any] = [_mapping(msgspec.json.decode(definition)).get("function") for definition in offered]
    known = [
        _tool(body, offered=True) for body in functions if is_tool(body) and (only is None or body["name"] in only)
    ]
    known += [_tool(body, offered=False) for body in map(msgspec.json.decode, shown_tools) if is_tool(body)]
    tools: dict[str, KnownTool] = {}
    for tool in known:  # of several definitions of a tool, the first that has a schema
        if tool.name not in tools or tools[tool.name].schema is None:
            tools[tool.name] = tool
    return Toolbox(
        tools={name: tool for name, tool in tools.items() if name not in META_TOOLS},
        meta={name: tool for name, tool in tools.items() if name in META_TOOLS and tool.offered},
    )


def is_tool(body: Any) -> bool:
    """Returns True if a value describes a tool."""
    return isinstance(body, Mapping) and isinstance(body.get("name"), str)


def _tool(body: Mapping[str, Any], *, offered: bool) -> KnownTool:
    """Returns a tool from its definition. A tool found by search (not `offered`) may lack a schema, which can be requested."""
    schema = next((body[key] for key in ("parameters", "input_schema", "inputSchema") if body.get(key)), None)
    if (schema is None and offered) or not isinstance(schema, Mapping | None):
        schema = {"type": "object", "properties": {}}
    return KnownTool(name=body["name"], description=str(body.get("description") or ""), schema=schema, offered=offered)
