"""A local server that speaks the wire of Brave's Search API and refuses what Brave would refuse.

    async with ScriptedBrave({"library": [{"title": "Library", "url": "https://library.example/"}]}) as server:
        provider = brave(url=server.url, parts=Parts(secrets=Secrets({"BRAVE_API_KEY": server.key})))

`replies` are the results of each query; a query without results gets an answer without the field `web`, as Brave sends it. A
reply that is an `int` is a refusal with this status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

PATH = "/res/v1/web/search"

_BOOLEANS = frozenset({"true", "false", "1", "0"})
_PARAMETERS = frozenset(
    {
        *("q", "count", "offset", "country", "search_lang", "ui_lang", "safesearch", "freshness", "text_decorations"),
        *("spellcheck", "result_filter", "goggles", "units", "extra_snippets", "summary"),
    }
)
_MOST_CHARACTERS, _MOST_WORDS, _MOST_RESULTS = 400, 50, 20


class ScriptedBrave:
    """The server. `requests` has the query parameters of every request."""

    def __init__(self, replies: Mapping[str, Sequence[Mapping[str, Any]] | int], *, key: str = "BSA-test") -> None:
        self.key = key
        self.requests: list[Mapping[str, str]] = []
        self._replies = replies
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{PATH}"

    async def __aenter__(self) -> ScriptedBrave:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(dict(request.query))
        if request.method != "GET" or request.path != PATH:
            return _refusal(404, "RESOURCE_NOT_FOUND", f"{request.method} {request.path}")
        if request.headers.get("X-Subscription-Token") != self.key:
            return _refusal(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
        if complaint := _complaint(request):
            return _refusal(422, "VALIDATION", complaint)
        reply = self._replies.get(request.query["q"], ())
        if isinstance(reply, int):
            return _refusal(reply, "RATE_LIMITED" if reply == 429 else "INTERNAL", "Request rate limit exceeded.")
        results = [{"type": "search_result", **each} for each in reply][: int(request.query.get("count", "20"))]
        found = {"web": {"type": "search", "results": results, "family_friendly": True}} if results else {}
        query = {"original": request.query["q"], "more_results_available": False}
        response = web.json_response({"type": "search", "query": query, "mixed": {"type": "mixed"}, **found})
        response.enable_compression()
        return response


def _complaint(request: web.Request) -> str:
    """Returns what Brave would say about a request. Empty: it would answer it."""
    query = request.query
    words = query.get("q", "")
    if request.headers.get("Accept") not in ("application/json", "*/*"):
        return "Accept must be application/json"
    if unknown := sorted(set(query) - _PARAMETERS) or [name for name in query if len(query.getall(name)) > 1]:
        return f"unknown or repeated parameter {unknown[0]}"
    if not words.strip() or len(words) > _MOST_CHARACTERS or len(words.split()) > _MOST_WORDS:
        return "q must have 1 to 400 characters and at most 50 words"
    count = query.get("count", "20")
    if not count.isdecimal() or not 1 <= int(count) <= _MOST_RESULTS:
        return "count must be 1 to 20"
    return "" if query.get("text_decorations", "true") in _BOOLEANS else "text_decorations must be a boolean"


def _refusal(status: int, code: str, detail: str) -> web.Response:
    error = {"id": "00000000-0000-0000-0000-000000000000", "status": status, "code": code, "detail": detail, "meta": {}}
    return web.json_response({"type": "ErrorResponse", "error": error, "time": 0}, status=status)
