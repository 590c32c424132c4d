"""Pages of the items of a response or a conversation, as the Responses API lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from toolcaddie.core.tool import JsonObject
from toolcaddie.doors.gateway.exchange import Exchange

_PAGE, _LARGEST_PAGE = 20, 100


def query_of(exchange: Exchange) -> dict[str, str]:
    """Returns the parameters in the address of a request; of a repeated one, the last."""
    return {name: values[-1] for name, values in parse_qs(exchange.query.decode("latin-1")).items()}


def page_of(items: Sequence[JsonObject], query: Mapping[str, str]) -> JsonObject:
    """Returns a page of items, the newest first unless the query has another order. `after`: the id of the item before it."""
    ordered = list(items) if query.get("order", "desc") == "asc" else list(reversed(items))
    ids = [item["id"] for item in ordered]
    if (after := query.get("after")) in ids:
        ordered = ordered[ids.index(after) + 1 :]
    size = int(query["limit"]) if query.get("limit", "").isdecimal() and len(query["limit"]) < 10 else _PAGE
    page = ordered[: min(max(1, size), _LARGEST_PAGE)]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": len(page) < len(ordered)}


def listed(item: Any) -> JsonObject:
    """Returns an item of the input as lists show it, with its content in parts."""
    if not isinstance(item, dict):
        return {}
    whole = {"type": "message", **item}
    if whole["type"] == "message" and isinstance(whole.get("content"), str):
        kind = "output_text" if whole.get("role") == "assistant" else "input_text"
        whole["content"] = [{"type": kind, "text": whole["content"]}]
    return whole
