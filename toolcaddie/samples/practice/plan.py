"""What the practice model does next: call tools, or say something.

A pure function of the conversation, as a model is. It asks, in this order: is there a tool that fits? has it been called?
is an identifier missing that another tool could find? Every call it makes it can see in the conversation afterwards, so it
never makes the same one twice, and it stops after a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, RESPOND, SEARCH_TOOLS
from toolcaddie.core.tool import JsonObject
from toolcaddie.samples.practice import answer
from toolcaddie.samples.practice.arguments import Filled, fill, salient
from toolcaddie.samples.practice.choice import fits, ranked
from toolcaddie.samples.practice.identifiers import resolve
from toolcaddie.samples.practice.kinds import NOTHING, fitted
from toolcaddie.samples.practice.more import (
    Call,
    Say,
    Step,
    call_of,
    look_further,
    more_arguments,
    query_words,
    schema_calls,
)
from toolcaddie.samples.practice.rows import is_something, wrong_fields
from toolcaddie.samples.practice.scene import Done, Scene
from toolcaddie.samples.practice.toolbox import KnownTool, Slot
from toolcaddie.samples.practice.words import READ, SMALL_TALK

MAX_CALLS = 12
"""Calls for one wish; a plan that needs more is lost."""

_MAX_TRIES = 2


def next_step(scene: Scene) -> Step:
    """The next step when the model is free to choose."""
    step = _freely(scene)
    if isinstance(step, Say) and RESPOND in scene.box.meta:
        return (Call(name=RESPOND, arguments={"message": answer.signed(step.text)}),)
    return step


def forced_step(scene: Scene, name: str | None) -> Step:
    """The next step when a tool must be called: that one, or any when `name` is None."""
    step = next_step(scene)
    if not isinstance(step, Say) and (name is None or all(call.name == name for call in step)):
        return step
    likely = [choice.tool for choice in ranked(scene)]
    tool = scene.box.get(name) if name else next(iter([*likely, *scene.box.tools]), None)
    if tool is None:
        return (Call(name=name, arguments=_meta_arguments(name, scene)),) if name in scene.box.meta and name else step
    resolution = resolve(tool, scene)
    filled = fill(tool, resolution.facts)
    stand_ins = {slot.name: _stand_in(slot, scene) for slot in filled.missing}
    return (Call(name=tool.name, arguments={**filled.arguments, **stand_ins}),)


def only_words(scene: Scene) -> Say:
    """What there is to say when no tool may be called."""
    return _small_talk(scene) or report(scene)


def _small_talk(scene: Scene) -> Say | None:
    if scene.trail:
        return None
    if scene.called_off:
        return Say(text=answer.CALLED_OFF)
    if not scene.text.strip() or SMALL_TALK.match(scene.text):
        return Say(text=answer.greeting(len(scene.box.tools)))
    return None


def _freely(scene: Scene) -> Step:
    if len(scene.trail) >= MAX_CALLS:
        return Say(text=answer.gave_up(f"{len(scene.trail)} calls did not get me there."))
    said = _small_talk(scene) or _acted(scene)
    if said is not None:
        return said
    choices = ranked(scene)
    goal = choices[0] if choices else None
    if goal is None or not fits(goal, scene):
        further = look_further(scene, " ".join(query_words(scene)))
        if further is None and REQUEST_MORE_TOOLS not in scene.box.meta and not choices:
            further = look_further(scene, scene.text)
        if further is not None:
            return further
        goal = next((choice for choice in choices if choice.verb_fits or choice.tool.reads), None)
        goal = goal if goal and (goal.named or len(goal.hits) > 1) else None
    if goal is None:
        return report(scene)
    rivals = [choice.tool for choice in choices[:3] if choice.score > goal.score / 2]
    return schema_calls([goal.tool, *rivals], scene) or _pursue(goal.tool, scene)


def _acted(scene: Scene) -> Say | None:
    """One wish is one deed: what has been changed is told, whatever tools came along since."""
    deeds = [done for done in scene.real_trail if not done.failed and scene.tool_of(done).changes]
    return Say(text=answer.outcome(deeds[-1].name, deeds[-1].content)) if deeds else None


def report(scene: Scene) -> Say:
    """What has been done, when no further tool can be called."""
    if not scene.real_trail:
        return Say(text=answer.nothing_fits(scene.text))
    last = scene.real_trail[-1]
    return Say(text=answer.failure(last.name, last.content) if last.failed else answer.outcome(last.name, last.content))


# Towards a goal


def _pursue(tool: KnownTool, scene: Scene) -> Step:
    calls = scene.calls_of(tool.name)
    if calls and not calls[-1].failed:
        again = _by_id_instead(tool, calls, scene)
        if again:
            return again
        told = answer.outcome(tool.name, calls[-1].content)
        in_vain = scene.wish.mood == "orders" and tool.reads and READ not in scene.wish.families
        return Say(text=answer.only_looked(told) if in_vain else told)
    insist = frozenset(wrong_fields(calls[-1].content)) if calls else frozenset()
    step = _work_towards(tool, scene, insist=insist)
    if not calls or isinstance(step, Say):
        return step
    repeated = any(scene.has_done(call.name, call.arguments) for call in _unwrapped(step))
    if repeated or len(calls) >= _MAX_TRIES or not insist:
        return Say(text=answer.failure(tool.name, calls[-1].content))
    return step


def _by_id_instead(tool: KnownTool, calls: Sequence[Done], scene: Scene) -> Step | None:
    """A search by name that gave nothing is tried once by identifier: the name may be somebody's, and no word to search."""
    searched = [slot for slot in tool.slots if slot.is_search and slot.name in calls[-1].arguments]
    if not searched or len(calls) >= _MAX_TRIES or is_something(calls[-1].content):
        return None
    resolution = resolve(tool, scene, by_id=True)
    if resolution.calls or resolution.question:
        return resolution.calls or None
    if not resolution.facts.ids:
        return None
    kept = {name: value for name, value in calls[-1].arguments.items() if name != searched[0].name}
    arguments = {**kept, **resolution.facts.ids}
    return None if scene.has_done(tool.name, arguments) else (call_of(tool, Filled(arguments=arguments)),)


def _unwrapped(calls: Sequence[Call]) -> Iterator[Call]:
    for call in calls:
        if call.name == EXECUTE_TOOL:
            yield Call(name=call.arguments["tool_name"], arguments=call.arguments["arguments"])
        else:
            yield call


def _work_towards(tool: KnownTool, scene: Scene, *, insist: frozenset[str] = frozenset()) -> Step:
    """Call the tool if its arguments are there; else call what finds them; else ask."""
    resolution = resolve(tool, scene)
    if resolution.calls:
        return resolution.calls
    if resolution.question:
        return Say(text=resolution.question)
    filled = fill(tool, resolution.facts, insist=insist)
    if filled.missing:
        return Say(text=answer.what_is(tool.name, filled.missing))
    return (call_of(tool, filled),)


# A tool must be called, whatever is known


def _stand_in(slot: Slot, scene: Scene) -> Any:
    """A value of the right type for what nobody said, as a model under `required` would make one up."""
    if slot.choices:
        return slot.choices[0]
    if "default" in slot.schema:
        return slot.schema["default"]
    match slot.type:
        case "integer" | "number":
            return slot.schema.get("minimum", 1)
        case "boolean":
            return False
        case "array":
            return []
        case "object":
            return {}
    text = salient(scene.facts()) or scene.text or "unknown"
    value = fitted(text, slot)
    return scene.today.isoformat() if value is NOTHING else value


def _meta_arguments(name: str, scene: Scene) -> JsonObject:
    query = " ".join(query_words(scene)) or "help"
    if name == REQUEST_MORE_TOOLS:
        return more_arguments(scene, query) or {"query": query}
    if name == RESPOND:
        return {"message": answer.signed(report(scene).text)}
    if name in (GET_TOOL_SCHEMA, EXECUTE_TOOL):
        return {"tool_name": next((choice.tool.name for choice in ranked(scene)), query)}
    return {"query": query} if name == SEARCH_TOOLS else {}
