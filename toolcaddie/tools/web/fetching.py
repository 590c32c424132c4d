"""Runs `web_fetch`: fetches a page through the guarded client and turns it into text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus

from toolcaddie.core.errors import OutboundError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.markers import marked, neutral
from toolcaddie.guards.net import Fetched, Reach
from toolcaddie.parts import Parts
from toolcaddie.tools.web.charsets import decoded
from toolcaddie.tools.web.reading import PageError, PageReader
from toolcaddie.tools.web.settings import FetchSettings

TYPES = (
    "text/*",
    "application/json",
    "application/*+json",
    "application/x-ndjson",
    "application/xml",
    "application/*+xml",
    "application/yaml",
    "application/javascript",
)
"""The content types that are read. A page without a type is read too."""

_HTML = ("text/html", "application/xhtml+xml")
_STANDARD_PORTS = (80, 443)
_REMEDIES = {"address": "; an operator can name a private server in private_hosts"}
"""What can be done about a refusal, by the rule."""
_HEADERS = {"Accept": "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,*/*;q=0.1"}


async def fetch_page(url: str, *, settings: FetchSettings, reader: PageReader, parts: Parts) -> ToolResult:
    """Returns the text of a page, between markers. Failures and refusals are failed results."""
    try:
        async with asyncio.timeout(settings.timeout), reader.fetching, AsyncExitStack() as held:
            page = await _fetched(url, settings, parts, lambda: held.enter_async_context(reader.holding))
            if not 200 <= page.status < 300:
                return failed(neutral(f"{page.url} answered with status {page.status}{_phrase(page.status)}"))
            return await _result(page, settings, reader)
    except OutboundError as error:
        return failed(neutral(f"{error}{_REMEDIES.get(error.rule, '')}"), own_words=error.unanswered)
    except PageError as error:
        return failed(neutral(str(error)))
    except TimeoutError:
        return failed(f"the page was not fetched and read within {settings.timeout:g} s (rule 'time')")


async def _fetched(
    url: str, settings: FetchSettings, parts: Parts, before_large: Callable[[], Awaitable[object]]
) -> Fetched:
    reach = Reach(
        ports=(*_STANDARD_PORTS, *settings.ports), domains=settings.domains, private_hosts=settings.private_hosts
    )
    async with parts.guarded_client(
        seconds=settings.timeout,
        max_redirects=settings.max_redirects,
        max_bytes=settings.max_bytes,
        reach=reach,
    ) as client:
        return await client.fetch(url, headers=_HEADERS, types=TYPES, before_large=before_large)


async def _result(page: Fetched, settings: FetchSettings, reader: PageReader) -> ToolResult:
    most = settings.max_content_length
    content_type = page.headers.get("content-type", "")
    if _is_html(page):
        read = await reader.read(page.body, content_type=content_type, url=page.url, most=most)
        title, text, total = read["title"], read["text"], read["characters"]
    elif b"\0" in page.body[:1024] and not page.body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return failed(f"{page.url} is not text, whatever its type says (rule 'types')")
    else:
        whole = decoded(page.body, content_type)
        title, text, total = "", whole[:most], len(whole)
    if not text.strip():
        return ToolResult(content=marked(f"{page.url}\n{title}\n(The page has no text.)"))
    head = f"{page.url}\nTitle: {title}" if title else page.url
    return ToolResult(content=marked(f"{head}\n\n{text}") + _notice(total, most))


def _is_html(page: Fetched) -> bool:
    return page.type in _HTML or (not page.type and page.body.lstrip()[:1] == b"<")


def _notice(total: int, most: int) -> str:
    if total <= most:
        return ""
    return f"\n[cut here: the page has {total:,} characters, and these are the first {most:,}]"


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""
