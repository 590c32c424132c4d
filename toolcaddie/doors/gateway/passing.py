"""Passes requests on to the upstream, the model's API behind the gateway, that are not answered by runs: embeddings, moderations,
old completions, one model, and further paths below `/v1`.

With the server's own key only the paths in `_ALWAYS` and those that the operator lists in the settings are passed on: the key may
open more, such as the operator's files and batches. With a client's own key, its path may be any, because that key opens only
what belongs to the client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from toolcaddie.core.bounds import DEFAULT
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.aliases import with_model
from toolcaddie.doors.gateway.bodies import Bodies
from toolcaddie.doors.gateway.bots import BotModels
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.limiting import ACCOUNT, Account, Limiter, charged
from toolcaddie.doors.gateway.onward import Onward, pass_on
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route
from toolcaddie.doors.gateway.traffic import away
from toolcaddie.ports import Forwarder, Provider
from toolcaddie.wires.bodies import open_envelope

_PREFIX = "/v1"
_ALWAYS = ("/v1/embeddings", "/v1/completions", "/v1/moderations")
"""Paths that are passed on with any key: they only compute, and read or store nothing."""
_OPENAI = ("chat", "responses")
"""Wires whose upstream has OpenAI's other paths, and whose base address ends with `/v1`."""
_METHODS = frozenset({"GET", "POST", "DELETE"})
_STRANGE = frozenset("%?#\\")


class Passing:
    """Passes requests on to `provider`. `passed`: the operator's list of further paths. `key_headers`: the headers in which
    clients may send a key."""

    def __init__(
        self,
        provider: Provider,
        *,
        onward: Onward,
        bodies: Bodies,
        key_headers: Collection[bytes],
        passed: Sequence[str] = (),
        aliases: Mapping[str, str],
        bots: BotModels,
        limiter: Limiter,
    ) -> None:
        self._provider = provider
        self._limiter = limiter
        self._onward = onward
        self._bodies = bodies
        self._passed = [_entry(text) for text in passed]
        self._aliases = aliases
        self._bots = bots
        self.key_headers = key_headers

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            *(self._route("POST", path, self._compute, works=True) for path in _ALWAYS),
            self._route("GET", "/v1/models/{model*}", self._model),
        )

    def _route(self, method: Literal["GET", "POST"], path: str, handle: Any, *, works: bool = False) -> Route:
        return Route(method=method, path=path, handle=handle, key_headers=self.key_headers, works=works)

    # ---------------------------------------------------------------- paths without a route

    def may_accept(self, method: str, path: str) -> bool:
        """Returns True if the path may be passed on: with the server's key, or only with a client's."""
        return (
            method in _METHODS
            and path.startswith(f"{_PREFIX}/")
            and _is_plain(path)
            and isinstance(self._provider, Forwarder)
            and self._onward.wire != "gemini"
            and (self._is_listed(method, path) or not self._onward.own_key)
        )

    def accepts(self, method: str, exchange: Exchange, caller: Caller) -> bool:
        return self._is_listed(method, exchange.path) or self._onward.key_header in self._headers(exchange, caller)

    async def handle(self, method: str, exchange: Exchange, caller: Caller) -> None:
        """Passes a request on unchanged."""
        await self._send(method, exchange, caller)

    def _is_listed(self, method: str, path: str) -> bool:
        return any(
            allowed in ("*", method) and fnmatchcase(path, pattern) and pattern.count("/") == path.count("/")
            for allowed, pattern in self._passed
        )

    # ---------------------------------------------------------------- routes

    async def _compute(self, exchange: Exchange, caller: Caller) -> None:
        """Passes on a request that only computes something."""
        if isinstance(self._provider, Forwarder) and self._onward.wire in _OPENAI:
            await self._send("POST", exchange, caller)
        else:
            await exchange.refuse(self._missing(exchange))

    async def _model(self, exchange: Exchange, caller: Caller) -> None:
        """Answers with one model: a bot, the upstream's own answer, or the entry of the list of models."""
        model = self._aliases.get(exchange.part, exchange.part)
        if (bot := self._bots.entry(model, caller.principal)) is not None:
            await exchange.answer(200, msgspec.json.encode(bot), {})
            return
        if isinstance(self._provider, Forwarder) and self._onward.wire in _OPENAI and _is_plain(exchange.path):
            await self._send("GET", exchange, caller, path=f"/models/{model}")
            return
        entry = next((each for each in await self._provider.models() if each.get("id") == model), None)
        if entry is None:
            message = f"the model {model[:200]!r} does not exist; the models are listed at /v1/models"
            await exchange.refuse(problem(404, message, kind="invalid_request_error", code="model_not_found"))
        else:
            await exchange.answer(200, msgspec.json.encode(entry), {})

    def _missing(self, exchange: Exchange) -> Problem:
        message = f"the upstream of this gateway ({self._provider.name}) has nothing at {exchange.path}"
        return problem(400, message, kind="invalid_request_error", code="not_supported")

    # ---------------------------------------------------------------- sending

    def _headers(self, exchange: Exchange, caller: Caller) -> dict[str, str]:
        return self._onward.headers(exchange.headers, keyed=caller.keyed, once=True, key_headers=self.key_headers)

    async def _send(self, method: str, exchange: Exchange, caller: Caller, *, path: str = "") -> None:
        """Sends the request to the upstream, and its answer to the client. What may cost something is refused to a bot with a
        budget, because only runs are counted in it."""
        if method == "POST" and self._bots.has_budget(caller.principal):
            message = (
                f"the bot {caller.principal.bot or 'that answers by default'!r} has a budget, in which only its runs are "
                "counted, so nothing else is passed on for it; use a key of a bot without a budget"
            )
            await exchange.refuse(problem(403, message, kind="invalid_request_error", code="forbidden"))
            return
        with self._bodies.share() as share:
            body = await exchange.body(share)
            if body is None:
                return
            if isinstance(body, Problem):
                await exchange.refuse(body)
                return
            headers = self._headers(exchange, caller)
            if kind := exchange.headers.get(b"content-type"):
                headers["content-type"] = kind.decode("latin-1")
            below = path or (exchange.path.removeprefix(_PREFIX) if self._onward.wire in _OPENAI else exchange.path)
            query = f"?{exchange.query.decode('latin-1')}" if exchange.query else ""
            body = self._with_model(body)
            account = await self._account(method, exchange, caller, body)
            try:
                await exchange.while_connected(
                    self._forward(method, f"{below}{query}", body or None, headers, exchange)
                )
            finally:
                if account is not None:
                    account.settle()

    async def _forward(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], exchange: Exchange
    ) -> None:
        assert isinstance(self._provider, Forwarder)
        away()
        with charged(exchange, observed=True):
            await pass_on(await self._provider.forward(method, path, body, headers), exchange)

    async def _account(self, method: str, exchange: Exchange, caller: Caller, body: bytes) -> Account | None:
        """Returns the account of a request that may cost something; None: it is not counted."""
        if method != "POST" or caller.key is None:
            return None
        is_json = exchange.headers.get(b"content-type", b"").startswith(b"application/json")
        fields: Mapping[str, msgspec.Raw] = {}
        if is_json:
            with suppress(RequestError):  # it is no JSON object; the upstream says so if it expects one
                fields = open_envelope(body, DEFAULT, what="a request").fields
        account = await self._limiter.admit(exchange, caller.key, fields, size=len(body) if is_json else 0)
        exchange.context[ACCOUNT] = account
        return account

    def _with_model(self, body: bytes) -> bytes:
        """Returns the body with the real name of its model, if it uses an alias."""
        if not self._aliases or not body:
            return body
        try:
            renamed = with_model(open_envelope(body, DEFAULT, what="a request"), self._aliases)
        except RequestError:
            return body  # it is no JSON object; the upstream says so if it expects one
        return body if renamed is None else renamed[1]


def _entry(text: str) -> tuple[str, str]:
    """Returns method and pattern of an entry of the operator's list. Raises `ConfigError` for anything else."""
    method, _, path = text.rpartition(" ")
    if method.strip() not in ("", *_METHODS) or not path.startswith(f"{_PREFIX}/"):
        message = (
            f"gateway.passed: {text!r} must be a path like '/v1/audio/*', or one with a method: 'POST /v1/audio/*'"
        )
        raise ConfigError(message)
    return method.strip() or "*", path


def _is_plain(path: str) -> bool:
    """Returns True if a path means the same to every server: without empty or relative segments and without characters that a
    server may read as an end or an escape."""
    segments = path[1:].split("/")
    return path.isprintable() and _STRANGE.isdisjoint(path) and not any(part in ("", ".", "..") for part in segments)
