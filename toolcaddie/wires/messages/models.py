"""Reading of the list of models in the format of Anthropic's API. `who` is the provider's name for error messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import ModelPage
from toolcaddie.util.replacing import replace
from toolcaddie.wires.bodies import model_page


def read_models(body: bytes, *, who: str) -> ModelPage:
    """Returns the models, as OpenAI's API lists them. Raises `ProviderProtocolError`."""
    page = model_page(body, who=who)
    return replace(page, models=[_model(model) for model in page.models])


def _model(listed: JsonObject) -> JsonObject:
    return {
        "id": str(listed.get("id", "")),
        "object": "model",
        "created": _seconds(listed.get("created_at")),
        "owned_by": "anthropic",
    }


def _seconds(date: Any) -> int:
    """Returns the seconds since 1970 of a date such as 2026-02-04T00:00:00Z; 0: not known."""
    try:
        return int(datetime.fromisoformat(date).timestamp())
    except (TypeError, ValueError, OverflowError):
        return 0
