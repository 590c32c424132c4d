"""Names of Gemini's models, their paths, and the pages of their list."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from toolcaddie.core.errors import ProviderProtocolError, RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import ModelPage
from toolcaddie.wires.bodies import decoded

MODELS = "/models?pageSize=1000"

_MODEL = re.compile(r"(?:(?:models|tunedModels)/)?[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_ASKED_BY = "generateContent"


def model_path(model: str) -> str:
    """Returns the path of a model below the base address. Raises `RequestError` for an invalid name, which could lead to
    another path."""
    if not _MODEL.match(model):
        raise RequestError(f"{model!r} is not the name of a Gemini model", param="model")
    return f"/{model}" if "/" in model else f"/models/{model}"


def read_models(body: bytes, *, who: str) -> ModelPage:
    """Returns the models of a page that can generate content. Raises `ProviderProtocolError`."""
    page = decoded(body, who=who)
    listed, following = page.get("models", []), page.get("nextPageToken") or ""
    if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
        raise ProviderProtocolError(f"{who} answered without a list of models")
    if not isinstance(following, str):
        raise ProviderProtocolError(f"{who} answered with a nextPageToken that is not a string")
    models = [_listing(model) for model in listed if _answers(model)]
    return ModelPage(models=models, next_path=f"{MODELS}&pageToken={quote(following, safe='')}" if following else "")


def _answers(model: JsonObject) -> bool:
    methods: Any = model.get("supportedGenerationMethods")
    return not isinstance(methods, list) or _ASKED_BY in methods


def _listing(model: JsonObject) -> JsonObject:
    name = str(model.get("name", "")).removeprefix("models/")
    return {"id": name, "object": "model", "created": 0, "owned_by": "google"}
