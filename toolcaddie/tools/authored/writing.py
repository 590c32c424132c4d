"""The tool `create_tool`, with which a model writes a tool: what the model reads about it, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.tools.authored.authorship import Authorship
from toolcaddie.tools.authored.checks import findings_of
from toolcaddie.tools.authored.loader import CATEGORY
from toolcaddie.tools.authored.values import Author, AuthoredTool, Definition, ToolType

NAME = "create_tool"
_INTRODUCTION = (
    "Write a new tool. It cannot be called before a person has read and approved it, so tell the user that it waits. It "
    "runs alone in a sandbox: no network, no files but its own empty folder, the standard library only, 30 seconds."
)
_TYPES: Mapping[ToolType, str] = {
    "python": (
        "python: `source` is a file with a function `run`, whose parameters are those of the schema. It returns the result "
        "as text or JSON, or {'success': bool, 'content': ...}; an exception is a failure. "
        "Example: def run(text): return len(text.split())"
    ),
    "command": (
        "command: `source` is one program with its arguments, such as `grep -c -- {{pattern}} /usr/share/dict/words`. "
        "{{name}} is the value of the parameter, always one argument or a part of one. There is no shell: no pipes, no "
        "variables, and a value needs no quotes. Write `--` before values that may begin with '-'."
    ),
    "typescript": (
        "typescript: `source` is a module that exports a function `run`. It takes one object with the parameters and "
        "returns the result as text or JSON, or {success, content}. Only types that can be taken out are allowed, and no "
        "imports."
    ),
}


def definition_of_tool(types: Sequence[ToolType], label: str) -> Tool:
    """Returns the definition of `create_tool` for these types of tools."""
    return Tool(
        name=NAME,
        description=" ".join([_INTRODUCTION, *(_TYPES[each] for each in types)]),
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "In snake_case, such as count_words; no other tool has it."},
                "description": {
                    "type": "string",
                    "description": "What the tool does, for the model that will call it.",
                },
                "source": {"type": "string"},
                "type": {"type": "string", "enum": list(types), "default": types[0]},
                "parameters": {
                    "type": "object",
                    "description": "JSON Schema of the arguments: an object with properties and required.",
                },
                "scope": {
                    "type": "string",
                    "description": "`all` bots, or the id of one bot; yours if omitted.",
                },
            },
            "required": ["name", "description", "source"],
            "additionalProperties": False,
        },
        category=CATEGORY,
        source=label,
        hints=("write a tool", "make a tool", "new tool", "automate"),
        annotations=ToolAnnotations(read_only=False, destructive=False, idempotent=False, open_world=False),
    )


async def write(
    authorship: Authorship, arguments: Mapping[str, Any], context: RunContext, types: Sequence[ToolType]
) -> ToolResult:
    """Adds the tool that a model wrote. What is wrong with it is a result, so that the model can mend it."""
    name, principal = arguments["name"], context.principal
    if context.view.catalog.get(name) is not None:
        return failed(f"there is a tool {name!r} already; choose another name", "invalid_arguments")
    definition = Definition(
        name=name,
        description=arguments["description"],
        type=arguments.get("type", types[0]),
        source=arguments["source"],
        parameters=arguments.get("parameters") or {"type": "object", "properties": {}},
        scope=arguments.get("scope") or principal.bot or "all",
    )
    author = Author(principal=principal, run_id=context.run_id, taint=context.taint)
    try:
        tool = await authorship.create(definition, author)
    except RequestError as error:
        return failed(f"{name} was not written: {error}", "denied" if error.code == "limit" else "invalid_arguments")
    return ToolResult(
        content=_waiting(tool, principal), structured={"id": tool.id, "name": name, "status": tool.status}
    )


def _waiting(tool: AuthoredTool, principal: Principal) -> str:
    name = tool.definition.name
    warnings = "".join(f"\n- line {each.line}: {each.text}" for each in findings_of(tool.definition))
    return (
        f"{name} is written and waits. It cannot be called until a person approves it: at /console/authored, or with "
        f"`toolcaddie authored show {name}` and `toolcaddie authored approve {name}`. Tell the user so"
        + (f" ({principal.id})." if principal.id != Principal().id else ".")
        + (f"\nThe person will be shown:{warnings}" if warnings else "")
    )
