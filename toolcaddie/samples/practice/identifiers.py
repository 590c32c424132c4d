"""How the practice model comes by identifiers: from the message, from results so far, or by calling a tool that lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA
from toolcaddie.samples.practice import answer
from toolcaddie.samples.practice.arguments import Filled, fill, salient
from toolcaddie.samples.practice.facts import Facts, allot
from toolcaddie.samples.practice.kinds import NOTHING
from toolcaddie.samples.practice.mentions import Kind, Mention
from toolcaddie.samples.practice.more import Call, Say, call_of, look_further, schema_calls
from toolcaddie.samples.practice.rows import Match, Row, identifier, matches, rows_of
from toolcaddie.samples.practice.scene import Done, Scene
from toolcaddie.samples.practice.toolbox import KnownTool, Slot
from toolcaddie.samples.practice.words import split_words, stem, stems, stems_of
from toolcaddie.util.replacing import replace

_MAX_DEPTH = 3
_MAX_FINDERS = 3
_LISTS = stems_of("list search find all lookup")
_FIGURES = stems_of("stats statistics count summary dashboard analytics report details history")
_NAMING_KINDS: tuple[Kind, ...] = ("quote", "name", "code", "email", "phone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What is known about a tool's identifiers: `facts` with those found, `calls` that find others, or a question."""

    facts: Facts
    calls: tuple[Call, ...] = ()
    question: str = ""


def resolve(tool: KnownTool, scene: Scene, depth: int = 0, *, by_id: bool = False) -> Resolution:
    """Find the identifiers a tool wants: in the message, in results so far, or by calling a tool that lists them.

    `by_id`: optional identifiers are tried too, although the tool could search by name.
    """
    facts = scene.facts()
    required = [slot for slot in tool.required if slot.is_id]
    names = allot([*required, *(slot for slot in tool.slots if slot.is_naming)], facts)
    ids: dict[str, Any] = {}
    calls: list[Call] = []
    questions: list[str] = []
    for slot in required + _optional_ids(tool, scene, depth, by_id=by_id):
        name = names.get(slot.name) if slot.required else allot((slot,), facts).get(slot.name)
        found = _find_id(slot, tool, name, replace(facts, ids=dict(ids)), scene, depth)
        match found:
            case Found():
                ids[slot.name] = found.value
                facts.used.extend(found.spans)
            case Say():
                questions.append(found.text)
            case Lost():
                questions += [found.text] if slot.required else []
            case more:
                calls.extend(call for call in more if call not in calls)
    question = questions[0] if questions and not calls else ""
    return Resolution(facts=replace(facts, ids=dict(ids)), calls=tuple(calls), question=question)


def _optional_ids(tool: KnownTool, scene: Scene, depth: int, *, by_id: bool) -> list[Slot]:
    """Optional identifiers whose thing the message names, or that a reading tool has instead of another use for a name."""
    optional = [slot for slot in tool.slots if slot.is_id and not slot.required]
    if depth or (not by_id and any(slot.is_search for slot in tool.slots)):
        return []
    reads_one = tool.reads and bool(scene.naming_stems) and not any(slot.is_id for slot in tool.required)
    return [slot for slot in optional if reads_one or scene.is_named(slot)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An identifier, and the pieces of the message that meant it."""

    value: Any
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Nothing more can be done to find an identifier; `text` asks for it."""

    text: str


def _find_id(
    slot: Slot, tool: KnownTool, name: Mention | None, facts: Facts, scene: Scene, depth: int
) -> Found | Say | Lost | tuple[Call, ...]:
    """The identifier, the calls that may bring it, or a question. `name`: what the message calls the thing, if it does."""
    given = _given(slot, facts)
    if given is not None:
        return given
    picked = _pick(slot, name, facts, scene)
    if picked is not None:
        return picked
    calls = _look_up(slot, tool, name, facts, scene, depth)
    if calls:
        return calls
    if name is not None and scene.real_trail:
        return Lost(text=answer.not_found(slot, name.text))
    listed = [row for done in scene.real_trail for row in _rows_with(slot, done, scene)]
    return Lost(text=answer.which(slot, listed) if listed else answer.what_is(tool.name, (slot,)))


def _given(slot: Slot, facts: Facts) -> Found | None:
    """The identifier as the message has it: "order 17"."""
    only = KnownTool(name="", schema={"properties": {slot.name: slot.schema}})
    probe = replace(facts, ids={}, used=list(facts.used))
    value = fill(only, probe).arguments.get(slot.name, NOTHING)
    return None if value is NOTHING else Found(value=value, spans=tuple(probe.used[len(facts.used) :]))


# Identifiers in results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A row that some mention (None: the other words of the message) may mean, and the identifier in it."""

    hit: Match
    value: Any
    mention: Mention | None


def _pick(slot: Slot, name: Mention | None, facts: Facts, scene: Scene) -> Found | Say | None:
    """The identifier in the results so far that the message means; a question if several fit; None if none does."""
    for done in (*reversed(scene.real_trail), *reversed(scene.real_history)):
        rows = _rows_with(slot, done, scene)
        if not rows:
            continue
        about = scene.tool_of(done).name_stems
        if scene.points_back:
            return _pointed_at(rows, slot, about, scene)
        candidates = _candidates(rows, slot, name, about, facts)
        if not candidates and done in scene.trail and len(rows) == 1 and done.arguments:
            return Found(value=identifier(rows[0], slot, about=about))
        if candidates:
            return _best(candidates, slot, scene)
    return None


def _rows_with(slot: Slot, done: Done, scene: Scene) -> list[Row]:
    """The rows of a result that hold the identifier a slot wants."""
    if done.failed:
        return []
    about = scene.tool_of(done).name_stems
    return [row for row in rows_of(done.content) if identifier(row, slot, about=about) is not None]


def _pointed_at(rows: Sequence[Row], slot: Slot, about: Sequence[str], scene: Scene) -> Found | Say:
    """The row that "the second one" or "her" means: by its place, by what was named before, or the only one."""
    if len(rows) > 1 and scene.ordinal is None:
        for mention in scene.earlier_mentions:
            hits = matches(rows, mention.text) if mention.kind in _NAMING_KINDS else []
            rows = [hit.row for hit in hits] or rows
        if len(rows) > 1:
            return Say(text=answer.which(slot, rows))
    place = scene.ordinal or 0
    return Found(value=identifier(rows[place if place < len(rows) else -1], slot, about=about))


def _candidates(
    rows: Sequence[Row], slot: Slot, name: Mention | None, about: Sequence[str], facts: Facts
) -> list[_Candidate]:
    """Rows meant by the slot's own name, else by another name of the message, else by its other words."""
    for mention in [*sorted(facts.free(*_NAMING_KINDS), key=lambda mention: mention != name), None]:
        text = mention.text if mention else salient(facts)
        found = [
            _Candidate(hit=hit, value=identifier(hit.row, slot, about=about), mention=mention)
            for hit in matches(rows, text)
            if mention or hit.exact or hit.score >= 0.5
        ]
        if found:
            return found
    return []


def _best(candidates: Sequence[_Candidate], slot: Slot, scene: Scene) -> Found | Say:
    """The one that fits best; those that fit alike are told apart by everything else the message says."""
    exact = [one for one in candidates if one.hit.exact] or [
        one for one in candidates if one.hit.score >= candidates[0].hit.score - 0.05
    ]
    said = _all_said(scene)
    scored = sorted(
        ((_overlap(one.hit.row, said), n, one) for n, one in enumerate(exact)), key=lambda item: (-item[0], item[1])
    )
    top = [one for score, _, one in scored if score >= scored[0][0] - 1e-9]
    if len({str(one.value) for one in top}) > 1:
        if scene.place is None:
            return Say(text=answer.which(slot, [one.hit.row for one in top]))
        return _found(top[scene.place if scene.place < len(top) else -1])
    return _found(top[0])


def _found(candidate: _Candidate) -> Found:
    return Found(value=candidate.value, spans=(candidate.mention.span,) if candidate.mention else ())


def _all_said(scene: Scene) -> set[str]:
    """Every word of the message, and its dates and times as rows would write them."""
    values = [mention.value for mention in scene.mentions if mention.kind in ("date", "time")]
    return {*split_words(scene.text), *stems(scene.text), *map(str, values)}


def _overlap(row: Row, said: set[str]) -> float:
    score = 0.0
    for value in row.values():
        if isinstance(value, str | int) and not isinstance(value, bool):
            words = split_words(str(value))
            hit = str(value) in said or (bool(words) and all(word in said or stem(word) in said for word in words))
            score += 1.0 if hit else 0.0
    return score


# Tools that find identifiers


def _look_up(
    slot: Slot, tool: KnownTool, name: Mention | None, facts: Facts, scene: Scene, depth: int
) -> tuple[Call, ...] | None:
    """The next call not made yet that may bring the identifier: first with the name to search for, then without."""
    if depth >= _MAX_DEPTH:
        return None
    finders = _finders(slot, tool, scene)
    told = _told(slot)
    if not finders or (told and not any(finder.name in told for finder in finders)):
        further = look_further(scene, _finder_query(slot))
        if further:
            return further
    for finder in finders[:_MAX_FINDERS]:
        unread = schema_calls([finder], scene)
        if unread:
            return unread
        resolution = resolve(finder, scene, depth + 1)
        if resolution.calls:
            return resolution.calls
        if resolution.question:
            continue
        for filled in _lookup_arguments(finder, name, facts, resolution.facts):
            if not scene.has_done(finder.name, filled.arguments):
                return (call_of(finder, filled),)
    return None


def _finders(slot: Slot, tool: KnownTool, scene: Scene) -> list[KnownTool]:
    """Tools that may list what the slot identifies, the likeliest first. A description that names a tool is believed."""
    told = [scene.box.get(name) or _unseen(name, scene) for name in _told(slot)]
    scored = [(_finder_score(other, slot), other) for other in scene.box.tools if other.name != tool.name]
    ranked = [other for score, other in sorted(scored, key=lambda item: -item[0]) if score > 1]
    return list(dict.fromkeys([finder for finder in told if finder and finder.name != tool.name] + ranked))


def _told(slot: Slot) -> list[str]:
    """Names in a description that look like tools': "from list_orders"."""
    return [word for word in re.findall(r"\w+", slot.description) if "_" in word.strip("_")]


def _finder_query(slot: Slot) -> str:
    """Words for a tool that lists what a slot identifies: the name of one if the description has it."""
    told = _told(slot)
    things = [word for word in split_words(slot.name) if stem(word) in slot.thing]
    return " ".join(split_words(told[0])) if told else f"list {' '.join(things)}"


def _unseen(name: str, scene: Scene) -> KnownTool | None:
    """A tool nobody has shown, where its schema can be asked for."""
    usable = EXECUTE_TOOL in scene.box.meta and GET_TOOL_SCHEMA in scene.box.meta
    asked = any(done.arguments.get("tool_name") == name for done in scene.calls_of(GET_TOOL_SCHEMA))
    return KnownTool(name=name, offered=False) if usable and not asked else None


def _finder_score(tool: KnownTool, slot: Slot) -> float:
    thing = slot.thing[-1] if slot.thing else ""
    if not tool.reads or (thing and tool.weights.get(thing, 0.0) < 1.0):
        return 0.0
    score = 3.0 if thing in tool.name_stems else 1.0 if thing else 0.5
    score += 1.0 if any(other.is_search for other in tool.slots) else 0.0
    score += 1.0 if _LISTS.intersection(tool.name_stems) else 0.0
    score -= 1.5 if _FIGURES.intersection(tool.name_stems) else 0.0
    return score - 1.5 * sum(1 for other in tool.required if not other.is_search)


def _lookup_arguments(finder: KnownTool, name: Mention | None, facts: Facts, own: Facts) -> Iterator[Filled]:
    """Ways to call a finder: with the slot's own name to search for, with nothing, with any other name."""
    search = next((slot for slot in finder.slots if slot.is_search), None)
    needed = {slot.name: slot.schema for slot in finder.slots if slot.required and not slot.is_search}
    schema = {**(finder.schema or {}), "properties": needed}
    base = fill(KnownTool(name=finder.name, schema=schema), own)
    if base.missing:
        return
    if search is None:
        yield base
        return
    others = [mention.text for mention in facts.free(*_NAMING_KINDS) if mention != name]
    for text in ([name.text] if name else []) + ([] if search.required else [""]) + others:
        yield Filled(arguments={**base.arguments, **({search.name: text} if text else {})})
