"""Identifiers: from the message, from results so far, or from a tool that lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, META_TOOLS
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.samples.practice import answer
from toolcaddie.samples.practice.arguments import NOTHING, Facts, Filled, allotted, filled, given_id, salient_text
from toolcaddie.samples.practice.calls import Call, call_of, look_further, schema_call
from toolcaddie.samples.practice.english import stem, stems, words
from toolcaddie.samples.practice.mentions import Kind, Mention
from toolcaddie.samples.practice.rows import Match, Row, identifier, matches, rows_of, share
from toolcaddie.samples.practice.scene import Done, Scene
from toolcaddie.samples.practice.tools import KnownTool, Slot
from toolcaddie.util.replacing import replace

_MAX_DEPTH = _MAX_FINDERS = 3
_NAMING_KINDS: tuple[Kind, ...] = ("quote", "name", "code", "email", "phone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A tool's identifiers so far: `facts` with their values, `calls` that find others, or a question."""

    facts: Facts
    calls: tuple[Call, ...] = ()
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """An identifier, and the piece of the message that meant it, if one did."""

    value: Any
    mention: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """An identifier that cannot be told, and what to ask. `several`: there are too many, rather than none."""

    question: str
    several: bool = False


def resolution_of(tool: KnownTool, scene: Scene, *, depth: int = 0) -> Resolution:
    """Finds the identifiers a tool takes."""
    facts = scene.facts()
    required = [slot for slot in tool.slots if slot.is_id and slot.required]
    names = allotted([*required, *(slot for slot in tool.slots if slot.is_naming)], facts)
    calls: list[Call] = []
    questions: list[str] = []
    for slot in required + ([] if depth else _optional_ids(tool, scene)):
        name = names.get(slot.name) if slot.required else allotted((slot,), facts).get(slot.name)
        match _id_of(slot, tool, name, facts, scene, depth):
            case Identified(value=value, mention=mention):
                facts.ids[slot.name] = value
                facts.used.extend([(mention.start, mention.end)] if mention else [])
            case Unknown(question=question, several=several):
                questions.extend([question] if several or slot.required else [])
            case further:
                calls.extend(call for call in further if call not in calls)
    return Resolution(facts=facts, calls=tuple(calls), question=questions[0] if questions and not calls else "")


def _optional_ids(tool: KnownTool, scene: Scene) -> list[Slot]:
    """Optional identifiers whose thing the message names, or that a reading tool has instead of another use for a name."""
    if any(slot.is_search for slot in tool.slots):
        return []
    reads_one = tool.reads and scene.is_named and not any(slot.is_id and slot.required for slot in tool.slots)
    return [slot for slot in tool.slots if slot.is_id and not slot.required and (reads_one or scene.names(slot))]


def _id_of(
    slot: Slot, tool: KnownTool, name: Mention | None, facts: Facts, scene: Scene, depth: int
) -> Identified | Unknown | tuple[Call, ...]:
    """The identifier, the calls that may bring it, or a question. `name`: what the message calls the thing, if it does."""
    value = given_id(slot, facts)
    if value is not NOTHING:
        return Identified(value=value)
    result = _in_results(slot, name, facts, scene) or _lookups(slot, tool, name, facts, scene, depth)
    if result:
        return result
    if name is not None and scene.deeds:
        return Unknown(question=answer.not_found(slot, name.text))
    rows = [row for done in scene.deeds for row in _rows_with(slot, done, scene)]
    return Unknown(question=answer.which(slot, rows) if rows else answer.what_is(tool.name, [slot]))


# Identifiers in results


def _in_results(slot: Slot, name: Mention | None, facts: Facts, scene: Scene) -> Identified | Unknown | None:
    """The identifier in the results so far that the message means; a question if several fit; None if none does."""
    history = [done for done in scene.history if done.name not in META_TOOLS]
    for done in (*reversed(scene.deeds), *reversed(history)):
        rows = _rows_with(slot, done, scene)
        about = scene.tool_of(done).name_stems
        if rows and scene.points_back:
            return _pointed_at(rows, slot, about, scene)
        for mention in [*sorted(facts.free(*_NAMING_KINDS), key=lambda mention: mention != name), None]:
            hits = matches(rows, mention.text if mention else salient_text(facts))
            hits = [hit for hit in hits if mention or hit.share >= 0.5]
            if hits:
                return _best(hits, mention, slot, about, scene)
        if len(rows) == 1 and done in scene.trail and done.arguments:
            return Identified(value=identifier(rows[0], slot, about=about))
    return None


def _rows_with(slot: Slot, done: Done, scene: Scene) -> list[Row]:
    """The rows of a result that hold the identifier a slot takes."""
    about = scene.tool_of(done).name_stems
    rows = [] if done.failed else rows_of(done.content)
    return [row for row in rows if identifier(row, slot, about=about) is not None]


def _pointed_at(rows: Sequence[Row], slot: Slot, about: Sequence[str], scene: Scene) -> Identified | Unknown:
    """The row that "the second one" or "her" means: by its place, by what was named before, or the only one."""
    if scene.ordinal is None:
        for mention in scene.earlier_mentions:
            rows = [hit.row for hit in matches(rows, mention.text) if mention.kind in _NAMING_KINDS] or rows
        if len(rows) > 1:
            return Unknown(question=answer.which(slot, rows), several=True)
    place = scene.ordinal or 0
    return Identified(value=identifier(rows[place if place < len(rows) else -1], slot, about=about))


def _best(
    hits: Sequence[Match], mention: Mention | None, slot: Slot, about: Sequence[str], scene: Scene
) -> Identified | Unknown:
    """The row that fits best; those that fit alike are told apart by everything else the message says."""
    spoken = {*words(scene.text), *stems(scene.text), *(str(one.value) for one in scene.mentions)}
    alike = [hit.row for hit in hits if hit.share >= hits[0].share - 0.05]
    counts = [sum(str(value) in spoken or share(str(value), spoken) == 1 for value in row.values()) for row in alike]
    rows = [row for row, count in zip(alike, counts, strict=True) if count == max(counts)]
    ids = list(dict.fromkeys(identifier(row, slot, about=about) for row in rows))
    place = 0 if len(ids) == 1 or re.search(r"\bnext\b", scene.text, re.IGNORECASE) else scene.ordinal
    if place is None:
        return Unknown(question=answer.which(slot, rows), several=True)
    return Identified(value=ids[place if place < len(ids) else -1], mention=mention)


# Tools that list identifiers


def _lookups(
    slot: Slot, tool: KnownTool, name: Mention | None, facts: Facts, scene: Scene, depth: int
) -> tuple[Call, ...]:
    """The next call not made yet that may bring the identifier: first with the name to search for, then without."""
    described = [word for word in re.findall(r"\w+", slot.description) if "_" in word.strip("_")]
    finders = [] if depth >= _MAX_DEPTH else [one for one in _finders(slot, described, scene) if one.name != tool.name]
    if depth < _MAX_DEPTH and not (finders and (not described or finders[0].name in described)):
        further = look_further(scene, " ".join(words(described[0])) if described else f"list {slot.thing}")
        if further:
            return further
    for finder in finders[:_MAX_FINDERS]:
        resolution = resolution_of(finder, scene, depth=depth + 1)
        calls = schema_call(finder, scene) or resolution.calls
        if calls:
            return calls
        for lookup in [] if resolution.question else _lookup_arguments(finder, name, facts, resolution.facts):
            if not scene.has_done(finder.name, lookup.arguments):
                return (call_of(finder, lookup.arguments),)
    return ()


def _finders(slot: Slot, described: Sequence[str], scene: Scene) -> list[KnownTool]:
    """Tools that may list what the slot identifies, the likeliest first. A description that names a tool is believed."""
    thing = stem(slot.thing)
    ranking = scene.box.ranked(SelectionQuery(text=f"list find {slot.thing} {slot.thing}s"), 16)
    listing = [tool for tool, _ in ranking if tool.reads and (not thing or thing in tool.stems)]
    listing.sort(key=lambda tool: not any(one.is_search for one in tool.slots))
    named = [scene.box.tools.get(name) or KnownTool(name=name, offered=False) for name in described]
    return list(dict.fromkeys([*(tool for tool in named if tool.schema or _may_show(tool, scene)), *listing]))


def _may_show(tool: KnownTool, scene: Scene) -> bool:
    """True if a tool that was not shown can be, and called then."""
    return {EXECUTE_TOOL, GET_TOOL_SCHEMA} <= set(scene.box.meta) and bool(schema_call(tool, scene))


def _lookup_arguments(finder: KnownTool, name: Mention | None, facts: Facts, own: Facts) -> Iterator[Filled]:
    """Ways to call a finder: with the slot's own name to search for, with nothing, with any other name."""
    search = next((slot for slot in finder.slots if slot.is_search), None)
    needed = [slot for slot in finder.slots if slot.required and slot is not search]
    schema = {"properties": {slot.name: slot.schema for slot in needed}, "required": [slot.name for slot in needed]}
    base = filled(replace(finder, schema=schema), own)
    if base.missing:
        return
    if search is None:
        yield base
        return
    others = [mention.text for mention in facts.free(*_NAMING_KINDS) if mention != name]
    for text in ([name.text] if name else []) + ([] if search.required else [""]) + others:
        yield Filled(arguments={**base.arguments, **({search.name: text} if text else {})})
