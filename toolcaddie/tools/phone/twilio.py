"""The telephony provider `twilio`: Twilio's REST API. The text is sent along with the request, as TwiML, so no server of ours is
asked for it.

Twilio has no idempotency keys: a request that is sent twice rings twice. So none is sent again, and an answer that got lost is an
error that says so.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit
from xml.sax.saxutils import escape, quoteattr

import aiohttp
import msgspec

from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.guards.net import read_capped
from toolcaddie.parts import Parts, Variable
from toolcaddie.ports import CallOrder, CallReport, PlacedCall, RefusedCall

ACCOUNT_VARIABLE, TOKEN_VARIABLE = "TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN"
URL = "https://api.twilio.com"
SIGNATURE = "x-twilio-signature"

_MOST_TWIML = 4_000
"""Characters of TwiML that Twilio takes in a request."""
_MOST_BYTES = 256 * 1024
_FINAL = frozenset({"completed", "busy", "no-answer", "failed", "canceled"})
_STATUSES = frozenset({"queued", "initiated", "ringing", "in-progress", *_FINAL})
_UNCERTAIN = frozenset({408, 409, 499})
"""Statuses below 500 that say nothing about what became of a request: those of a server in between."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class _Call(msgspec.Struct, frozen=True):
    sid: str


class _Problem(msgspec.Struct, frozen=True):
    code: int | None = None
    message: str = ""


class Twilio:
    """Makes calls with Twilio."""

    name = "twilio"

    def __init__(self, account: str, token: str, url: str, parts: Parts) -> None:
        self._account = account
        self._token = token
        self._url = f"{url.rstrip('/')}/2010-04-01/Accounts/{account}/Calls.json"
        self._parts = parts

    async def place(self, order: CallOrder, *, seconds: float) -> PlacedCall | RefusedCall:
        """Asks for a call. Raises `OutboundError` if it is not known whether it is made."""
        text = twiml(order)
        if len(text) > _MOST_TWIML:
            return RefusedCall(reason="the message is too long for Twilio")
        form = {"To": order.to, "From": order.caller, "Twiml": text, "TimeLimit": str(order.seconds)}
        if order.report_to:
            form |= {"StatusCallback": order.report_to, "StatusCallbackMethod": "POST"}
        basic = base64.b64encode(f"{self._account}:{self._token}".encode()).decode()
        headers = {"Accept": "application/json", "Authorization": f"Basic {basic}"}
        try:
            async with (
                self._parts.client(seconds=seconds, headers=headers) as session,
                session.post(self._url, data=form, allow_redirects=False) as response,
            ):
                body = await read_capped(response, _MOST_BYTES)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return RefusedCall(reason=f"Twilio cannot be reached: {error or type(error).__name__}")
        except TimeoutError as error:
            raise OutboundError(f"Twilio did not answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutboundError(f"the connection to Twilio broke: {error or type(error).__name__}") from error
        return _outcome(response.status, body)

    def report(self, url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> CallReport | None:
        """Reads a status callback. None: its signature is wrong, or it is not about a call of this account."""
        if not check_signature(self._token, url, parameters, headers.get(SIGNATURE, "")):
            return None
        call, status, length = (parameters.get(name, "") for name in ("CallSid", "CallStatus", "CallDuration"))
        if parameters.get("AccountSid") != self._account or not call or status not in _STATUSES:
            return None
        seconds = int(length) if length.isascii() and length.isdecimal() and len(length) < 7 else None
        return CallReport(id=call, status=status, is_final=status in _FINAL, seconds=seconds)

    async def close(self) -> None:
        """Does nothing: each request has a connection of its own."""


def twilio(
    *,
    account_sid_env: Variable = ACCOUNT_VARIABLE,
    auth_token_env: Variable = TOKEN_VARIABLE,
    url: str = URL,
    parts: Parts,
) -> Twilio:
    """Returns the provider. Raises `ConfigError` if account or token is not set."""
    account = parts.secrets.require(account_sid_env, what="the account SID of Twilio")
    if not account.isalnum():
        raise ConfigError(f"the environment variable {account_sid_env} holds no account SID; one looks like AC0123...")
    return Twilio(account, parts.secrets.require(auth_token_env, what="the auth token of Twilio"), url, parts)


def twiml(order: CallOrder) -> str:
    """Returns what Twilio does with the call: it reads the text. Nothing in the text can be an instruction."""
    voice = f" voice={quoteattr(order.voice)}" if order.voice else ""
    attributes = f"language={quoteattr(order.language)}{voice} loop={quoteattr(str(order.loop))}"
    return f"<Response><Say {attributes}>{escape(order.message)}</Say></Response>"


def check_signature(token: str, url: str, parameters: Mapping[str, str], signature: str) -> bool:
    """Returns True if Twilio sent a request.

    `signature`: the header `X-Twilio-Signature`; `url`: the whole address as Twilio knows it; `parameters`: the fields of the
    form. The address may name the default port or not, because servers in between change that.
    """
    return any(
        hmac.compare_digest(signed(token, each, parameters).encode(), signature.encode(errors="replace"))
        for each in _spellings(url)
    )


def signed(token: str, url: str, parameters: Mapping[str, str]) -> str:
    """Returns the signature of a request: the HMAC-SHA1 of the address and, by name, of each field's name and value."""
    text = url + "".join(f"{name}{parameters[name]}" for name in sorted(parameters))
    return base64.b64encode(hmac.new(token.encode(), text.encode(errors="replace"), hashlib.sha1).digest()).decode()


def _spellings(url: str) -> tuple[str, ...]:
    """Returns an address as it is and, if its port is the default one, with and without the port."""
    try:
        parts = urlsplit(url)
        port, usual = parts.port, _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return (url,)
    if usual is None or port not in (None, usual):
        return (url,)
    host = parts.netloc.removesuffix(f":{usual}")
    return tuple(urlunsplit(parts._replace(netloc=netloc)) for netloc in (host, f"{host}:{usual}"))


def _outcome(status: int, body: bytes) -> PlacedCall | RefusedCall:
    """Returns what an answer says. Raises `OutboundError` if it does not say whether the call is made."""
    if status == 201:
        try:
            return PlacedCall(id=msgspec.json.decode(body, type=_Call).sid[:64])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise OutboundError(f"Twilio's answer is not what its API describes: {error}") from error
    if 400 <= status < 500 and status not in _UNCERTAIN:
        return RefusedCall(reason=f"Twilio refused the call with status {status}: {_problem(body)}")
    raise OutboundError(f"Twilio answered with status {status}, which does not say whether the call is made")


def _problem(body: bytes) -> str:
    """Returns the reason in an error of the API."""
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "no reason was given"
    code = "" if problem.code is None else str(problem.code)
    return ": ".join(filter(None, (code, problem.message[:300]))) or "no reason was given"
