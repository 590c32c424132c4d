"""The tools the practice model knows of, and how it chooses among them: by the words they share with a wish."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from toolcaddie.meta import META_TOOLS
from toolcaddie.providers.practice_words import (
    READ,
    VERBS,
    Wish,
    content_stems,
    joined,
    split_words,
    stem,
    stems,
    words_of,
)
from toolcaddie.tool import JsonObject

_FIGURES = frozenset(
    stem(word) for word in words_of("stats statistics count total summary overview dashboard report analytics metrics")
)
_SEARCHES = words_of("search query q name keyword term filter")
NAMING_WORDS = words_of("name title label subject")
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
        return tuple(stems(self.name))

    @property
    def is_id(self) -> bool:
        """It wants the identifier of something: `id`, `order_id`, `orderId`."""
        return not self.choices and self.type in ("string", "integer") and split_words(self.name)[-1] in _ID_ENDINGS

    @property
    def thing(self) -> tuple[str, ...]:
        """Of an identifier: stems of what it identifies; empty for a bare `id`."""
        return tuple(word for word in self.words if word not in _ID_ENDINGS and word != "id")

    @property
    def is_search(self) -> bool:
        return self.type == "string" and not self.choices and split_words(self.name)[0] in _SEARCHES

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
        return tuple(stems(joined(self.name)))

    @cached_property
    def families(self) -> frozenset[str]:
        """What the verb in its name does: the first word's families, or those of the first word that has any."""
        return next((VERBS[word] for word in self.name_stems if word in VERBS), frozenset())

    @cached_property
    def topic(self) -> tuple[str, ...]:
        """The name without its verb of reading or listing."""
        return tuple(word for word in self.name_stems if READ not in VERBS.get(word, ())) or self.name_stems

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
    def reads(self) -> bool:
        return READ in self.families


def _weigh(found: dict[str, float], words: Iterable[str], weight: float) -> None:
    for word in words:
        found[word] = max(weight, found.get(word, 0.0))


def slots_of(schema: JsonObject) -> tuple[Slot, ...]:
    required = schema.get("required") or ()
    return tuple(
        _slot(name, child, schema, name in required) for name, child in (schema.get("properties") or {}).items()
    )


def _slot(name: str, child: Any, root: JsonObject, required: bool) -> Slot:
    body = dict(_resolved(child, root))
    for union in ("anyOf", "oneOf"):
        options = [_resolved(option, root) for option in body.get(union, ())]
        body = {**next((option for option in options if option.get("type") != "null"), {}), **body}
    types = body.get("type", "string")
    names = [types] if isinstance(types, str) else [kind for kind in types if kind != "null"]
    choices = [body["const"]] if "const" in body else body.get("enum", ())
    return Slot(
        name=name,
        type=names[0] if names else "string",
        format=str(body.get("format", "")),
        description=str(body.get("description", "")),
        choices=tuple(choice for choice in choices if choice is not None),
        required=required,
        schema=body,
    )


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
    if schema is None and offered:
        schema = {"type": "object", "properties": {}}
    return KnownTool(
        name=body["name"], description=str(body.get("description") or ""), schema=schema, offered=offered
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A tool, how well it fits a wish, and which words of the wish it is about (`hits`)."""

    tool: KnownTool
    score: float
    hits: frozenset[str]
    named: frozenset[str]
    """Of the hits, the ones in its name."""
    verb_fits: bool


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

    def rank(self, wish: Wish, *, names_something: bool, ignore: frozenset[str] = frozenset()) -> list[Choice]:
        """The tools that share a word with the wish, best first; ties keep the order offered.

        `names_something`: the message has a name, number or the like that an identifier could be found by.
        `ignore`: stems that belong to such names and say nothing about the tool.
        """
        choices = [self._choice(tool, wish, names_something, ignore) for tool in self.tools]
        return sorted((choice for choice in choices if choice.score > 0), key=lambda choice: -choice.score)

    def _choice(self, tool: KnownTool, wish: Wish, names_something: bool, ignore: frozenset[str]) -> Choice:
        score, hits, named = 0.0, set(), set()
        for words, share in ((wish.content, 1.0), (wish.background, 0.2)):
            for word in words:
                if word in ignore or READ in VERBS.get(word, ()):
                    continue
                found, weight = _closest(word, tool.weights)
                score += share * weight * self.rarity(word)
                if weight and share == 1.0:
                    hits.add(word)
                    if found in tool.name_stems:
                        named.add(found)
        verb_fits = self._verb_fits(tool, wish)
        score *= 0.5 + 0.5 * len(named & set(tool.topic)) / len(tool.topic)
        score *= self._verb_factor(tool, wish, verb_fits) * _figures_factor(tool, wish)
        if any(slot.is_id for slot in tool.required):
            score *= 1.15 if names_something else 0.5
        elif ignore and not any(slot.is_id or slot.is_search or slot.type == "string" for slot in tool.slots):
            score *= 0.6  # a name was said, and this tool has no place for one
        return Choice(tool=tool, score=score, hits=frozenset(hits), named=frozenset(named), verb_fits=verb_fits)

    def _verb_fits(self, tool: KnownTool, wish: Wish) -> bool:
        if wish.asks:
            return not tool.families or bool(tool.families & {READ, "validate", "count", "convert"})
        return wish.verb in tool.name_stems or bool(wish.families & tool.families)

    def _verb_factor(self, tool: KnownTool, wish: Wish, fits: bool) -> float:
        if fits:
            return 1.0 if wish.asks else 1.7 if wish.verb in tool.name_stems else 1.5
        return 0.3 if wish.asks or tool.reads else 0.5


def _closest(word: str, weights: Mapping[str, float]) -> tuple[str, float]:
    """The tool's word this one meets, and its weight: the same stem, or at 0.7 one that begins alike."""
    if word in weights:
        return word, weights[word]
    if len(word) < 4:
        return "", 0.0
    akin = [(weight, other) for other, weight in weights.items() if _akin(word, other)]
    weight, other = max(akin, default=(0.0, ""))
    return other, 0.7 * weight


def _akin(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 4 and len(long) - len(short) <= 4 and long.startswith(short)


def _figures_factor(tool: KnownTool, wish: Wish) -> float:
    has_figures = not _FIGURES.isdisjoint(tool.name_stems)
    if has_figures and not wish.figures and _FIGURES.isdisjoint(wish.content):
        return 0.7
    return 1.35 if has_figures and wish.figures else 1.0
