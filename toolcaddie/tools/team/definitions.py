"""What a model reads about `delegate_to_bot` and `collaborate`."""

from __future__ import annotations

from typing import Any

from toolcaddie.core.bots import BEGINS_RUNS
from toolcaddie.core.catalog import Category
from toolcaddie.core.tool import Tool, ToolAnnotations

DELEGATE, COLLABORATE = "delegate_to_bot", "collaborate"
CALL_KEY = "_callKey"
"""Name of the argument with the key of a call. It is added before the call. It is not in the schema, so no model chooses it."""

CATEGORY = Category(
    name="team",
    description="Ask other bots.",
    keywords=("bot", "colleague", "team", "delegate", "collaborate", "ask", "colega", "equipo", "delegar"),
)
_GRACE = 10.0
"""Seconds by which a tool's own timeout is longer than that of an answer, so that the run inside ends first."""
_BOT = {"type": "string", "minLength": 1, "description": "The bot to ask, by its name."}
_MESSAGE = {
    "type": "string",
    "minLength": 1,
    "description": "The message for the bot. It knows nothing of this conversation, so say all that it needs.",
}


def delegate_tool(label: str, step_timeout: float) -> Tool:
    """Returns the definition of `delegate_to_bot`."""
    return _tool(
        label,
        step_timeout,
        name=DELEGATE,
        description=(
            "Hand a question to another bot, which answers once, as itself and without any tools. Use it for what the bot "
            "knows or how it thinks, not for what it could do."
        ),
        properties={"targetBotId": _BOT, "message": _MESSAGE},
        required=["targetBotId", "message"],
        hints=("hand over", "another bot"),
    )


def collaborate_tool(label: str, step_timeout: float) -> Tool:
    """Returns the definition of `collaborate`."""
    return _tool(
        label,
        step_timeout,
        name=COLLABORATE,
        description=(
            "Work with other bots. `discover` lists them with their skills and with the tools that you both may use. `send` "
            "sends a message (targetBotId, message) and returns the answer; with the sessionId of the answer, the next message "
            "continues it. With visible, message and answer are posted in the group chat; writing @name there yourself does "
            "not reach a bot. `end_session` ends a session."
        ),
        properties={
            "action": {"type": "string", "enum": ["discover", "send", "end_session"]},
            "targetBotId": _BOT,
            "message": _MESSAGE,
            "sessionId": {"type": "string", "minLength": 1, "description": "The session to continue or to end."},
            "visible": {"type": "boolean", "default": False, "description": "Post it in the group chat."},
        },
        required=["action"],
        hints=("work together", "other bots", "session"),
    )


def _tool(
    label: str,
    step_timeout: float,
    *,
    name: str,
    description: str,
    properties: dict[str, Any],
    required: list[str],
    hints: tuple[str, ...],
) -> Tool:
    return Tool(
        name=name,
        description=description,
        input_schema={"type": "object", "properties": properties, "required": required, "additionalProperties": False},
        category=CATEGORY.name,
        hints=hints,
        source=label,
        annotations=ToolAnnotations(read_only=False, destructive=False, idempotent=False, open_world=False),
        idempotency_key=CALL_KEY,
        tags=(BEGINS_RUNS,),
        timeout=step_timeout + _GRACE,
        personal=True,
    )
