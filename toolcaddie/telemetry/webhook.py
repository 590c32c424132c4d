"""Tells people about questions: posts the questions of a paused run to an address of the operator's, signed.

The requests have the form of Standard Webhooks (standardwebhooks.com), so its libraries can check them. A notice is stored before
it is sent and removed once it was accepted, so that the next process sends what a killed one did not. The receiver may get a
notice twice; both have the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import OutboundError, StorageError
from toolcaddie.core.events import RunEvent, RunPaused, RunResumed, RunStarted
from toolcaddie.core.run import RunState
from toolcaddie.guards.net import operator_client
from toolcaddie.guards.signatures import signature, signing_key
from toolcaddie.ports import Store
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

KIND = "notice"
"""Kind of the documents that wait to be sent."""
WAITS: Sequence[float] = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0)
"""Seconds between two attempts."""
_SECONDS = 15.0
"""Longest time for one attempt."""
_KEPT_SECONDS = 30 * 86_400.0
_LEFT_BEHIND_SECONDS = 60.0
"""Age from which a stored notice is taken for one that another process left behind."""
_MOST_RUNS = 10_000


class Notice(Struct, frozen=True, kw_only=True):
    """A request that waits to be sent."""

    id: str
    at: float
    """The moment of the question, in seconds since the epoch."""
    body: str


class ApprovalWebhook:
    """Implements `ports.EventSink`. `open` sends what an earlier process left behind; what `close` finds not sent yet stays
    stored."""

    def __init__(
        self, url: str, secret: str, store: Store, *, redact: Callable[[Any], Any], waits: Sequence[float] = WAITS
    ) -> None:
        """`secret`: `whsec_` and base64, or any other text. `redact` removes secrets from arguments and reasons. `waits`: seconds
        between two attempts. Raises `ConfigError` for a secret that cannot be read."""
        self._redact = redact
        self._url = url
        self._key = signing_key(secret)
        self._store = store
        self._waits = waits
        self._askers: Bounded[str, Principal] = Bounded(_MOST_RUNS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        cursor: str | None = None
        while True:
            page = await self._store.scan(KIND, cursor=cursor)
            for document in page.documents:
                notice = msgspec.json.decode(document.value, type=Notice)
                if time.time() - notice.at >= _LEFT_BEHIND_SECONDS:
                    self._start(notice)
            cursor = page.cursor
            if cursor is None:
                return

    async def emit(self, event: RunEvent) -> None:
        if isinstance(event, RunStarted | RunResumed):
            self._askers.put(event.run_id, event.principal)
        elif isinstance(event, RunPaused):
            asker = self._askers.pop(event.run_id)
            if (notice := _notice(event.state, asker, self._redact)) is not None:
                await self._store.put(KIND, notice.id, msgspec.json.encode(notice), ttl=_KEPT_SECONDS)
                self._start(notice)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _start(self, notice: Notice) -> None:
        task = asyncio.create_task(self._send(notice))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, notice: Notice) -> None:
        """Sends a notice, several times if necessary."""
        for wait in (*self._waits, None):
            problem = await self._posted(notice)
            if not problem:
                try:
                    await self._store.delete(KIND, notice.id)
                except StorageError as error:  # it is sent again by the next process
                    log.warning("approval_notice_not_removed", id=notice.id, error=str(error))
                return
            if wait is None:
                log.error("approval_notice_failed", id=notice.id, error=problem, effect="the question is in the inbox")
                return
            log.warning("approval_notice_retried", id=notice.id, error=problem, wait=wait)
            await asyncio.sleep(wait * (1 + 0.2 * random.random()))

    async def _posted(self, notice: Notice) -> str:
        """Makes one attempt. Returns the reason why it failed; empty: it was accepted."""
        if self._session is None:
            self._session = operator_client(seconds=_SECONDS)
        body, stamp = notice.body.encode(), str(int(time.time()))
        headers = {
            "content-type": "application/json",
            "webhook-id": notice.id,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(self._key, notice.id, stamp, body),
        }
        try:
            async with self._session.post(self._url, data=body, headers=headers) as answer:
                return "" if 200 <= answer.status < 300 else f"the webhook answered with status {answer.status}"
        except (aiohttp.ClientError, OutboundError, OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"


def _notice(state: RunState, asker: Principal | None, redact: Callable[[Any], Any]) -> Notice | None:
    """Returns the notice of the questions for which a run waits; None: it waits for none."""
    questions = [item for item in state.pending if item.waiting == "approval" and item.approval]
    if not questions:
        return None
    now = time.time()
    approvals = [
        {
            "id": item.approval,
            "tool": item.call.name,
            "arguments": redact(_arguments(item.call.arguments)),
            "reason": "" if item.decision is None else redact(item.decision.reason),
            "rule": "" if item.decision is None else item.decision.rule,
        }
        for item in questions
    ]
    data: Mapping[str, Any] = {
        "run_id": state.run_id,
        "asked_by": None if asker is None else asker.id,
        "tenant": None if asker is None else asker.tenant,
        "tainted_by": sorted(set(state.taint)),
        "approvals": approvals,
    }
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    body = msgspec.json.encode({"type": "approvals.waiting", "timestamp": stamp, "data": data}).decode()
    digest = hashlib.sha256("".join(item.approval for item in questions).encode()).hexdigest()[:24]
    return Notice(id=f"notice_{digest}", at=now, body=body)


def _arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
