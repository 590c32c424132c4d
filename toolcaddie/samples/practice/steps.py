"""The next step of the practice model, which follows rules instead of a language model: tool calls or a text.

The step depends on the conversation alone (`Scene`). The rules ask in this order: does a tool fit, was it called already, can
another tool find a missing identifier? The conversation contains the earlier calls, so that no call is repeated; after
`MAX_CALLS` calls the practice model stops. A wish is what the user wants now; the trail is the list of calls made for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, RESPOND, SEARCH_TOOLS
from toolcaddie.core.tool import JsonObject
from toolcaddie.samples.practice import answer
from toolcaddie.samples.practice.arguments import NAME_KINDS, NOTHING, filled, salient_text, value_for_slot
from toolcaddie.samples.practice.calls import (
    Call,
    Say,
    Step,
    call_of,
    look_further,
    more_arguments,
    query_of,
    schema_call,
)
from toolcaddie.samples.practice.english import CREATE, FIGURES, READ, SMALL_TALK, UPDATE, listed
from toolcaddie.samples.practice.identifiers import resolution_of
from toolcaddie.samples.practice.rows import wrong_fields
from toolcaddie.samples.practice.scene import PastCall, Scene
from toolcaddie.samples.practice.tools import KnownTool, Slot

MAX_CALLS = 12
"""The largest number of calls for one request of the user."""

_MAX_TRIES = 2
"""The largest number of calls of the tool that fits, if it refuses its arguments."""

_FIGURES = listed("figures")

_SISTER_SHARE = 0.7
"""Share by which a tool's score is moved towards that of the best tool with the same nouns in its name, because a word in the
description of one of these tools says something about all of them."""

_FITS = 0.25
"""The lowest score of a tool that fits."""


def next_step(scene: Scene) -> Step:
    """Returns the next step if the request does not force a tool call."""
    step = _free_step(scene)
    if isinstance(step, Say) and RESPOND in scene.box.meta:
        return (Call(name=RESPOND, arguments={"message": answer.signed(step.text)}),)
    return step


def forced_step(scene: Scene, name: str | None) -> Step:
    """Returns the next step if a tool must be called: the tool `name`, or any tool if it is None."""
    step = next_step(scene)
    if not isinstance(step, Say) and (name is None or all(call.name == name for call in step)):
        return step
    likely = [*(tool for tool, _ in choices(scene)), *scene.box.tools.values()]
    tool = scene.box.tools.get(name) if name else next(iter(likely), None)
    if tool is None:
        return (Call(name=name, arguments=_meta_arguments(name, scene)),) if name in scene.box.meta and name else step
    fitting = filled(tool, resolution_of(tool, scene).facts)
    stand_ins = {slot.name: _stand_in(slot, scene) for slot in fitting.missing}
    return (Call(name=tool.name, arguments={**fitting.arguments, **stand_ins}),)


def only_words(scene: Scene) -> Say:
    """Returns the text if no tool may be called."""
    return _small_talk(scene) or _report(scene)


def choices(scene: Scene) -> list[tuple[KnownTool, float]]:
    """Returns the tools that the selector finds for the request, weighted by their ability to serve it, the best first."""
    topics: dict[frozenset[str], float] = {}
    for tool, score in scene.ranking:
        topics[tool.nouns] = max(score, topics.get(tool.nouns, 0.0))
    weighed = [(tool, score + _SISTER_SHARE * (topics[tool.nouns] - score)) for tool, score in scene.ranking]
    weighed = [(tool, score * _words_factor(tool, scene) * _values_factor(tool, scene)) for tool, score in weighed]
    return sorted(weighed, key=lambda choice: -choice[1])


def _verb_fits(tool: KnownTool, scene: Scene) -> bool:
    """Returns True if a tool's action fits the wish: for a question a tool that changes nothing, for a stated fact one that
    creates or updates something, for an order one with the ordered verb or a verb of similar meaning."""
    wish = scene.wish
    if wish.mood == "asks":
        return not tool.changes
    if wish.mood == "states":
        return not tool.families.isdisjoint({CREATE, UPDATE})
    return (not tool.reads or READ in wish.families) and tool.does(wish.verb)


def _words_factor(tool: KnownTool, scene: Scene) -> float:
    """Returns the factor for the score of a tool by the words of its name: low if the verb does not fit the wish, and lower if
    only one of wish and tool is about figures, because counting things and listing them are often two tools."""
    verb = 0.5 if not _verb_fits(tool, scene) else 1.2 if scene.wish.verb in tool.name_stems else 1.0
    figures = bool(FIGURES.search(scene.text)) == (not _FIGURES.isdisjoint(tool.name_stems))
    return verb * (1.0 if figures else 0.75)


def _values_factor(tool: KnownTool, scene: Scene) -> float:
    """Returns a lower factor for a tool whose required values the message lacks, or that cannot use the message's values.

    Missing identifiers do not count, because they can be looked up by name.
    """
    facts = scene.facts()
    attempt = filled(tool, facts)
    missing = [slot for slot in attempt.missing if not slot.is_id]
    has_ids = any(slot.is_id for slot in tool.slots)
    nameless = any(slot.is_id and slot.required for slot in tool.slots) and not (facts.mentions or scene.points_back)
    values = [*attempt.arguments.values()]
    idle = [
        mention
        for mention in facts.mentions
        if facts.is_free(mention.start, mention.end)
        and not (has_ids and mention.kind in NAME_KINDS)
        and not any(value in values for value in ([*mention.value] if mention.kind == "period" else [mention.value]))
    ]
    share = 1.0 - len(idle) / len(facts.mentions) if facts.mentions else 1.0
    return float(0.75 ** len(missing)) * (0.5 + 0.5 * share) * (0.5 if nameless else 1.0)


def _free_step(scene: Scene) -> Step:
    """Returns the next step: a text if the wish is fulfilled or is small talk, a search for tools if none fits, otherwise a step
    towards the outcome of the tool that fits best. If the search finds nothing, a tool that reads may fit less well."""
    if len(scene.trail) >= MAX_CALLS:
        return Say(text=answer.gave_up(len(scene.trail)))
    words = _small_talk(scene) or _accomplished(scene)
    if words is not None:
        return words
    ranked = choices(scene)
    fitting = [tool for tool, score in ranked if score >= _FITS and _verb_fits(tool, scene)]
    if not fitting:
        further = look_further(scene, query_of(scene))
        if further:
            return further
        fitting = [tool for tool, score in ranked if score >= _FITS / 2 and tool.reads]
    if not fitting:
        return _report(scene)
    return schema_call(fitting[0], scene) or _pursued(fitting[0], scene)


def _small_talk(scene: Scene) -> Say | None:
    """Returns the answer to a greeting, an empty message or a cancelled wish; None for any other message."""
    if scene.trail:
        return None
    if scene.called_off:
        return Say(text=answer.CALLED_OFF)
    if not scene.text.strip() or SMALL_TALK.match(scene.text):
        return Say(text=answer.greeting(len(scene.box.tools)))
    return None


def _accomplished(scene: Scene) -> Say | None:
    """Reports the change that was made, or returns None. One wish causes only one change, even if more tools are offered
    afterwards."""
    tool_calls = [
        past_call for past_call in scene.tool_calls if not past_call.failed and scene.tool_of(past_call).changes
    ]
    return Say(text=answer.outcome(tool_calls[-1].name, tool_calls[-1].content)) if tool_calls else None


def _report(scene: Scene) -> Say:
    """Reports the last outcome if no further tool can be called."""
    if not scene.tool_calls:
        return Say(text=answer.nothing_fits(scene.text))
    last = scene.tool_calls[-1]
    return Say(text=(answer.failure if last.failed else answer.outcome)(last.name, last.content))


# Calling the tool that fits


def _pursued(tool: KnownTool, scene: Scene) -> Step:
    """Returns the next step towards the outcome of the tool that fits. After a call with success the step is a report of the
    outcome. Before, it is the step of `_towards`; a call that failed is repeated only with other arguments."""
    calls = scene.calls_of(tool.name)
    if calls and not calls[-1].failed:
        return _outcome_sentence(tool, calls[-1], scene)
    insist = wrong_fields(calls[-1].content) if calls else frozenset()
    step = _towards(tool, scene, insist)
    if not calls or isinstance(step, Say):
        return step
    repeated = any(scene.has_called(call.name, call.arguments) for call in _unwrapped(step))
    if repeated or len(calls) >= _MAX_TRIES or not insist:
        return Say(text=answer.failure(tool.name, calls[-1].content))
    return step


def _towards(tool: KnownTool, scene: Scene, insist: frozenset[str]) -> Step:
    """Returns the call of a tool if its arguments are complete; otherwise calls that find missing identifiers, or a question for
    the user. `insist`: optional arguments to treat as required."""
    resolution = resolution_of(tool, scene)
    if resolution.calls:
        return resolution.calls
    if resolution.question:
        return Say(text=resolution.question)
    fitting = filled(tool, resolution.facts, insist=insist)
    if fitting.missing:
        return Say(text=answer.missing_question(tool.name, fitting.missing))
    return (call_of(tool, fitting.arguments),)


def _outcome_sentence(tool: KnownTool, past_call: PastCall, scene: Scene) -> Say:
    """Returns the report of a call with success. If the user ordered a change and the tool only reads, the report says so."""
    text = answer.outcome(tool.name, past_call.content)
    wanted_a_change = scene.wish.mood == "orders" and READ not in scene.wish.families
    return Say(text=answer.only_looked(text) if wanted_a_change and tool.reads else text)


def _unwrapped(calls: Sequence[Call]) -> Iterator[Call]:
    """Yields the calls; instead of a call of `execute_tool`, the call of the tool named in its arguments."""
    for call in calls:
        if call.name == EXECUTE_TOOL:
            yield Call(name=call.arguments["tool_name"], arguments=call.arguments["arguments"])
        else:
            yield call


# A forced call


def _stand_in(slot: Slot, scene: Scene) -> Any:
    """Returns a made-up value of the right type, because a language model that is forced to call a tool makes values up too."""
    if slot.choices:
        return slot.choices[0]
    if "default" in slot.schema:
        return slot.schema["default"]
    empty: dict[str, Any] = {"boolean": False, "array": [], "object": {}}
    if slot.type in ("integer", "number"):
        return slot.schema.get("minimum", 1)
    if slot.type in empty:
        return empty[slot.type]
    value = value_for_slot(salient_text(scene.facts()) or scene.text or "unknown", slot)
    return scene.today.isoformat() if value is NOTHING else value


def _meta_arguments(name: str, scene: Scene) -> JsonObject:
    """Returns the arguments of a meta tool (a tool that finds or calls other tools) that must be called."""
    query = query_of(scene) or "help"
    if name == REQUEST_MORE_TOOLS:
        return more_arguments(scene, query)
    if name == RESPOND:
        return {"message": answer.signed(_report(scene).text)}
    if name in (GET_TOOL_SCHEMA, EXECUTE_TOOL):
        return {"tool_name": next((tool.name for tool, _ in choices(scene)), query)}
    return {"query": query} if name == SEARCH_TOOLS else {}
