"""Forms of the console: only those that one of its own pages sent are read.

Three things are checked: the browser says that the page is from this server (`Origin`, `Sec-Fetch-Site`); the form contains a
token that belongs to a cookie of this browser; and the body is a form of moderate size.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.doors.console.requests import Receive, Request, Visit, fields_of
from toolcaddie.guards.aside import aside

TOKEN = "token"
"""The field with the token."""

LONGEST_FORM = 64 * 1024
"""The largest number of bytes of most forms."""
_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """The reason why a form did nothing. The page shows the form again, with the reason at one of its fields."""

    field: str
    text: str


def problem_at(visit: Visit, error: RequestError, fields: Collection[str]) -> FieldProblem:
    """Returns what a page shows about a form that was sent. Raises the error itself for a program, and if it is about none of the
    `fields` of the form."""
    if visit.request.wants_json or error.param is None or error.param not in fields:
        raise error
    return FieldProblem(field=error.param, text=str(error))


def new_number() -> str:
    """Returns a number for the cookie of a person who has not signed in yet."""
    return secrets.token_urlsafe(32)


def token_of(number: str) -> str:
    """Returns the token that belongs to the number in a cookie; empty: there is no cookie. A page of another site can neither
    read the cookie nor guess the token."""
    if not number:
        return ""
    return hmac.new(number.encode(), b"toolcaddie console form", hashlib.sha256).hexdigest()


def check_origin(request: Request) -> None:
    """Raises `RequestError` unless a page of this server sent the form."""
    site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
    if site not in (None, "same-origin"):
        raise _foreign("it came from another site")
    if origin is None:
        if site is None:
            raise _foreign("the browser does not say which page sent it")
    elif _host(origin) != (request.header(b"host") or "").lower() or not _host(origin):
        raise _foreign(f"it came from {origin[:100]}; a proxy in front of this server must pass on the header Host")


def check_token(form: Mapping[str, str], token: str) -> None:
    """Raises `RequestError` unless the form has the token of this browser."""
    if not token or not hmac.compare_digest(form.get(TOKEN, "").encode(), token.encode()):
        raise _foreign("it does not have this browser's token; open the page again")


async def read_form(request: Request, receive: Receive, *, longest: int = LONGEST_FORM) -> Mapping[str, str] | None:
    """Returns the fields of the form; None: the browser has gone. Raises `RequestError` for anything but a small form."""
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind != _TYPE:
        raise RequestError(f"a form must be sent as {_TYPE}", code="wrong_form")
    body = await _body(receive, longest)
    if body is not None and len(body) > LONGEST_FORM:
        return await aside(_fields_in, body)
    return None if body is None else _fields_in(body)


def _fields_in(body: bytes) -> Mapping[str, str]:
    return _with_plain_lines(fields_of(body, thing="the form"))


def _with_plain_lines(fields: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the fields with LF at the ends of lines. Browsers send CR LF."""
    return {name: text.replace("\r\n", "\n") for name, text in fields.items()}


async def read_json(request: Request, receive: Receive, *, longest: int = LONGEST_FORM) -> Mapping[str, str] | None:
    """Returns the fields of a form that a program sends as a JSON object of texts; None: the program has gone. Raises
    `RequestError`."""
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError("send the fields as a JSON object, as application/json", code="wrong_form")
    body = await _body(receive, longest)
    if body is None:
        return None
    try:
        return _with_plain_lines(msgspec.json.decode(body or b"{}", type=dict[str, str]))
    except msgspec.MsgspecError as error:
        raise RequestError(f'the body must be a JSON object of texts, such as {{"note": "agreed"}}: {error}') from error


async def _body(receive: Receive, longest: int) -> bytes | None:
    """Returns the body of a request; None: the sender has gone. Raises `RequestError` for a large one."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > longest:
            raise RequestError(f"the form is larger than {longest:,} bytes", code="form_too_large")
        if not message.get("more_body"):
            return body


def _host(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def _foreign(reason: str) -> RequestError:
    return RequestError(f"this form was not accepted, and nothing was done: {reason}", code="foreign_form")
