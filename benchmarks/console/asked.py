"""Asks the console in this process, without a network, as a browser or a program does."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

_SIGN_IN = "/console/sign-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A person who has signed in. `key`: the API key, with which programs ask."""

    console: Any
    key: str
    cookie: str

    async def page(self, address: str) -> tuple[int, bytes]:
        """Returns the status and the text of a page. That of signing in is for those who have not."""
        cookie = "" if address.startswith(_SIGN_IN) else self.cookie
        status, body, _ = await asked(self.console, "GET", address, cookie=cookie)
        return status, body

    async def json(self, address: str) -> tuple[int, bytes]:
        """Returns the status and the data of a page."""
        status, body, _ = await asked(self.console, "GET", address, key=self.key)
        return status, body

    async def sent(self, address: str, fields: Mapping[str, str]) -> tuple[int, bytes]:
        """Returns the status and the data of the answer to a form."""
        body = json.dumps(fields).encode()
        status, body, _ = await asked(self.console, "POST", address, key=self.key, body=body)
        return status, body


async def signed_in(console: Any, key: str) -> Asker:
    """Signs in by the form."""
    _, body, cookies = await asked(console, "GET", _SIGN_IN)
    token = body.decode().partition('name="token" value="')[2].partition('"')[0]
    form = f"token={token}&key={key}&next=/console/runs".encode()
    _, _, more = await asked(console, "POST", _SIGN_IN, cookie=cookies, body=form)
    return Asker(console=console, key=key, cookie="; ".join(filter(None, (cookies, more))))


async def asked(
    console: Any, method: str, address: str, *, cookie: str = "", key: str = "", body: bytes = b""
) -> tuple[int, bytes, str]:
    """Returns the status, the body and the cookies of an answer. With a key it is a program that asks."""
    path, _, query = address.partition("?")
    accepted, content = (b"application/json",) * 2 if key else (b"text/html", b"application/x-www-form-urlencoded")
    headers = [(b"host", b"127.0.0.1"), (b"accept", accepted)]
    headers.append((b"authorization", f"Bearer {key}".encode()) if key else (b"cookie", cookie.encode()))
    if method == "POST":
        headers += [(b"content-type", content), (b"content-length", str(len(body)).encode())]
        headers += [] if key else [(b"origin", b"http://127.0.0.1")]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "scheme": "http"}
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await console(scope, receive, send)
    cookies = [value.decode().partition(";")[0] for name, value in sent[0]["headers"] if name == b"set-cookie"]
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]), "; ".join(cookies)
