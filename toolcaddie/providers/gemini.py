"""Gemini models by their own API, over one pooled connection: whole or streamed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import aiohttp

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ConfigError, ProviderAuthError, ProviderError, ProviderProtocolError, RequestError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName
from toolcaddie.providers.gemini_wire import Gathering, refuses_the_key, reply_from_wire, request_body, retry_delay
from toolcaddie.providers.http import HttpServer
from toolcaddie.wires.bodies import decoded

GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"

_MODEL = re.compile(r"(?:(?:models|tunedModels)/)?[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_MODELS = "/models?pageSize=1000"
_MOST_PAGES = 20
_ASKED_BY = "generateContent"


class Gemini:
    """A provider at `base_url` (with the version, `/v1beta`). Implements `ports.Provider`.

    `api_key` goes into a header, never into an address, where logs would keep it. `default_model` is asked where a request
    names none; `models/` before a name is taken off or not, as one likes. `timeout` bounds a whole answer in seconds. `headers`
    go with every request. A `session` given is used and not closed; otherwise one is made at first use, inside the running
    loop, and made anew after `close`.

    Raises `RequestError` for what this API cannot be asked, `ProviderError` and its kinds for what it answers, never with the
    key in it.
    """

    def __init__(
        self,
        base_url: str = GEMINI_URL,
        api_key: str | None = None,
        *,
        name: str = "gemini",
        default_model: str = "",
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        bounds: Bounds = DEFAULT,
    ) -> None:
        self.name = name
        self.wire: WireName = "gemini"
        self.default_model = default_model
        self._server = _Server(
            base_url,
            api_key,
            name=name,
            timeout=timeout,
            headers=headers,
            session=session,
            key_header="x-goog-api-key",
            key_prefix="",
            bounds=bounds,
        )

    def __repr__(self) -> str:
        return f"Gemini(name={self.name!r}, host={self._server.host!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        model = request.model or self.default_model
        path, author = f"{_path(model)}:generateContent", self._author(model)
        body = request_body(request, model=model, author=author)
        read = partial(reply_from_wire, who=self.name, author=author)
        return await self._server.whole("POST", path, body, read, headers=request.headers, timeout=request.timeout)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come, then the reply. Closing the iterator closes the connection to the provider."""
        model = request.model or self.default_model
        path, author = f"{_path(model)}:streamGenerateContent?alt=sse", self._author(model)
        body = request_body(request, model=model, author=author)
        gathering = Gathering(who=self.name, author=author)
        return self._server.streamed(path, body, gathering, headers=request.headers, timeout=request.timeout)

    async def models(self) -> Sequence[JsonObject]:
        """The models that can be asked, as OpenAI's model objects."""
        found: list[JsonObject] = []
        path = _MODELS
        for _ in range(_MOST_PAGES):
            listed, following = await self._server.whole("GET", path, None, self._listed)
            found.extend(listed)
            if not following:
                return found
            path = f"{_MODELS}&pageToken={quote(following, safe='')}"
        raise ProviderProtocolError(f"{self.name} lists its models on more than {_MOST_PAGES} pages")

    def _listed(self, answer: bytes) -> tuple[list[JsonObject], str]:
        """The models of one page, and the token of the next; empty: it was the last."""
        page = decoded(answer, who=self.name)
        listed, following = page.get("models", []), page.get("nextPageToken") or ""
        if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
            raise ProviderProtocolError(f"{self.name} answered without a list of models")
        if not isinstance(following, str):
            raise ProviderProtocolError(f"{self.name} answered with a nextPageToken that is no text")
        return [_listing(model) for model in listed if _answers(model)], following

    async def close(self) -> None:
        await self._server.close()

    def _author(self, model: str) -> str:
        return f"{self.name}:{model}"


class _Server(HttpServer):
    """Reads two things in this provider's error bodies that others say in the status and in a header."""

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        error = await super()._refusal(response)
        if error.retry_after is None:
            error.retry_after = retry_delay(error.body)
        if refuses_the_key(error.body):
            return ProviderAuthError(str(error), status=error.status, body=error.body)
        return error


def _path(model: str) -> str:
    """The model's place below the base address. Raises `RequestError` for what is no name: it would be another address."""
    if not _MODEL.match(model):
        raise RequestError(f"{model!r} is not the name of a Gemini model", param="model")
    return f"/{model}" if "/" in model else f"/models/{model}"


def _answers(model: JsonObject) -> bool:
    methods = model.get("supportedGenerationMethods")
    return not isinstance(methods, list) or _ASKED_BY in methods


def _listing(model: JsonObject) -> JsonObject:
    name = str(model.get("name", "")).removeprefix("models/")
    return {"id": name, "object": "model", "created": 0, "owned_by": "google"}


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> Gemini:
    """The provider that settings describe; `more` goes to `Gemini`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError("the provider 'gemini' needs an api_key, or the base_url of a server that takes none")
    return Gemini(base_url or GEMINI_URL, api_key, default_model=model or "", **more)
