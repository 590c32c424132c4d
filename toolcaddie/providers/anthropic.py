"""Anthropic's Messages API, or any server that speaks it, over one pooled connection: whole or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import aiohttp

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import capabilities_of
from toolcaddie.core.errors import ConfigError, ProviderProtocolError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName
from toolcaddie.providers.anthropic_replies import Gathering, reply_from_wire
from toolcaddie.providers.anthropic_wire import Tools, request_body
from toolcaddie.providers.http import HttpServer
from toolcaddie.wires.bodies import decoded

ANTHROPIC_URL = "https://api.anthropic.com"

_VERSION = "2023-06-01"
_PATH = "/v1/messages"
_MODELS = "/v1/models?limit=1000"
_BETA = "anthropic-beta"
_MAX_TOKENS = 16_000


class Anthropic:
    """A provider at `base_url` (with or without `/v1`). Implements `ports.Provider`. `api_key` None sends no key, for
    servers of one's own. `default_model` is asked where a request names none. `timeout` bounds a whole answer in
    seconds. `headers` go with every request (`anthropic-beta`, ...). `max_tokens` bounds an answer where a request has
    no bound, because the API wants one. `mid_system`: the models take system messages within the conversation,
    otherwise they go into the user's turn, marked as notes; None: as the capability table says of a model. A `session`
    given is used and not closed; otherwise one is made at first use, inside the running loop, and made anew after
    `close`. `key_header` and `key_prefix` say how the key is sent.

    Raises `ProviderError` and its kinds, never with the key in it, and `RequestError` for what the API has no word for.
    """

    def __init__(
        self,
        base_url: str = ANTHROPIC_URL,
        api_key: str | None = None,
        *,
        name: str = "anthropic",
        default_model: str = "",
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        max_tokens: int = _MAX_TOKENS,
        mid_system: bool | None = None,
        key_header: str = "x-api-key",
        key_prefix: str = "",
        bounds: Bounds = DEFAULT,
    ) -> None:
        self.name = name
        self.wire: WireName = "messages"
        self.default_model = default_model
        own = {key.lower(): value for key, value in (headers or {}).items()}
        self._beta = own.pop(_BETA, "")
        self._server = HttpServer(
            base_url.strip().rstrip("/").removesuffix("/v1"),
            api_key,
            name=name,
            timeout=timeout,
            headers={"anthropic-version": _VERSION, **own},
            session=session,
            key_header=key_header,
            key_prefix=key_prefix,
            bounds=bounds,
        )
        self._max_tokens = max_tokens
        self._mid_system = mid_system
        self._tools = Tools()

    def __repr__(self) -> str:
        return f"Anthropic(name={self.name!r}, host={self._server.host!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        model = request.model or self.default_model
        read = partial(reply_from_wire, who=self.name, author=self._author(model))
        body, headers = self._asked(request, model, stream=False)
        return await self._server.whole("POST", _PATH, body, read, headers=headers, timeout=request.timeout)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come, then the reply. Closing the iterator closes the connection to the provider."""
        model = request.model or self.default_model
        gathering = Gathering(who=self.name, author=self._author(model))
        body, headers = self._asked(request, model, stream=True)
        return self._server.streamed(_PATH, body, gathering, headers=headers, timeout=request.timeout)

    async def models(self) -> Sequence[JsonObject]:
        return await self._server.whole("GET", _MODELS, None, self._listed)

    async def close(self) -> None:
        await self._server.close()

    def _asked(self, request: ModelRequest, model: str, *, stream: bool) -> tuple[bytes, Mapping[str, str]]:
        """Body and headers of a request. Beta features are named together, whoever wants them."""
        body, needed = request_body(
            request,
            model=model,
            stream=stream,
            author=self._author(model),
            tools=self._tools,
            max_tokens=self._max_tokens,
            mid_system=self._takes_system(model),
        )
        headers = {name.lower(): value for name, value in (request.headers or {}).items()}
        beta = ",".join(filter(None, (self._beta, headers.get(_BETA), *needed)))
        return body, {**headers, _BETA: beta} if beta else headers

    def _listed(self, answer: bytes) -> Sequence[JsonObject]:
        listed = decoded(answer, who=self.name).get("data")
        if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
            raise ProviderProtocolError(f"{self.name} answered without a list of models")
        return [_model(model) for model in listed]

    def _takes_system(self, model: str) -> bool:
        """Whether a system message may stand within the conversation: only then can it bring tools."""
        if self._mid_system is not None:
            return self._mid_system
        return capabilities_of(f"{self.name}:{model}", wire=self.wire).deferral == "additions"

    def _author(self, model: str) -> str:
        return f"{self.name}:{model}"


def _model(listed: JsonObject) -> JsonObject:
    """A model as OpenAI's API lists it."""
    return {
        "id": str(listed.get("id", "")),
        "object": "model",
        "created": _seconds(listed.get("created_at")),
        "owned_by": "anthropic",
    }


def _seconds(date: Any) -> int:
    """Of a date such as 2026-02-04T00:00:00Z, since 1970; 0: not known."""
    try:
        return int(datetime.fromisoformat(date).timestamp())
    except (TypeError, ValueError, OverflowError):
        return 0


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> Anthropic:
    """The provider that settings describe; `more` goes to `Anthropic`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError("the provider 'anthropic' needs an api_key, or the base_url of a server that takes none")
    return Anthropic(base_url or ANTHROPIC_URL, api_key, default_model=model or "", **more)
