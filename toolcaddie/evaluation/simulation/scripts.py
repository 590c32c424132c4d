"""Generates the catalogs and conversations that `toolcaddie eval costs` simulates.

A generated conversation (a script) has the user's messages, the tools that each turn needs, and the results of these tools. It
follows from a seed, and so does a generated catalog. `TUNING_SEED` is for work on the planner, the part of the engine that
chooses how to send tools. `FINAL_SEED` is for published figures only, so that the planner is not tuned to them.

A conversation stays on a topic (a category) for two to six turns and sometimes returns to an earlier one. It has short
follow-ups, chat that needs no tool, and pauses. Half of the requests use a tool's own words, and the others replace some or all
of them. Some needed tools are not mentioned, so that a selection misses them at first.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from random import Random
from typing import Any

from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.schema import BYTES_PER_TOKEN
from toolcaddie.core.tool import JsonObject, Tool, ToolAnnotations

TUNING_SEED = 1_031
"""Seed for work on the planner."""
FINAL_SEED = 20_261_121
"""Seed for published figures only."""

TURNS = 20
"""Number of turns of a conversation."""
MOST_GENERATED = 5_000
"""Largest number of tools of a generated catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A call that a turn requires."""

    tool: str
    words: str
    """The words of the request for this tool. A model that was not sent the tool searches with them first."""
    guess: str
    """The words of the tool's name, with which the model searches next."""
    arguments: str
    """Arguments of the call: a JSON object that fits the tool's schema."""
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The user's message, and the calls that it needs."""

    text: str
    gap: float
    """Seconds since the previous answer."""
    steps: tuple[tuple[Need, ...], ...]
    """Steps of the turn, in order. The needs of one step are called together."""
    answer: str

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(need for step in self.steps for need in step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One conversation."""

    number: int
    system: str
    turns: tuple[Turn, ...]


# --- catalogs ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def generated_catalog(size: int, seed: int) -> Catalog:
    """Returns a catalog with the tools of a business, in categories; a definition takes 100 to 280 tokens.

    Raises `ConfigError` if `size` is below 1 or above `MOST_GENERATED`.
    """
    if not 0 < size <= MOST_GENERATED:
        raise ConfigError(f"a generated catalog has 1 to {MOST_GENERATED:,} tools; {size:,} were asked for")
    words, dice = _vocabulary(), Random(f"catalog/{size}/{seed}")
    areas = dice.sample(sorted(words.things), k=min(len(words.things), max(2, round(size**0.5 * 0.75))))
    tools: list[Tool] = []
    for number, area in enumerate(areas):
        share = (size - len(tools)) // (len(areas) - number)
        pairs = [(thing, doing) for thing in words.things[area] for doing in words.doings]
        tools.extend(_tool(area, *pair, words) for pair in sorted(dice.sample(pairs, k=share)))
    return Catalog.of(tools, [_category(area, words) for area in areas])


def _category(area: str, words: _Vocabulary) -> Category:
    spoken = [thing.replace("_", " ") for thing in words.things[area]]
    return Category(name=area, description=f"Everything about {', '.join(spoken)}.", keywords=(area, *spoken[:4]))


def _tool(area: str, thing: str, doing: str, words: _Vocabulary) -> Tool:
    """Returns a generated tool. `area`: its category; `thing` and `doing`: the object and the action in its name."""
    words_of_thing, action = thing.replace("_", " "), words.doings[doing]
    properties: dict[str, Any] = {}
    for group in action.parameters:
        properties |= json.loads(words.parameters[group].replace("{thing}", thing).replace("{words}", words_of_thing))
    leading = json.loads(words.parameters[action.parameters[0]].replace("{thing}", thing))
    required = [] if action.parameters[0] == "filters" else list(leading)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return Tool(
        name=f"{doing}_{thing}",
        description=action.description.replace("{thing}", words_of_thing),
        input_schema={**schema, "additionalProperties": False},
        category=area,
        source="generated",
        annotations=ToolAnnotations(
            read_only=doing in _READING, destructive=doing == "delete", idempotent=doing in _READING
        ),
    )


_READING = frozenset({"list", "get", "find", "export", "summarize", "compare"})


# --- conversations ----------------------------------------------------------------------------------------------------

_STAYS = (2, 6)
"""Range of the number of turns that a conversation stays on a topic."""
_COMES_BACK = 0.3
"""Probability that the next topic is an earlier one."""
_FOLLOWS_UP = 0.2
"""Probability that a turn is a short follow-up, which needs the last tool again."""
_CHATS = 0.12
"""Probability that a turn needs no tool."""
_SEVERAL = 0.3
"""Probability that a turn needs two or three tools."""
_TOGETHER = 0.5
"""Probability that the tools of a turn are called together, in one step."""
_MENTIONED = 0.6
"""Probability that the message mentions a needed tool; it always mentions the first."""
_PASTES = 0.1
"""Probability that a message contains pasted records."""
_OWN_WORDS = 0.5
"""If a random draw from 0 to 1 is below this, a request uses both words of a tool's name, the action and its object."""
_HALF = 0.8
"""If the same draw is at least `_OWN_WORDS` and below this, a request uses one of the two words; otherwise none."""
_BRIEF = 0.85, (10.0, 90.0)
"""A short pause before a turn: it is taken if a random draw from 0 to 1 is below the first number. The others are the range of
seconds."""
_LONG = 0.96, (330.0, 480.0)
"""A pause longer than some prompt caches live: it is taken if the same draw is not below the limit of `_BRIEF` and below this
one."""
_VERY_LONG = 1.0, (7_000.0, 7_600.0)
"""A pause of two hours, taken for all higher draws."""
_RESULT_TOKENS = (50, 2_000)
"""Range of the size of a tool's result."""
_PAGE_BYTES = 14_000
"""Smallest size in bytes of the page of invented records from which results are cut."""


def generated_scripts(catalog: Catalog, count: int, seed: int) -> list[Script]:
    """Returns `count` conversations that need tools of the catalog. Raises `ConfigError` for a catalog without tools."""
    if not catalog.tools:
        raise ConfigError("the catalog has no tools, so no conversation can need one; name a catalog that has tools")
    topics = _topics(catalog)
    return [_script(topics, number, Random(f"script/{len(catalog)}/{seed}/{number}")) for number in range(count)]


def _topics(catalog: Catalog) -> list[tuple[Tool, ...]]:
    """Returns the topics of conversations. A topic is the tools of one category."""
    topics: dict[str, list[Tool]] = {}
    for tool in catalog.tools:
        topics.setdefault(tool.category or "", []).append(tool)
    return [tuple(tools) for _, tools in sorted(topics.items())]


def _script(topics: Sequence[tuple[Tool, ...]], number: int, dice: Random) -> Script:
    """Returns one generated conversation. `topics`: the tools of each category; `dice`: the source of all random choices."""
    words = _vocabulary()
    turns: list[Turn] = []
    visited: list[tuple[Tool, ...]] = []
    while len(turns) < TURNS:
        earlier = visited[:-1]
        topic = dice.choice(earlier) if earlier and dice.random() < _COMES_BACK else dice.choice(topics)
        visited.append(topic)
        last: Tool | None = None
        for _ in range(min(dice.randint(*_STAYS), TURNS - len(turns))):
            turn, last = _turn(topic, last, first=not turns, dice=dice, words=words)
            turns.append(turn)
    return Script(number=number, system=words.system, turns=tuple(turns))


def _turn(
    topic: tuple[Tool, ...], last: Tool | None, *, first: bool, dice: Random, words: _Vocabulary
) -> tuple[Turn, Tool | None]:
    """Returns a generated turn on a topic, and the last tool that it needs. `last`: the last tool of the turn before; `first`:
    True for the first turn of the conversation."""
    gap = 0.0 if first else _gap(dice)
    answer = _answer(dice, words)
    if last is not None and dice.random() < _FOLLOWS_UP:
        text = dice.choice(words.again).replace("{n}", str(dice.randint(2, 999)))
        need = _need(last, _phrase(last, dice, words), dice)
        return Turn(text=text, gap=gap, steps=((need,),), answer=answer), last
    if not first and dice.random() < _CHATS:
        return Turn(text=dice.choice(words.chat), gap=gap, steps=(), answer=answer), last
    count = dice.choice((2, 2, 3)) if dice.random() < _SEVERAL else 1
    tools = dice.sample(topic, k=min(count, len(topic)))
    phrases = [_phrase(tool, dice, words) for tool in tools]
    needs = [_need(tool, phrase, dice) for tool, phrase in zip(tools, phrases, strict=True)]
    steps = (tuple(needs),) if dice.random() < _TOGETHER else tuple((need,) for need in needs)
    mentioned = [phrase for at, phrase in enumerate(phrases) if not at or dice.random() < _MENTIONED]
    return Turn(text=_request(mentioned, dice), gap=gap, steps=steps, answer=answer), tools[-1]


def _gap(dice: Random) -> float:
    draw = dice.random()
    return dice.uniform(*next(seconds for upto, seconds in (_BRIEF, _LONG, _VERY_LONG) if draw < upto))


def _need(tool: Tool, phrase: str, dice: Random) -> Need:
    """Returns the call of a tool that a turn needs, with generated arguments and result. `phrase`: the words of the request for
    it."""
    return Need(
        tool=tool.name,
        words=phrase,
        guess=" ".join(_parts(tool.name)),
        arguments=json.dumps(example_arguments(tool.input_schema, dice)),
        result=_result(dice),
    )


_OPENINGS = ("Please {}.", "Could you {}?", "I need you to {}.", "Can we {}?", "{}, please.", "Now {}.", "{}.")
_DETAILS = ("for {name}", "of {name}", "number {n}", "from last week", "for the new office", "that we spoke about", "")
_NAMES = (
    "Maria Lopez",
    "John Smith",
    "the Berlin team",
    "Dr. Okafor",
    "Hanna Weiss",
    "Mr. Tanaka",
    "our best customer",
)


def _request(phrases: Sequence[str], dice: Random) -> str:
    details = [dice.choice(_DETAILS).format(name=dice.choice(_NAMES), n=dice.randint(100, 9_999)) for _ in phrases]
    deeds = " and ".join(f"{phrase} {detail}".strip() for phrase, detail in zip(phrases, details, strict=True))
    text = dice.choice(_OPENINGS).format(deeds)
    text = text[0].upper() + text[1:]
    return f"{text}\n\n{_records(dice, dice.randint(200, 600))}" if dice.random() < _PASTES else text


def _phrase(tool: Tool, dice: Random, words: _Vocabulary) -> str:
    """Returns a request for the tool in a person's words, such as "show me the invoice"."""
    doing, *thing_words = _parts(tool.name)
    thing = "_".join(thing_words)
    draw = dice.random()
    others = words.other_doings.get(doing, (doing,)), words.other_things.get(thing, " ".join(thing_words))
    swapped = {0} if dice.random() < 0.5 else {1}
    swapped = set() if draw < _OWN_WORDS else swapped if draw < _HALF else {0, 1}
    verb = dice.choice(others[0]) if 0 in swapped else doing
    noun = others[1] if 1 in swapped else " ".join(thing_words)
    return f"{verb} the {noun}" if noun else verb


def _answer(dice: Random, words: _Vocabulary) -> str:
    return dice.choice(words.answers) + " ".join(dice.sample(words.sentences, k=dice.randint(1, 6)))


def _result(dice: Random) -> str:
    """Returns the result of a tool: a JSON text with records. Most results are short, and some are long."""
    low, high = _RESULT_TOKENS
    return f'{{"rows": {_records(dice, round(low * (high / low) ** dice.random()))}}}'


def _records(dice: Random, tokens: int) -> str:
    """Returns records with this number of tokens. They are cut from one page, because it is slow to generate new records."""
    page, size = _page(), round(tokens * BYTES_PER_TOKEN)
    start = dice.randrange(len(page) - size)
    return f"{dice.randrange(10**6)}: {page[start : start + size]}"


@lru_cache(maxsize=1)
def _page() -> str:
    """Returns a long text of invented records as JSON objects, the same in every process."""
    dice = Random("records")
    rows: list[str] = []
    while sum(map(len, rows)) < _PAGE_BYTES:
        row = {
            "id": dice.randint(1_000, 99_999),
            "name": dice.choice(_NAMES),
            "state": dice.choice(("draft", "open", "waiting", "done")),
            "changed": f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}",
            "amount": round(dice.uniform(5, 5_000), 2),
        }
        rows.append(json.dumps(row))
    return ", ".join(rows)


_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")


def _parts(name: str) -> list[str]:
    """Splits a name into words at underscores, dashes and capitals."""
    return [word.lower() for word in _WORDS.findall(name)] or [name]


# --- arguments --------------------------------------------------------------------------------------------------------


def example_arguments(schema: JsonObject, dice: Random) -> dict[str, Any]:
    """Returns values for a schema's required arguments and some of the others.

    The values fit simple schemas. `pattern` is ignored, so a call of a tool with patterns may be refused.
    """
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        name: _example(value, dice)
        for name, value in properties.items()
        if isinstance(value, Mapping) and (name in required or dice.random() < 0.3)
    }


def _example(schema: JsonObject, dice: Random) -> Any:
    """Returns a value that fits a schema."""
    if schema.get("enum"):
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    low = schema.get("minimum", 1)
    match kind:
        case "integer":
            return dice.randint(int(low), max(int(low), min(int(schema.get("maximum", 9_999)), 9_999)))
        case "number":
            return round(float(low) + dice.random() * 100, 2)
        case "boolean":
            return dice.random() < 0.5
        case "array":
            return [_example(schema.get("items", {}), dice)]
        case "object":
            return example_arguments(schema, dice)
    if schema.get("format") == "date":
        return f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
    return dice.choice(("alpha", "north wing", "urgent", "spring"))


# --- words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doing:
    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    things: Mapping[str, tuple[str, ...]]
    """Objects of actions, such as an invoice, by area of the business."""
    doings: Mapping[str, _Doing]
    parameters: Mapping[str, str]
    other_things: Mapping[str, str]
    other_doings: Mapping[str, tuple[str, ...]]
    answers: Sequence[str]
    sentences: Sequence[str]
    chat: Sequence[str]
    again: Sequence[str]
    system: str


@lru_cache(maxsize=1)
def _vocabulary() -> _Vocabulary:
    """Returns the words of the file `vocabulary.toml`, from which catalogs and conversations are generated."""
    content = tomllib.loads(files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8"))
    things = {area: dict(pair.split("=") for pair in text.split(", ")) for area, text in content["things"].items()}
    doings = {doing: [part.strip() for part in text.split("|")] for doing, text in content["doings"].items()}
    verbs = {verb: (other,) for verb, other in content["verbs"].items()}
    return _Vocabulary(
        things={area: tuple(pairs) for area, pairs in things.items()},
        doings={doing: _Doing(description=d, parameters=tuple(p.split())) for doing, (_, d, p) in doings.items()},
        parameters=content["parameters"],
        other_things={thing: other for pairs in things.values() for thing, other in pairs.items()},
        other_doings={**verbs, **{doing: tuple(others.split(", ")) for doing, (others, _, _) in doings.items()}},
        answers=content["filler"]["answers"],
        sentences=content["filler"]["sentences"],
        chat=content["filler"]["chat"],
        again=content["filler"]["again"],
        system=content["filler"]["system"],
    )
