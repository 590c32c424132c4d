"""A request as the pages of the console see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.console.levels import Level
from toolcaddie.doors.console.sessions import Session

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

HOME = "/console/"
"""The path of the console; everything of it is below."""

_MOST_FIELDS = 50
_LONGEST_QUERY = 2_000
"""The largest number of bytes of the fields that an address in another address has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a browser, without its body."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    raw_headers: tuple[tuple[bytes, bytes], ...]
    query_string: bytes
    client: str | None
    is_secure: bool
    """True if it came over https, also to a proxy in front of the server."""

    @classmethod
    def of(cls, scope: MutableMapping[str, Any]) -> Request:
        return cls(
            method=scope["method"],
            path=scope["path"],
            headers=dict(scope["headers"]),
            raw_headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
            query_string=scope.get("query_string", b""),
            client=scope["client"][0] if scope.get("client") else None,
            is_secure=scope.get("scheme") == "https",
        )

    @property
    def query(self) -> Mapping[str, str]:
        """The fields after the `?` of the address. Raises `RequestError`."""
        return fields_of(self.query_string, thing="the address")

    @property
    def address(self) -> str:
        """The address that shows this page again, with its fields; for a form, that of the page that it was on."""
        if self.method == "POST":
            page = self.path.rpartition("/")[0]
            return quote(page) if page.startswith(HOME) else HOME
        query = self.query_string.decode("latin-1") if len(self.query_string) <= _LONGEST_QUERY else ""
        return f"{quote(self.path)}?{query}" if query else quote(self.path)

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def wants_json(self) -> bool:
        """True for a program, which asks for the data of a page instead of the page."""
        accepted = self.header(b"accept") or ""
        return "application/json" in accepted and "text/html" not in accepted

    def cookie(self, name: str) -> str:
        """Returns the value of a cookie; empty: there is none, or several, of which a stranger may have set one."""
        pairs = [
            pair.strip().partition("=")
            for key, value in self.raw_headers
            if key == b"cookie"
            for pair in value.decode("latin-1").split(";")
        ]
        values = [value for each, _, value in pairs if each == name]
        return values[0] if len(values) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request to one page, and who made it."""

    request: Request
    token: str
    """Text that every form of the page must contain, so that no other site can send it. Empty: no form is accepted."""
    session: Session | None = None
    """None: nobody has signed in. Only public pages are asked then."""
    part: str = ""
    """The text at the place of `{name}` in the path of the route."""
    form: Mapping[str, str] = field(default_factory=dict)
    language: str = "en"
    level: Level | None = None
    """The level of the person."""
    tenant: str | None = ""
    """The tenant whose data the person sees; None: those of all tenants."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Paths of the sections that the person may see, by their titles."""

    @property
    def person(self) -> Principal:
        assert self.session is not None
        return self.session.person


def fields_of(data: bytes, *, thing: str) -> Mapping[str, str]:
    """Returns the fields of a query or a form; of a repeated one, the last. `thing`: what errors call it. Raises
    `RequestError`."""
    try:
        text = data.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError as error:
        raise RequestError(f"{thing} cannot be read: {error}", code="wrong_fields") from error
