"""A browser for tests: it keeps cookies, follows redirects, and sends the forms that a page has, as browsers do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from selectolax.lexbor import LexborHTMLParser, LexborNode
from yarl import URL

from toolcaddie.core.control import Principal

HOME = "/console/authored"


class Server(Protocol):
    """A server with a console."""

    @property
    def url(self) -> str: ...

    async def key(self, person: Principal) -> str:
        """The API key of a person."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a browser shows."""

    path: str
    status: int
    headers: Mapping[str, str]
    html: str

    @property
    def tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.html)

    @property
    def text(self) -> str:
        """What a person reads, with single blanks."""
        body = self.tree.body
        return " ".join(body.text(separator=" ").split()) if body else ""

    def forms(self) -> Mapping[str, Mapping[str, str]]:
        """The hidden fields of each form, by the last word of its address."""
        return {
            (form.attributes["action"] or "").rpartition("/")[2]: _hidden_fields(form) for form in self.tree.css("form")
        }

    def address_of(self, form: str) -> str:
        (address,) = [
            action
            for each in self.tree.css("form")
            if (action := each.attributes["action"] or "").rpartition("/")[2] == form
        ]
        return address


class Browser:
    """The browser of one person."""

    def __init__(self, server: Server, web: aiohttp.ClientSession) -> None:
        self.server, self.web = server, web

    async def opens(self, path: str, **headers: str) -> Page:
        """Opens a page, and follows redirects."""
        async with self.web.get(f"{self.server.url}{path}", headers=headers) as answer:
            return await _page(answer)

    async def sends(self, page: Page, form: str, *, origin: str | None = "", **fields: str | None) -> Page:
        """Fills in and sends a form of a page. A field that is None is left out. `origin`: empty: this server."""
        values = {name: value for name, value in {**page.forms()[form], **fields}.items() if value is not None}
        return await self.posts(page.address_of(form), values, origin=origin)

    async def posts(self, path: str, fields: Mapping[str, str], *, origin: str | None = "", **headers: str) -> Page:
        """Sends a form that may be on no page."""
        own = {} if origin is None else {"origin": origin or self.server.url}
        async with self.web.post(f"{self.server.url}{path}", data=fields, headers={**own, **headers}) as answer:
            return await _page(answer)

    async def signs_in(self, person: Principal | None = None, *, key: str = "", then: str = HOME) -> Page:
        """Signs in with the key of a person, which is made first; None: without a key."""
        key = key or ("" if person is None else await self.server.key(person))
        page = await self.opens(then)
        assert page.path == "/console/sign-in"
        return await self.sends(page, "sign-in", key=key)

    def has_cookie(self, name: str, value: str) -> None:
        """Puts a cookie into the browser, as if a page of the console had set it."""
        self.web.cookie_jar.update_cookies({name: value}, URL(f"{self.server.url}{HOME}"))

    def cookie(self, name: str = "toolcaddie-session") -> str:
        """The value of a cookie; empty: there is none."""
        return next((each.value for each in self.web.cookie_jar if each.key == name), "")


@asynccontextmanager
async def browser(server: Server) -> AsyncIterator[Browser]:
    """A browser without cookies."""
    jar = aiohttp.CookieJar(unsafe=True)  # keeps the cookies of addresses such as 127.0.0.1
    async with aiohttp.ClientSession(cookie_jar=jar) as web:
        yield Browser(server, web)


async def _page(answer: aiohttp.ClientResponse) -> Page:
    return Page(
        path=answer.url.path,
        status=answer.status,
        headers={name.lower(): value for name, value in answer.headers.items()},
        html=await answer.text(),
    )


def _hidden_fields(form: LexborNode) -> Mapping[str, str]:
    return {
        each.attributes["name"] or "": each.attributes.get("value") or "" for each in form.css("input[type=hidden]")
    }
