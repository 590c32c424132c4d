"""Finds the identifiers that a tool takes (`client_id`): in the message, in earlier results, or with a tool that lists them. Used
by the practice model, which follows rules instead of a language model.

A slot is one argument of a tool; its thing is what the identifier identifies (the client). A mention is a name, date or other
value in the message. A finder is a tool that lists things with their identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, META_TOOLS
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.samples.practice import answer
from toolcaddie.samples.practice.arguments import (
    NOTHING,
    Facts,
    Filled,
    filled,
    id_in_message,
    names_by_slot,
    salient_text,
)
from toolcaddie.samples.practice.calls import Call, call_of, look_further, schema_call
from toolcaddie.samples.practice.english import stem, stems, words
from toolcaddie.samples.practice.mentions import Kind, Mention
from toolcaddie.samples.practice.rows import Match, Row, identifier, matches, rows_of, share
from toolcaddie.samples.practice.scene import PastCall, Scene
from toolcaddie.samples.practice.tools import KnownTool, Slot
from toolcaddie.util.replacing import replace

_MAX_DEPTH = _MAX_FINDERS = 3
_NAMING_KINDS: tuple[Kind, ...] = ("quote", "name", "code", "email", "phone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The state of finding a tool's identifiers: `facts` with the values found so far, `calls` that may find the missing ones, or
    a question for the user."""

    facts: Facts
    calls: tuple[Call, ...] = ()
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """An identifier, and the mention in the message that led to it, if there is one."""

    value: Any
    mention: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question to ask about an identifier that could not be found. `several`: True if there are too many candidates, False if
    there is none."""

    question: str
    several: bool = False


def resolution_of(tool: KnownTool, scene: Scene, *, depth: int = 0) -> Resolution:
    """Resolves the identifiers that a tool takes. `depth`: 0 for the tool that fits the wish, 1 for a tool that finds an
    identifier for it, 2 for a tool that finds an identifier for that one. Optional identifiers are resolved only at depth 0."""
    facts = scene.facts()
    required = [slot for slot in tool.slots if slot.is_id and slot.required]
    names = names_by_slot([*required, *(slot for slot in tool.slots if slot.is_naming)], facts)
    calls: list[Call] = []
    questions: list[str] = []
    for slot in required + ([] if depth else _optional_ids(tool, scene)):
        name = names.get(slot.name) if slot.required else names_by_slot((slot,), facts).get(slot.name)
        match _id_of(slot, tool, name, facts, scene, depth):
            case Identified(value=value, mention=mention):
                facts.ids[slot.name] = value
                facts.used_spans.extend([(mention.start, mention.end)] if mention else [])
            case Unknown(question=question, several=several):
                questions.extend([question] if several or slot.required else [])
            case further:
                calls.extend(call for call in further if call not in calls)
    return Resolution(facts=facts, calls=tuple(calls), question=questions[0] if questions and not calls else "")


def _optional_ids(tool: KnownTool, scene: Scene) -> list[Slot]:
    """Returns the optional identifiers worth finding: those whose thing the message names. If the tool reads, takes no required
    identifier, and the message has a name, these are all of its optional identifiers."""
    if any(slot.is_search for slot in tool.slots):
        return []
    reads_one = tool.reads and scene.is_named and not any(slot.is_id and slot.required for slot in tool.slots)
    return [slot for slot in tool.slots if slot.is_id and not slot.required and (reads_one or scene.names(slot))]


def _id_of(
    slot: Slot, tool: KnownTool, name: Mention | None, facts: Facts, scene: Scene, depth: int
) -> Identified | Unknown | tuple[Call, ...]:
    """Returns the identifier, calls that may find it, or a question. `name`: the mention that names
    the thing, if there is one."""
    value = id_in_message(slot, facts)
    if value is not NOTHING:
        return Identified(value=value)
    result = _in_results(slot, name, facts, scene) or _lookups(slot, tool, name, facts, scene, depth)
    if result:
        return result
    if name is not None and scene.tool_calls:
        return Unknown(question=answer.not_found_question(slot, name.text))
    rows = [row for past_call in scene.tool_calls for row in _rows_with(slot, past_call, scene)]
    return Unknown(question=answer.which_question(slot, rows) if rows else answer.missing_question(tool.name, [slot]))


# Identifiers in results


def _in_results(slot: Slot, name: Mention | None, facts: Facts, scene: Scene) -> Identified | Unknown | None:
    """Returns the identifier from earlier results that fits the message, a question if several fit, or None if no result fits.
    Results for this wish are searched first, the latest first, then those for earlier wishes."""
    history = [past_call for past_call in scene.history if past_call.name not in META_TOOLS]
    for past_call in (*reversed(scene.tool_calls), *reversed(history)):
        rows = _rows_with(slot, past_call, scene)
        about = scene.tool_of(past_call).name_stems
        if rows and scene.points_back:
            return _pointed_at(rows, slot, about, scene)
        for mention in [*sorted(facts.free(*_NAMING_KINDS), key=lambda mention: mention != name), None]:
            hits = matches(rows, mention.text if mention else salient_text(facts))
            hits = [hit for hit in hits if mention or hit.share >= 0.5]
            if hits:
                return _best(hits, mention, slot, about, scene)
        if len(rows) == 1 and past_call in scene.trail and past_call.arguments:
            return Identified(value=identifier(rows[0], slot, about=about))
    return None


def _rows_with(slot: Slot, past_call: PastCall, scene: Scene) -> list[Row]:
    """Returns the rows of a result that contain the identifier of a slot."""
    about = scene.tool_of(past_call).name_stems
    rows = [] if past_call.failed else rows_of(past_call.content)
    return [row for row in rows if identifier(row, slot, about=about) is not None]


def _pointed_at(rows: Sequence[Row], slot: Slot, about: Sequence[str], scene: Scene) -> Identified | Unknown:
    """Returns the identifier to which "the second one" or "her" refers: that of the row at this place, of the row mentioned
    before, or of the only row. If several rows remain, returns a question."""
    if scene.ordinal is None:
        for mention in scene.earlier_mentions:
            rows = [hit.row for hit in matches(rows, mention.text) if mention.kind in _NAMING_KINDS] or rows
        if len(rows) > 1:
            return Unknown(question=answer.which_question(slot, rows), several=True)
    place = scene.ordinal or 0
    return Identified(value=identifier(rows[place if place < len(rows) else -1], slot, about=about))


def _best(
    hits: Sequence[Match], mention: Mention | None, slot: Slot, about: Sequence[str], scene: Scene
) -> Identified | Unknown:
    """Returns the identifier of the row that fits best. Between rows that fit equally, the other words of the message decide. If
    several rows remain, returns a question."""
    spoken = {*words(scene.text), *stems(scene.text), *(str(mention.value) for mention in scene.mentions)}
    alike = [hit.row for hit in hits if hit.share >= hits[0].share - 0.05]
    counts = [sum(str(value) in spoken or share(str(value), spoken) == 1 for value in row.values()) for row in alike]
    rows = [row for row, count in zip(alike, counts, strict=True) if count == max(counts)]
    ids = list(dict.fromkeys(identifier(row, slot, about=about) for row in rows))
    place = 0 if len(ids) == 1 or re.search(r"\bnext\b", scene.text, re.IGNORECASE) else scene.ordinal
    if place is None:
        return Unknown(question=answer.which_question(slot, rows), several=True)
    return Identified(value=ids[place if place < len(ids) else -1], mention=mention)


# Tools that list identifiers


def _lookups(
    slot: Slot, tool: KnownTool, name: Mention | None, facts: Facts, scene: Scene, depth: int
) -> tuple[Call, ...]:
    """Returns the next call that may find the identifier and was not made before: first a search for the name, then a list
    without it."""
    described = [word for word in re.findall(r"\w+", slot.description) if "_" in word.strip("_")]
    finders = (
        []
        if depth >= _MAX_DEPTH
        else [finder for finder in _finders(slot, described, scene) if finder.name != tool.name]
    )
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
            if not scene.has_called(finder.name, lookup.arguments):
                return (call_of(finder, lookup.arguments),)
    return ()


def _finders(slot: Slot, described: Sequence[str], scene: Scene) -> list[KnownTool]:
    """Returns the tools that may list the slot's things, the likeliest first. Tools that are named in the slot's description come
    first."""
    thing = stem(slot.thing)
    ranking = scene.box.ranked(SelectionQuery(text=f"list find {slot.thing} {slot.thing}s"), 16)
    listing = [tool for tool, _ in ranking if tool.reads and (not thing or thing in tool.stems)]
    listing.sort(key=lambda tool: not any(slot.is_search for slot in tool.slots))
    described_tools = [scene.box.tools.get(name) or KnownTool(name=name, offered=False) for name in described]
    return list(dict.fromkeys([*(tool for tool in described_tools if tool.schema or _may_show(tool, scene)), *listing]))


def _may_show(tool: KnownTool, scene: Scene) -> bool:
    """Returns True if the schema of a tool that is not offered can be requested, so that the tool can be called afterwards."""
    return {EXECUTE_TOOL, GET_TOOL_SCHEMA} <= set(scene.box.meta) and bool(schema_call(tool, scene))


def _lookup_arguments(finder: KnownTool, name: Mention | None, facts: Facts, own: Facts) -> Iterator[Filled]:
    """Yields arguments for a tool that may list the identifier: a search for `name`, then no search, then a search for each other
    name. `facts` are those of the tool that takes the identifier, `own` those of the finder."""
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
