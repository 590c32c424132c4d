"""Telegram's refusals: what it would say about a call of a method."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_LONGEST_TEXT, _LONGEST_DATA = 4_096, 64
_KINDS = frozenset({"message", "edited_message", "channel_post", "callback_query", "my_chat_member"})
_ACTIONS = frozenset({"typing", "upload_photo", "record_voice", "upload_document"})
METHODS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "getMe": (frozenset(), frozenset()),
    "getUpdates": (frozenset(), frozenset({"offset", "limit", "timeout", "allowed_updates"})),
    "setWebhook": (
        frozenset({"url"}),
        frozenset({"secret_token", "allowed_updates", "max_connections", "drop_pending_updates"}),
    ),
    "deleteWebhook": (frozenset(), frozenset({"drop_pending_updates"})),
    "sendMessage": (
        frozenset({"chat_id", "text"}),
        frozenset({"reply_parameters", "message_thread_id", "reply_markup", "link_preview_options", "parse_mode"}),
    ),
    "sendChatAction": (frozenset({"chat_id", "action"}), frozenset({"message_thread_id"})),
    "answerCallbackQuery": (frozenset({"callback_query_id"}), frozenset({"text", "show_alert"})),
    "getFile": (frozenset({"file_id"}), frozenset()),
}
"""The methods, each with its required and its optional fields."""


def complaint(method: str, parameters: Mapping[str, Any], *, files: Collection[str], blocked: Collection[int]) -> str:
    """Returns what Telegram would say about a call. Empty: it does it. `files`: ids of files. `blocked`: chats in which the bot
    may not write."""
    required, optional = METHODS[method]
    if missing := sorted(required - parameters.keys()):
        return f"Bad Request: {missing[0]} is missing"
    if unknown := sorted(parameters.keys() - required - optional):
        return f"Bad Request: unknown parameter {unknown[0]}"
    if any(kind not in _KINDS for kind in parameters.get("allowed_updates", ())):
        return "Bad Request: can't parse allowed_updates"
    match method:
        case "getUpdates" if not 1 <= parameters.get("limit", 100) <= 100:
            return "Bad Request: limit is out of range"
        case "sendMessage":
            return _message_complaint(parameters, blocked)
        case "sendChatAction" if parameters["action"] not in _ACTIONS:
            return "Bad Request: wrong parameter action in request"
        case "getFile" if parameters["file_id"] not in files:
            return "Bad Request: invalid file_id"
        case "setWebhook" if not 1 <= len(parameters.get("secret_token", "-")) <= 256:
            return "Bad Request: secret token is too long"
    return ""


def _message_complaint(parameters: Mapping[str, Any], blocked: Collection[int]) -> str:
    text = parameters["text"]
    if not isinstance(parameters["chat_id"], int):
        return "Bad Request: chat not found"
    if parameters["chat_id"] in blocked:
        return "Forbidden: bot was blocked by the user"
    if not isinstance(text, str) or not text.strip():
        return "Bad Request: message text is empty"
    if len(text.encode("utf-16-le")) // 2 > _LONGEST_TEXT:
        return "Bad Request: message is too long"
    for row in parameters.get("reply_markup", {}).get("inline_keyboard", ()):
        if any(not 1 <= len(button["callback_data"].encode()) <= _LONGEST_DATA for button in row):
            return "Bad Request: BUTTON_DATA_INVALID"
    return ""
