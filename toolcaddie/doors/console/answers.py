"""What a page of the console returns: a status, a body, and the headers that every answer has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from toolcaddie.util.replacing import replace

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SAFETY = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # `no-referrer` would make browsers send `Origin: null` with our own forms. Other sites learn nothing from this value either.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a browser."""

    status: int = 200
    body: bytes = b""
    type: str = _HTML
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[str, ...] = ()
    """Values of `set-cookie`."""
    is_stored: bool = False
    """True: browsers may keep it, because its address changes with its content."""

    def with_cookie(self, cookie: str) -> Answer:
        return replace(self, cookies=(*self.cookies, cookie))

    async def send(self, send: Send, *, head: bool) -> None:
        """Sends the answer. `head`: True for a request that wants no body."""
        fields = {
            **_SAFETY,
            "content-type": self.type,
            "content-length": str(len(self.body)),
            "cache-control": "private, max-age=31536000, immutable" if self.is_stored else "no-store",
        }
        pairs = [*fields.items(), *self.headers, *(("set-cookie", cookie) for cookie in self.cookies)]
        raw = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if head else self.body})


def redirect(path: str) -> Answer:
    """Returns an answer that sends the browser to another page of the console with GET."""
    return Answer(status=303, headers=(("location", path),))
