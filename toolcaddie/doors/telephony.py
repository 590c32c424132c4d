"""The reports of telephone services as an ASGI application, which the server mounts at `/telephony/`.

It only bounds and reads the request; the source `phone` that makes the calls checks the signature. Anything that is not taken
gets 403 and no explanation.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from toolcaddie.core.errors import StorageError
from toolcaddie.doors.small_bodies import respond, small_body
from toolcaddie.ports import ToolSource
from toolcaddie.sources.wrapping import all_sources
from toolcaddie.tools.phone import PhoneSource
from toolcaddie.util.log import Logger

log = Logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATH = "/telephony/"
MOST_BYTES = 16 * 1024
"""Size of the largest request."""
_BODY_SECONDS = 20.0
_MOST_FIELDS = 100


class TelephonyDoor:
    """Passes each report to the sources `phone` whose `report_to` is the address to which it was sent. `source` has all sources
    of the server, which may change while it runs."""

    paths = (PATH,)
    """The paths at which this application is mounted."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status = await self._status(scope, receive)
        except StorageError as error:  # the service reports again
            log.error("call_report_failed", error=str(error))
            status = 503
        except Exception:  # the outermost frame: the server would log a traceback and close the connection
            log.exception("call_report_failed")
            status = 500
        if status is not None:
            await respond(send, status)

    async def _status(self, scope: Scope, receive: Receive) -> int | None:
        """Returns the status of the response; None: the client is gone."""
        query = scope.get("query_string", b"").decode("latin-1")
        phones = self._phones(scope["path"], query)
        if not phones:
            return 404
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
        for phone, url in phones:
            if await phone.report(url, form, headers):
                return 204
        return 403

    def _phones(self, path: str, query: str) -> Sequence[tuple[PhoneSource, str]]:
        """Returns the sources that are reported to at a path, each with the public address of the request. The signature is over
        this address, which a server behind a proxy cannot know otherwise."""
        phones = [source for source in all_sources(self._source) if isinstance(source, PhoneSource)]
        return [(phone, url) for phone in phones if (url := phone.reported_to(path, query))]


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
