"""The reports of telephone services as an ASGI application, which the server mounts at `/telephony/`.

It only bounds and reads the request; the source `phone` checks the signature. Anything that is not taken gets 403
and no explanation.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import StorageError
from toolcaddie.doors.small_bodies import small_body
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.sources.arranged import arrangement_of
from toolcaddie.tools.phone import PhoneSource
from toolcaddie.util.log import Logger

log = Logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATH = "/telephony/"
TYPE = "phone"
"""Type of the sources that make calls."""
MOST_BYTES = 16 * 1024
"""Size of the largest request."""
_BODY_SECONDS = 20.0
_MOST_FIELDS = 100


class TelephonyDoor:
    """Passes each report to the sources `phone` whose `report_to` is the address to which it was sent."""

    paths = (PATH,)
    """The paths at which this application is mounted."""

    def __init__(self, sources: Sequence[PhoneSource]) -> None:
        self._sources = sources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status = await self._status(scope, receive)
        except StorageError as error:  # the service reports again
            log.error("call_report_failed", error=str(error))
            status = 503
        except Exception:  # the outermost frame: the server would log a traceback and close the connection
            log.exception("call_report_failed")
            status = 500
        if status is None:
            return
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _status(self, scope: Scope, receive: Receive) -> int | None:
        """Returns the status of the response; None: the client is gone."""
        if scope["method"] != "POST":
            return 405
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await small_body(receive, MOST_BYTES)
        except TimeoutError:
            return 408
        if body is None:
            return None
        if len(body) > MOST_BYTES:
            return 413
        form = _form(body)
        if form is None:
            return 400
        counts = Counter(name for name, _ in scope["headers"])
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"] if counts[name] == 1
        }
        query = scope.get("query_string", b"").decode("latin-1")
        for source in self._sources:
            # The signature is over the public address, which this server, behind a proxy, cannot know otherwise.
            url = source.reported_to(scope["path"], query)
            if url and await source.report(url, form, headers):
                return 204
        return 403


def phones_of(settings: Settings, parts: Parts) -> Sequence[PhoneSource]:
    """Returns the sources `phone` of the settings to which calls are reported. They share their calls, which are in the store,
    with those that make the calls. Raises `ConfigError`."""
    registry = Registry()
    configs = [
        arrangement_of(part.config, registry.config_type("source", TYPE))[0]
        for part in settings.source
        if part.type == TYPE and part.config.get("report_to")
    ]
    return [registry.make("source", TYPE, config, parts) for config in configs]


def _form(body: bytes) -> Mapping[str, str] | None:
    """Returns the fields of a form; None: it is none, or has a field twice."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        return None
    form = dict(pairs)
    return form if len(form) == len(pairs) else None
