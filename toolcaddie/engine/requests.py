"""Makes the request that a round (one model call) sends to the model. If the preset forces a call, the request has a `Force`: the
provider is asked again until it calls a tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolcaddie.core.capabilities import ASSUMED_CACHE
from toolcaddie.core.catalog import has_own_forms
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.message import Force, Message, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import RunState
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import JsonObject
from toolcaddie.engine.choice import forced_names, sendable_choice, sendable_params
from toolcaddie.engine.engine import Run
from toolcaddie.ports import CallWrapper
from toolcaddie.util.replacing import replace

CAPABILITY_NOTE = (
    "You see only the tools that seem to fit this request. More exist: if none of yours fits, call "
    "request_more_tools and the set is expanded for your next step."
)
"""Added to the system prompt, unless the preset omits it, while meta tools are offered."""
_LAST_ROUND_NOTE = "No more tools can be called. Answer now with what you have found out so far."
"""Added to the last request of a run, if the model may call no more tools."""
_LAST_CALLS_NOTE = "Only these tools can still be called: {names}. Finish now with what you have found out so far."
"""Added to the last request of a run, if the model may still call some tools."""
_LIKELIEST = 8
"""The number of tools that a search ranks first if one must be called."""


def model_request(
    run: Run, state: RunState, delivery: Delivery, *, offer: bool, last: Sequence[str] = ()
) -> ModelRequest:
    """Returns the request of a round. `offer`: the model may call tools in this round. `last`: tools that may be called even in a
    round that offers none. The caller's `tool_choice` holds until the first call of the run."""
    context, had_tools = run.context, bool(delivery.definitions)
    if last:
        return _last_request(run, state, last)
    send_tools = offer or (had_tools and _keeps_array(run))
    choice = context.tool_choice if offer and not state.called else None
    if isinstance(choice, Mapping):
        choice = sendable_choice(choice, {tool.name for tool in delivery.tools}, context.view)
    return ModelRequest(
        model=context.model,
        messages=_prompt(run, state, offer=offer, had_tools=had_tools),
        tools=delivery.definitions if send_tools else (),
        tool_choice="none" if send_tools and not offer else choice,
        params=sendable_params(context.params, tools=send_tools, closing=had_tools and not send_tools),
        headers=context.headers,
        client_wire=context.client_wire,
        own_forms=_own_forms(run, delivery),
        deferred=delivery.deferred if send_tools else frozenset(),
        allowed=delivery.allowed if offer else None,
        cache=had_tools,
        cache_key=_cache_key(run),
        force=_force(run, state, delivery) if offer else None,
    )


def _force(run: Run, state: RunState, delivery: Delivery) -> Force | None:
    """Returns the force of a round; None: no call is forced, or a tool was called already. A search for tools does not count as a
    call, but a call inside a wrapper does."""
    if not run.preset.force or state.called or not delivery.tools:
        return None
    tools = run.engine.meta_tools
    ignored = frozenset(name for name in delivery.meta if not isinstance(tools[name], CallWrapper))
    return Force(candidates=_likeliest(run, state, delivery), ignored=ignored)


def _likeliest(run: Run, state: RunState, delivery: Delivery) -> tuple[str, ...]:
    """Returns the names of the tools that may be called, the likeliest first: those that the model has just requested, then the
    others by how well they match the request, and last those to which messages refer. If nothing was selected, a search ranks
    them."""
    scores = {item.tool.name: item.score for item in run.selection.tools}
    if not any(scores.values()):
        text = next((message.text for message in reversed(state.messages) if message.role == "user"), "")
        hits = run.engine.selector.search(run.context.view, text, _LIKELIEST)
        scores = {hit.tool.name: hit.score for hit in hits}
    names = [tool.name for tool in delivery.tools if delivery.allowed is None or tool.name in delivery.allowed]
    referenced = [name for name in state.referenced if name in delivery.deferred]
    revealed = [name for name in state.revealed if name in names or name in referenced]
    if state.revealed and not revealed and EXECUTE_TOOL in delivery.meta:
        revealed = [EXECUTE_TOOL]  # the revealed tools are shown as text
    return tuple(dict.fromkeys((*revealed, *sorted(names, key=lambda name: -scores.get(name, 0.0)), *referenced)))


def _last_request(run: Run, state: RunState, names: Sequence[str]) -> ModelRequest:
    """Returns the last request of a run, with these tools alone. The caller's `tool_choice` is kept if these tools can meet
    it."""
    context, choice = run.context, run.context.tool_choice
    tools = [tool for name in names if (tool := context.view.get(name)) is not None]
    keeps = choice == "required" or bool(set(forced_names(choice)) & set(names))
    note = _LAST_CALLS_NOTE.format(names=", ".join(names))
    return ModelRequest(
        model=context.model,
        messages=(*state.messages, Message(role="system", content=note)),
        tools=tuple(wire_definition(tool) for tool in tools),
        tool_choice=sendable_choice(choice, names, context.view) if keeps else None,
        params=context.params,
        headers=context.headers,
        client_wire=context.client_wire,
        own_forms=_forms_of(run, names),
        cache=True,
        cache_key=_cache_key(run),
    )


def _own_forms(run: Run, delivery: Delivery) -> Mapping[str, JsonObject]:
    """Returns the forms that the client's API has for the delivered tools, if they are not functions there."""
    if not has_own_forms(run.context.view.catalog):
        return {}
    return _forms_of(run, (*(tool.name for tool in delivery.tools), *delivery.deferred))


def _forms_of(run: Run, names: Iterable[str]) -> Mapping[str, JsonObject]:
    """Returns the forms that the client's API has for these tools."""
    if run.context.client_wire is None:
        return {}
    tools = filter(None, map(run.context.view.get, names))
    return {tool.name: tool.own_form for tool in tools if tool.own_form is not None}


def _cache_key(run: Run) -> str:
    """Returns the key by which the provider finds the conversation's prompt cache; empty if the provider has no such
    parameter."""
    return run.context.cache_key if run.engine.capabilities.cache_key else ""


def _keeps_array(run: Run) -> bool:
    """Returns True if a round that offers no tools sends the array nevertheless, with `tool_choice` `none`, because the
    provider's cache has the array in front of the conversation. It is omitted if the provider ignores choices or has no known
    cache, and for presets with delivery `direct`."""
    capabilities = run.engine.capabilities
    cached = capabilities.cache.kind != "none" and capabilities.cache != ASSUMED_CACHE
    return run.preset.delivery != "direct" and cached and capabilities.required != "ignored"


def _prompt(run: Run, state: RunState, *, offer: bool, had_tools: bool) -> Sequence[Message]:
    """Returns the messages to send: those of the state, and notes that are sent but never stored."""
    messages: tuple[Message, ...] = state.messages
    if run.preset.capability_note and state.meta:
        messages = with_system_note(messages, CAPABILITY_NOTE)
    if had_tools and not offer:
        messages = (*messages, Message(role="system", content=_LAST_ROUND_NOTE))
    return messages


def with_system_note(messages: tuple[Message, ...], note: str) -> tuple[Message, ...]:
    """Returns the messages with a note at the end of the system prompt; the note becomes the system prompt if there is none."""
    if messages and messages[0].role in ("system", "developer") and isinstance(messages[0].content, str):
        return (replace(messages[0], content=f"{messages[0].content}\n\n{note}"), *messages[1:])
    return (Message(role="system", content=note), *messages)
