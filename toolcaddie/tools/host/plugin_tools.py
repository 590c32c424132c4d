"""The source of the tools `plugin_NAME_query`, `plugin_NAME_diff` and `plugin_NAME_apply` of each state plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import HostError, RequestError, ToolcaddieError
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.states import Change, StateDiff
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.ports import MeasuringPlugin, StatePlugin
from toolcaddie.states.changing import Applied, Changing, matching
from toolcaddie.states.differences import decoded, version_of

_Step = Literal["query", "diff", "apply"]
_STEPS: tuple[_Step, ...] = ("query", "diff", "apply")
_SECONDS = 120.0
_SHOWN_CHANGES = 50
"""The largest number of changes in the preview of a call."""
_READ_ONLY = ToolAnnotations(read_only=True)


class PluginTools:
    """Implements `ports.OpenableSource`, `ports.ClaimingSource` and `ports.AssessingSource`."""

    name = "host-plugins"
    revision = 1

    def __init__(self, parts: Sequence[Changing]) -> None:
        self._parts = tuple(parts)
        self._routes: dict[str, tuple[Changing, _Step]] = {
            f"plugin_{part.plugin.name}_{step}": (part, step) for part in parts for step in _STEPS
        }
        self._tools = tuple(_tool(name, part.plugin, step) for name, (part, step) in self._routes.items())
        self.claims = frozenset(self._routes)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        words = tuple(part.plugin.name for part in self._parts)
        return [Category(name="plugin", description="States of this machine, and changes to them.", keywords=words)]

    async def open(self) -> None:
        for part in self._parts:
            await part.open()

    async def close(self) -> None:
        for part in self._parts:
            await part.close()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        part, step = self._routes[tool.name]
        try:
            match step:
                case "query":
                    state = await part.query(pattern := arguments.get("filter", ""))
                    measures = await _measures(part.plugin, pattern)
                    return _result({"version": version_of(state), "state": state, **measures})
                case "diff":
                    return _result(msgspec.to_builtins(await part.difference(arguments["desired_state"])))
                case "apply":
                    diff = decoded(part.plugin, arguments["diff"])
                    if arguments.get("dry_run", True):
                        return _result(
                            {"applied": False, "dry_run": True, "changes": _shown(await part.check(diff))},
                            "Nothing was changed. With dry_run false, these changes are made.",
                        )
                    return _outcome(part.plugin, await part.apply(diff))
        except RequestError as error:
            return failed(f"{tool.name}: {error}", "invalid_arguments")
        except HostError as error:
            return failed(f"{tool.name}: {error}")

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        part, step = self._routes[tool.name]
        if step != "apply" or arguments.get("dry_run", True):
            return Assessment(annotations=_READ_ONLY)
        try:
            diff = decoded(part.plugin, arguments["diff"])
        except RequestError:
            return NOTHING  # the call itself fails, and says why
        try:
            changes = await part.check(diff)
        except (HostError, RequestError) as error:
            return _unchecked(part.plugin, diff, error)
        changed = changes or diff.effective  # a confirmation is judged as the change itself
        return Assessment(
            preview=_preview(part.plugin, diff, changes),
            question=_question(part.plugin, changed),
            effects=_effects(part.plugin, changed),
        )


def _effects(plugin: StatePlugin, changes: Sequence[Change]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(effect for change in changes for effect in plugin.effects(change)))


def _unchecked(plugin: StatePlugin, diff: StateDiff, error: ToolcaddieError) -> Assessment:
    """Returns the judgement of a call that would fail now. It succeeds if the state becomes the one of the difference before the
    call runs, so it is judged as if it did."""
    try:
        effects, question = _effects(plugin, diff.effective), _question(plugin, diff.effective)
    except (LookupError, TypeError, ValueError, AttributeError):  # values that no plugin has planned
        return Assessment(refusal=f"plugin_{plugin.name}_apply: {error}")
    return Assessment(preview=f"If it is approved now, it fails: {error}", question=question, effects=effects)


async def _measures(plugin: StatePlugin, pattern: str) -> dict[str, Any]:
    """Returns what a plugin measures of the things whose names fit; nothing for one that measures nothing."""
    if not isinstance(plugin, MeasuringPlugin):
        return {}
    return {"measures": matching(await plugin.measures(), pattern)}


def _tool(name: str, plugin: StatePlugin, step: _Step) -> Tool:
    match step:
        case "query":
            text = f"{plugin.description} Read the present state."
            properties = {"filter": {"type": "string", "maxLength": 200, "description": "Names to read, such as a*"}}
            required = []
        case "diff":
            text = f"{plugin.description} Compare a desired state with the present one, without changing anything."
            properties = {
                "desired_state": {
                    "type": "object",
                    "description": "The attributes each named thing must have; null: it must not exist",
                    "maxProperties": 500,
                    "additionalProperties": {"anyOf": [plugin.attributes, {"type": "null"}]},
                }
            }
            required = ["desired_state"]
        case "apply":
            text = f"Make the changes of plugin_{plugin.name}_diff. {_APPLY_LOCKING if plugin.may_lock_out else _APPLY}"
            properties = {
                "diff": {"type": "object", "description": f"The value of plugin_{plugin.name}_diff, unchanged"},
                "dry_run": {"type": "boolean", "default": True, "description": "True: only say what would be done"},
            }
            required = ["diff"]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(
        name=name,
        description=text,
        input_schema=schema,
        category="plugin",
        source=PluginTools.name,
        hints=(plugin.name,),
        annotations=ToolAnnotations(read_only=True) if step != "apply" else ToolAnnotations(destructive=True),
        timeout=_SECONDS,
    )


_APPLY = "They are made only if the state is still the same, all or none."
_APPLY_LOCKING = f"{_APPLY} They are undone after some time, unless the same call is made again."


def _outcome(plugin: StatePlugin, applied: Applied) -> ToolResult:
    value: dict[str, Any] = {"applied": True, "changes": _shown(applied.changes)}
    if applied.confirmed:
        return _result({**value, "confirmed": True}, "The change is confirmed and stays.")
    if not applied.changes:
        return _result({**value, "applied": False}, "There is nothing to change.")
    notes: list[str] = []
    if applied.undo is not None:
        value["undo"] = msgspec.to_builtins(applied.undo)
    else:
        notes.append(f"No diff leads back: {applied.no_undo}.")
    if applied.confirm_within is not None:
        seconds = value["confirm_within_seconds"] = int(applied.confirm_within)
        notes.append(
            f"This is undone in {seconds} s unless plugin_{plugin.name}_apply is called again with the same diff."
        )
    return _result(value, " ".join(notes))


def _result(value: Any, note: str = "") -> ToolResult:
    text = canonical_json(value).decode()
    return ToolResult(content=f"{text}\n{note}" if note else text, structured=value)


def _shown(changes: Sequence[Change]) -> list[Any]:
    return [msgspec.to_builtins(change) for change in changes]


def _question(plugin: StatePlugin, changes: Sequence[Change]) -> str:
    """Returns the first reason why a person is asked about these changes in any case; empty: there is none."""
    for change in changes:
        if reason := plugin.question(change) or (f"deletes {change.target}" if change.action == "delete" else ""):
            return reason
    return ""


def _preview(plugin: StatePlugin, diff: StateDiff, changes: Sequence[Change]) -> str:
    """Returns the changes as a person who is asked reads them, a line each."""
    if not changes and diff.effective:
        return f"Confirms the last change of {plugin.name}, so that it stays."
    lines = [_line(change) for change in changes[:_SHOWN_CHANGES]]
    if len(changes) > _SHOWN_CHANGES:
        lines.append(f"and {len(changes) - _SHOWN_CHANGES} more")
    return "\n".join(lines)


def _line(change: Change) -> str:
    before, after = change.before or {}, change.after or {}
    if change.action == "delete":
        return f"delete {change.target}"
    names = [name for name in after if before.get(name) != after[name]]
    old = {name: before[name] for name in names if name in before}
    values = ", ".join(
        f"{name}: {_value(old[name])} -> {_value(after[name])}" if name in old else f"{name}: {_value(after[name])}"
        for name in names
    )
    return f"{change.action} {change.target}  {values}".rstrip()


def _value(value: Any) -> str:
    return canonical_json(value).decode()
