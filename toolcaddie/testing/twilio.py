"""A local server that speaks the part of Twilio's REST API that makes calls, and refuses what Twilio would refuse.

    async with ScriptedTwilio() as server:
        provider = twilio(url=server.url, parts=Parts(secrets=Secrets(server.environ)))

`rung` has every call that made a telephone ring. `replies` are what the server does with one request after the other: `ok`;
`stall`, which rings and never answers; `cut`, which rings and ends the connection without an answer; `unready`, which rings
nobody and answers with a page of a server in between; or a status of Twilio's own. When they are used up, it is `ok`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit
from xml.etree import ElementTree

import aiohttp
from aiohttp import web

Reply = Literal["ok", "stall", "cut", "unready"] | int

_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_ADDRESS = re.compile(r"https?://[^\s/]+/\S*")
_PARAMETERS = frozenset(
    {"To", "From", "Twiml", "TimeLimit", "Timeout", "StatusCallback", "StatusCallbackMethod", "StatusCallbackEvent"}
)
_SAY = frozenset({"language", "voice", "loop"})
_MOST_TWIML = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RungCall:
    """A call that made a telephone ring."""

    sid: str
    to: str
    caller: str
    text: str
    """What is read aloud."""
    language: str
    voice: str
    loop: int
    seconds: int
    report_to: str


class _Refused(Exception):
    """A request that Twilio would refuse."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ScriptedTwilio:
    """The server. `numbers`: the numbers of the account, from which it may call."""

    def __init__(self, replies: Sequence[Reply] = (), *, numbers: Sequence[str] = ("+525512345678",)) -> None:
        self.account = f"AC{secrets.token_hex(16)}"
        self.token = secrets.token_hex(16)
        self.rung: list[RungCall] = []
        self._replies = list(replies)
        self._numbers = numbers
        self._closing, self._ringing = asyncio.Event(), asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that name the account."""
        return {"TWILIO_ACCOUNT_SID": self.account, "TWILIO_AUTH_TOKEN": self.token}

    async def __aenter__(self) -> ScriptedTwilio:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def ringing(self) -> RungCall:
        """Waits until a telephone has rung. Returns the last call."""
        await self._ringing.wait()
        return self.rung[-1]

    async def report(self, call: RungCall, status: str, *, seconds: int | None = None, through: str = "") -> int:
        """Reports the status of a call to its address, signed as Twilio signs. Returns the status of the answer. `through`: the
        server to which a proxy passes the address, such as http://127.0.0.1:8321; empty: there is no proxy."""
        form = {
            "AccountSid": self.account,
            "CallSid": call.sid,
            "CallStatus": status,
            "To": call.to,
            "From": call.caller,
        }
        form |= {} if seconds is None else {"CallDuration": str(seconds)}
        headers = {"X-Twilio-Signature": self.signature(call.report_to, form)}
        public = urlsplit(call.report_to)
        url = f"{through}{public.path}?{public.query}" if through else call.report_to
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=form, headers=headers) as response,
        ):
            return response.status

    def signature(self, url: str, form: Mapping[str, str]) -> str:
        """Returns the signature of a request to this address."""
        text = url + "".join(name + form[name] for name in sorted(form))
        return base64.b64encode(hmac.digest(self.token.encode(), text.encode(), hashlib.sha1)).decode()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            call = await self._call(request)
            reply = self._replies.pop(0) if self._replies else "ok"
            if isinstance(reply, int):
                raise _Refused(
                    reply, 20429 if reply == 429 else 20500, "Too Many Requests" if reply == 429 else "Error"
                )
        except _Refused as error:
            return _refusal(error)
        if reply == "unready":
            return web.Response(status=503, text="<h1>Service Unavailable</h1>", content_type="text/html")
        self.rung.append(call)
        self._ringing.set()
        if reply == "stall":
            await self._closing.wait()
        if reply in ("stall", "cut") and request.transport is not None:
            request.transport.close()
        answer = {
            "sid": call.sid,
            "account_sid": self.account,
            "to": call.to,
            "from": call.caller,
            "status": "queued",
            "direction": "outbound-api",
            "api_version": "2010-04-01",
        }
        return web.json_response(answer, status=201)

    async def _call(self, request: web.Request) -> RungCall:
        """Returns the call that is asked for. Raises `_Refused`."""
        if request.headers.get("Authorization") != _basic(self.account, self.token):
            raise _Refused(401, 20003, "Authenticate")
        if request.method != "POST" or request.path != f"/2010-04-01/Accounts/{self.account}/Calls.json":
            raise _Refused(404, 20404, f"The requested resource {request.path} was not found")
        if request.content_type != "application/x-www-form-urlencoded":
            raise _Refused(400, 20001, "The body must be a form")
        form = await request.post()
        if unknown := sorted(set(form) - _PARAMETERS) or [name for name in form if len(form.getall(name)) > 1]:
            raise _Refused(400, 20001, f"unknown or repeated parameter {unknown[0]}")
        values = {name: str(value) for name, value in form.items()}
        if "To" not in values or "From" not in values:
            raise _Refused(400, 21201 if "To" not in values else 21213, "No 'To' or no 'From' number is specified")
        if not _E164.fullmatch(values["To"]):
            raise _Refused(400, 21211, f"The phone number you are attempting to call, {values['To']}, is not valid.")
        if values["From"] not in self._numbers:
            raise _Refused(400, 21210, f"The source phone number provided, {values['From']}, is not yet verified.")
        address, limit = values.get("StatusCallback", ""), values.get("TimeLimit", "14400")
        if address and not _ADDRESS.fullmatch(address):
            raise _Refused(400, 21609, f"The StatusCallback URL {address} is not a valid URL.")
        if not limit.isdecimal() or not 1 <= int(limit) <= 86_400:
            raise _Refused(400, 20001, "TimeLimit must be a number of seconds")
        say = _say(values.get("Twiml", ""))
        return RungCall(
            sid=f"CA{secrets.token_hex(16)}",
            to=values["To"],
            caller=values["From"],
            text=say.text or "",
            language=say.get("language", "en-US"),
            voice=say.get("voice", ""),
            loop=int(say.get("loop", "1")),
            seconds=int(limit),
            report_to=address,
        )


def _say(twiml: str) -> ElementTree.Element:
    """Returns the only `<Say>` of a document. Raises `_Refused` for any other document."""
    if not twiml:
        raise _Refused(400, 21205, "Url parameter is required.")
    if len(twiml) > _MOST_TWIML or "<!" in twiml or "<?" in twiml[1:]:
        raise _Refused(400, 20001, "Twiml is too long, or has declarations")
    try:
        root = ElementTree.fromstring(twiml)
    except ElementTree.ParseError as error:
        raise _Refused(400, 12100, f"Document parse failure: {error}") from error
    says = list(root)
    if root.tag != "Response" or [each.tag for each in says] != ["Say"] or (root.text or says[0].tail or "").strip():
        raise _Refused(400, 12200, "Schema validation warning: one <Say> in a <Response> is expected")
    if len(says[0]) or set(says[0].attrib) - _SAY or not says[0].get("loop", "1").isdecimal():
        raise _Refused(400, 12200, "Schema validation warning: <Say> has elements or attributes that it cannot have")
    return says[0]


def _basic(account: str, token: str) -> str:
    return f"Basic {base64.b64encode(f'{account}:{token}'.encode()).decode()}"


def _refusal(error: _Refused) -> web.Response:
    body = {
        "code": error.code,
        "message": str(error),
        "more_info": f"https://www.twilio.com/docs/errors/{error.code}",
        "status": error.status,
    }
    return web.json_response(body, status=error.status)
