"""The gateway's routes besides requests to a model: the list of models, health checks, and metrics. `app` adds them to `router`.

The upstream is the model's API behind the gateway. A wire is the format of an API.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from toolcaddie.control.people import is_named
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import ProviderProtocolError, ToolcaddieError
from toolcaddie.core.tool import JsonObject
from toolcaddie.doors.gateway.bots import BotModels
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.onward import Onward, upstream_headers, upstream_status
from toolcaddie.doors.gateway.problems import RefusedError, problem
from toolcaddie.doors.gateway.router import Caller, Route
from toolcaddie.doors.gateway.writable import Writable
from toolcaddie.ports import Forwarder
from toolcaddie.providers.wrapping import wire_of
from toolcaddie.runtime import Runtime
from toolcaddie.wires import chat

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Pages:
    """Answers the requests that are not to a model.

    `onward` selects the client's headers that go to the upstream. `key_headers`: the headers in which clients may send an API
    key. `watchers`: the owners of keys who may read the metrics, by id or as `role:NAME`. `ready`: the metric of `/readyz`.
    """

    def __init__(
        self,
        runtime: Runtime,
        writable: Writable,
        registry: CollectorRegistry,
        *,
        bots: BotModels,
        onward: Onward,
        key_headers: Collection[bytes],
        bounds: Bounds,
        watchers: Collection[str],
        ready: Gauge,
    ) -> None:
        self._runtime = runtime
        self._writable = writable
        self._registry = registry
        self._bots = bots
        self._onward = onward
        self._key_headers = key_headers
        self._bounds = bounds
        self._watchers = watchers
        self._ready = ready

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(method="GET", path="/v1/models", handle=self._models, key_headers=self._key_headers),
            Route(method="GET", path="/metrics", handle=self._metrics, key_headers=self._key_headers),
            Route(method="GET", path="/healthz", handle=self._healthz, public=True),
            Route(method="GET", path="/readyz", handle=self._readyz, public=True),
        )

    async def _models(self, exchange: Exchange, caller: Caller) -> None:
        """Answers with the list of models in OpenAI's format, and the bots that the caller may ask. A client that sends its own
        key for the upstream gets the list that the upstream returns for this key."""
        bots = self._bots.entries(caller.principal)
        headers = self._onward.headers(exchange.headers, keyed=caller.keyed, once=True, key_headers=self._key_headers)
        provider = self._runtime.provider
        same_list = wire_of(provider) == chat.WIRE.name
        if self._onward.key_header in headers and same_list and isinstance(provider, Forwarder):
            await self._forwarded_models(provider, exchange, headers, bots)
            return
        await _answer_json(exchange, {"object": "list", "data": [*bots, *await provider.models()]})

    async def _forwarded_models(
        self, provider: Forwarder, exchange: Exchange, headers: Mapping[str, str], bots: Sequence[JsonObject]
    ) -> None:
        """Answers with the bots and the upstream's list of models, which is unchanged if there are no bots."""
        response = await provider.forward("GET", chat.WIRE.models_path, None, headers)
        try:
            body = b""
            while piece := await response.content.readany():
                body += piece
                if len(body) > self._bounds.answer:
                    limit = f"the {self._bounds.answer:,} bytes allowed for it (setting bounds.answer)"
                    raise ProviderProtocolError(f"the upstream's list of models is larger than {limit}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ProviderProtocolError(f"the upstream cut its list of models short: {error}") from error
        finally:
            response.close()
        body = _with_bots(body, bots) if bots else body
        kind = dict(upstream_headers(response)).get(b"content-type", b"application/json").decode("latin-1")
        await exchange.answer(upstream_status(response), body, {"content-type": kind})

    async def _metrics(self, exchange: Exchange, caller: Caller) -> None:
        """Answers with the metrics. They name tools, models and providers of all callers, so not every key may read them."""
        if caller.keyed and not is_named(self._watchers, caller.principal):
            message = (
                f"the key of {caller.principal.id} may not read the metrics; make one that may (toolcaddie keys add NAME "
                "--role metrics), or name its user or role in the setting gateway.metrics"
            )
            raise RefusedError(problem(403, message, kind="invalid_request_error", code="forbidden"))
        self._ready.set(not await self._not_ready())
        await exchange.answer(200, generate_latest(self._registry), {"content-type": _METRICS_TYPE})

    async def _healthz(self, exchange: Exchange, caller: Caller) -> None:
        """Answers as long as the process lives."""
        await _answer_json(exchange, {"status": "ok"})

    async def _readyz(self, exchange: Exchange, caller: Caller) -> None:
        """Answers 200 if runs can be recorded and the catalog can be read, else 503 with the reason. Everybody may ask, so the
        answer says nothing of the catalog."""
        if reason := await self._not_ready():
            await _answer_json(exchange, {"status": "not ready", "reason": reason}, status=503)
            return
        await _answer_json(exchange, {"status": "ready", "provider": self._runtime.provider.name})

    async def _not_ready(self) -> str:
        """Returns the reason why no run can be recorded, or why the catalog cannot be read; empty: all is well."""
        try:
            await self._writable.check()
            self._runtime.source.snapshot()
        except ToolcaddieError as error:
            return str(error)
        return ""


def _with_bots(body: bytes, bots: Sequence[JsonObject]) -> bytes:
    """Returns a list of models with the bots in front; an error of the upstream unchanged."""
    try:
        models = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return body
    if not isinstance(models, dict) or not isinstance(models.get("data"), list):
        return body
    return msgspec.json.encode({**models, "data": [*bots, *models["data"]]})


async def _answer_json(exchange: Exchange, value: Any, *, status: int = 200) -> None:
    await exchange.answer(status, msgspec.json.encode(value), {})
