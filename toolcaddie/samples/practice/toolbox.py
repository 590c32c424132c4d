"""The tools the practice model knows of, and how it chooses among them: by the words they share with a wish."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from toolcaddie.core.meta_names import META_TOOLS
from toolcaddie.core.tool import JsonObject
from toolcaddie.samples.practice.words import (
    READ,
    VERBS,
    content_stems,
    joined,
    split_words,
    stem,
    stems,
    stems_of,
    words_of,
)

_ANSWERING = frozenset({READ, "validate", "count", "convert"})
"""Families of verbs that change nothing."""

_PLAIN = stems_of("list all info details stats statistics count total summary overview data new")
_SEARCHES = words_of("search query q name keyword term filter")
NAMING_WORDS = stems_of("name title label subject")
_ID_ENDINGS = words_of("id ids uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One argument a tool takes. `type` is JSON Schema's; of a union the first that is not null."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    choices: tuple[Any, ...] = ()
    required: bool = False
    schema: JsonObject

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(map(stem, self.parts))

    @property
    def parts(self) -> list[str]:
        """The words of the name, as they are."""
        return split_words(self.name) or [self.name]

    @property
    def is_id(self) -> bool:
        """It wants the identifier of something: `id`, `order_id`, `orderId`."""
        return not self.choices and self.type in ("string", "integer") and self.parts[-1] in _ID_ENDINGS

    @property
    def thing(self) -> tuple[str, ...]:
        """Of an identifier: stems of what it identifies; empty for a bare `id`."""
        return tuple(word for word in self.words if word not in _ID_ENDINGS and word != "id")

    @property
    def items(self) -> JsonObject:
        """Of an array: the schema of its items."""
        items = self.schema.get("items")
        return items if isinstance(items, Mapping) else {}

    @property
    def is_search(self) -> bool:
        return self.type == "string" and not self.choices and self.parts[0] in _SEARCHES

    @property
    def is_free_text(self) -> bool:
        return self.type == "string" and not self.choices and not self.format and "pattern" not in self.schema

    @property
    def is_naming(self) -> bool:
        """It wants what something is called."""
        return self.type == "string" and not self.choices and not NAMING_WORDS.isdisjoint(self.words)


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownTool:
    """A tool that can be called, directly or through `execute_tool`. `schema` is None until somebody showed it."""

    name: str
    description: str = ""
    schema: JsonObject | None = None
    offered: bool = True

    @cached_property
    def name_stems(self) -> tuple[str, ...]:
        return tuple(stems(joined(self.name))) or (self.name,)

    @cached_property
    def families(self) -> frozenset[str]:
        """What the verb in its name does: the first word's families, or those of the first word that has any."""
        return next((VERBS[word] for word in self.name_stems if word in VERBS), VERBS.get(self.opening, frozenset()))

    @cached_property
    def topic(self) -> tuple[str, ...]:
        """The name without the verb it begins with and without verbs of reading or listing."""
        words = self.name_stems[1:] if self.name_stems[0] in VERBS else self.name_stems
        return tuple(word for word in words if READ not in VERBS.get(word, ())) or self.name_stems

    @cached_property
    def nouns(self) -> tuple[str, ...]:
        """The things in its name."""
        return tuple(word for word in self.topic if word not in VERBS and word not in _PLAIN)

    @cached_property
    def opening(self) -> str:
        """The first word of its description, which often is another verb for what it does."""
        return next(iter(stems(joined(self.description))), "")

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return slots_of(self.schema or {})

    @cached_property
    def required(self) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.required)

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """Stem -> how much it says about this tool, by the best place it stands in."""
        found: dict[str, float] = {}
        for slot in self.slots:
            _weigh(found, content_stems(slot.description), 0.3)
            _weigh(found, content_stems(" ".join(str(choice) for choice in slot.choices)), 0.9)
            _weigh(found, slot.words, 0.8)
        _weigh(found, content_stems(self.description), 1.2)
        _weigh(found, self.name_stems, 3.0)
        return found

    @property
    def changes(self) -> bool:
        """Its name has a verb, and not one of reading or reckoning; or one we do not know that its description opens with."""
        if not self.families:
            return self.opening == self.name_stems[0]
        return self.families.isdisjoint(_ANSWERING) or (
            "convert" in self.families and any(s.is_id for s in self.required)
        )

    @property
    def does(self) -> frozenset[str]:
        """What the verbs of its name and of its description do."""
        return self.families | VERBS.get(self.opening, frozenset())

    @property
    def reads(self) -> bool:
        return READ in self.families


def _weigh(found: dict[str, float], words: Iterable[str], weight: float) -> None:
    for word in words:
        found[word] = max(weight, found.get(word, 0.0))


def slots_of(schema: JsonObject) -> tuple[Slot, ...]:
    """The arguments a schema describes. A client's schema may be anything: what is not understood is passed over."""
    required, properties = schema.get("required"), schema.get("properties")
    names = required if isinstance(required, list | tuple) else ()
    if not isinstance(properties, Mapping):
        return ()
    return tuple(_slot(str(name), child, schema, name in names) for name, child in properties.items())


def _slot(name: str, child: Any, root: JsonObject, required: bool) -> Slot:
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


def _resolved(node: Any, root: JsonObject) -> JsonObject:
    """A subschema with its reference into the same document followed."""
    for _ in range(8):  # a chain of references that is longer is a ring
        if not isinstance(node, Mapping):
            return {}
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        target: Any = root
        for part in reference.lstrip("#/").split("/"):
            target = target.get(part, {}) if isinstance(target, Mapping) else {}
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}} if target else {}
    return {}


def offered_tools(definitions: Iterable[Any]) -> list[KnownTool]:
    """The tools of a request, from OpenAI's function format as mappings or as raw JSON; other kinds are left out."""
    tools = []
    for definition in definitions:
        if isinstance(definition, bytes | bytearray | memoryview | msgspec.Raw):
            definition = msgspec.json.decode(definition)
        function = definition.get("function") if isinstance(definition, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            tools.append(as_tool(function))
    return tools


def as_tool(body: Mapping[str, Any], *, offered: bool = True) -> KnownTool:
    """A tool from its description as a request, a search or a schema answer shows it."""
    schema = next((body[key] for key in ("parameters", "input_schema", "inputSchema") if body.get(key)), None)
    if (schema is None and offered) or not isinstance(schema, Mapping | None):
        schema = {"type": "object", "properties": {}}
    return KnownTool(
        name=body["name"], description=str(body.get("description") or ""), schema=schema, offered=offered
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """All tools known at this point of a conversation, the meta tools apart."""

    tools: tuple[KnownTool, ...]
    meta: Mapping[str, KnownTool]
    """The meta tools offered, by name."""

    @classmethod
    def of(cls, offered: Sequence[KnownTool], found: Sequence[KnownTool] = ()) -> Toolbox:
        """`found`: learned of through search and schema answers; of several tellings of one tool the fullest counts."""
        known: dict[str, KnownTool] = {}
        for tool in (*offered, *found):
            earlier = known.get(tool.name)
            if earlier is None or (earlier.schema is None and tool.schema is not None):
                known[tool.name] = tool
        return cls(
            tools=tuple(tool for name, tool in known.items() if name not in META_TOOLS),
            meta={tool.name: tool for tool in offered if tool.name in META_TOOLS},
        )

    def get(self, name: str) -> KnownTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    @cached_property
    def frequency(self) -> Mapping[str, int]:
        """Stem -> number of tools whose name or description has it."""
        counts: dict[str, int] = {}
        for tool in self.tools:
            for word, weight in tool.weights.items():
                if weight > 0.5:
                    counts[word] = counts.get(word, 0) + 1
        return counts

    @cached_property
    def leading(self) -> frozenset[str]:
        """First words of the tools' names: verbs of this catalog, whether we know them or not."""
        return frozenset(tool.name_stems[0] for tool in self.tools if tool.name_stems)

    @cached_property
    def _name_words(self) -> frozenset[str]:
        return frozenset(word for tool in self.tools for word in tool.name_stems)

    def names(self, word: str) -> bool:
        """Whether a stem stands in a tool's name."""
        return word in self._name_words

    def knows(self, word: str) -> bool:
        """Whether a stem stands in a tool's name or description."""
        return word in self.frequency

    def rarity(self, word: str) -> float:
        return math.log(1.0 + (len(self.tools) + 1) / (1.0 + self.frequency.get(word, 0)))

    @cached_property
    def topics(self) -> Mapping[str, frozenset[str]]:
        """Noun of tools' names -> the words in the descriptions of all tools that have it.

        So a word that one tool of a topic explains points at its sisters too: "kiln" at whatever has `workshop` in
        its name, when some tool there says that a workshop may be a kiln, a forge or a loom.
        """
        found: dict[str, set[str]] = {}
        for tool in self.tools:
            for noun in tool.nouns:
                found.setdefault(noun, set()).update(content_stems(tool.description))
        return {noun: frozenset(words) for noun, words in found.items()}
