"""The search provider `brave`: Brave's Search API."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

import aiohttp
import msgspec

from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import MEGABYTE, read_capped
from toolcaddie.parts import Parts, Variable
from toolcaddie.ports import SearchHit

KEY_VARIABLE = "BRAVE_API_KEY"
URL = "https://api.search.brave.com/res/v1/web/search"

_MOST_RESULTS = 20
"""The largest number of results that Brave returns at once."""
_QUERY_CHARACTERS, _QUERY_WORDS = 400, 50
"""The longest query that Brave takes."""
_MOST_BYTES = 4 * MEGABYTE
_TAG = re.compile(r"</?(?:strong|em|b|i)>", re.IGNORECASE)


class _Result(msgspec.Struct, frozen=True):
    title: str = ""
    url: str = ""
    description: str = ""
    age: str = ""


class _Web(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    web: _Web | None = None


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""
    detail: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _Problem = _Problem()


class Brave:
    """Searches with Brave's Search API."""

    name = "brave"

    def __init__(self, key: str, url: str, parts: Parts) -> None:
        self._key = key
        self._url = url
        self._parts = parts

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        """Returns at most `count` pages. Raises `OutboundError`."""
        parameters = {"q": _shortened(query), "count": str(min(count, _MOST_RESULTS)), "text_decorations": "false"}
        headers = {"Accept": "application/json", "X-Subscription-Token": self._key}
        try:
            async with (
                self._parts.client(seconds=seconds, headers=headers) as session,
                session.get(self._url, params=parameters) as response,
            ):
                body = await read_capped(response, _MOST_BYTES)
        except TimeoutError as error:
            raise OutboundError(f"Brave did not answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutboundError(f"Brave cannot be reached: {error or type(error).__name__}") from error
        if response.status != 200:
            raise OutboundError(f"Brave refused the search with status {response.status}: {_refusal(body)}")
        return _hits(body)[:count]

    async def close(self) -> None:
        """Does nothing: each search has a connection of its own."""


def brave(*, key_env: Variable = KEY_VARIABLE, url: str = URL, parts: Parts) -> Brave:
    """Returns the provider. Raises `ConfigError` if the key is not set."""
    return Brave(parts.secrets.require(key_env, what="the key of Brave's Search API"), url, parts)


def _shortened(query: str) -> str:
    return " ".join(query.split()[:_QUERY_WORDS])[:_QUERY_CHARACTERS]


def _hits(body: bytes) -> list[SearchHit]:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OutboundError(f"Brave's answer is not what its API describes: {error}") from error
    results = answer.web.results if answer.web is not None else ()
    return [
        SearchHit(title=_plain(each.title), url=each.url, text=_plain(each.description), age=each.age)
        for each in results
    ]


def _plain(text: str) -> str:
    """Returns a text without the HTML with which Brave emphasises words."""
    return " ".join(html.unescape(_TAG.sub("", text)).split())


def _refusal(body: bytes) -> str:
    """Returns the reason in an error of the API."""
    try:
        problem = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "no reason was given"
    return ": ".join(filter(None, (problem.code[:100], problem.detail[:300]))) or "no reason was given"
