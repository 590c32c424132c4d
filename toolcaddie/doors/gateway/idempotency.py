"""`idempotency-key`: requests with the same key run once, and all of them get the same answer.

Before a run starts, it claims its key: one compare-and-set write stores the id of the run and the lease of its process, a number
that the process holds in the database as long as it lives. The entry that a request finds under its key decides:

    none                                   the request runs
    a run of a live process                409: it is under way
    a run of a process that is gone        it runs again if it has intended no call. Otherwise it goes on after its last step,
                                           and if that is not stored, 422: its outcome is unknown. The intent is a row in the
                                           trail, the record of all runs, written before each call of a tool that may change
                                           something. A process that is gone writes no more rows
    an answer                              the answer, without a run
    any of these, for another request      422

An answer is stored before its last byte is sent. So whoever received the whole answer gets the same answer again. A failure
before any call was intended releases the key. The run of a request with a key continues if its client disconnects, because the
client may send the request again to get the answer.

Keys are stored as digests that include the sender: the principal, and for a client without a key of the gateway the API key that
it sent. Requests that are forwarded byte for byte do not come here: their idempotency key goes to the upstream.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from functools import partial
from typing import Any

import msgspec

from toolcaddie.app.settings import Idempotency
from toolcaddie.core.bounds import LARGE
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RunTakenError, StorageError, ToolcaddieError, has_acted
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.essential import PIN_HEADER
from toolcaddie.doors.gateway.exchange import Exchange, Send
from toolcaddie.doors.gateway.problems import problem, without_retry
from toolcaddie.guards.aside import aside
from toolcaddie.ports import EventLog, Store
from toolcaddie.util.log import Logger
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.replacing import replace

log = Logger(__name__)

HEADER = b"idempotency-key"
LONGEST_KEY = 255

_MEANING_HEADERS = (b"x-toolcaddie-catalog", PIN_HEADER.encode(), b"x-toolcaddie-conversation")
"""Headers that are part of a request's meaning: with other values the same body is another request."""

_KIND = "idempotency"
_LONGEST_RUN = 86_400.0
"""The longest run that is expected, in seconds. A claim is stored at least as long, even if answers are stored for less time."""
_REPLAYED = (b"x-toolcaddie-replayed", b"true")
_RELEASES, _RELEASE_PAUSE = 600, 1.0
"""Attempts to release a key, and seconds between two of them."""
_RETRY_SECONDS = "1"
"""Seconds after which a client shall repeat a request whose run is still under way."""


class _RunningEntry(msgspec.Struct, frozen=True, kw_only=True, tag="running"):
    """Entry of a run that has claimed the key."""

    body: bytes
    """The digest of the request, with which a request is recognised as the same."""
    run_id: str
    owner: int
    """The lease of the run's process."""
    at: float = 0.0
    """The moment of the claim, in seconds since the epoch, by the clock of the run's process."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was sent. If it was a stream, `content` has all events."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes | None
    """None if it was too large to store."""


class _AnsweredEntry(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """Entry of the answer that all requests with this key get."""

    body: bytes
    """The digest of the request."""
    run_id: str
    answer: _Answer


class _UnknownEntry(msgspec.Struct, frozen=True, kw_only=True, tag="unknown"):
    """Entry of a run that broke off after it intended a call. The effects of the run are unknown, so it is never repeated."""

    body: bytes
    """The digest of the request."""
    run_id: str


_Entry = _RunningEntry | _AnsweredEntry | _UnknownEntry
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode


def new_run_id() -> str:
    return f"run_{random_id()}"


async def has_intended_call(event_log: EventLog, run_id: str) -> bool:
    """Returns True if a run intended a call that may have changed something, or if the trail cannot be read."""
    try:
        return bool(await event_log.records([run_id], ["call_intended"]))
    except StorageError:
        log.warning("trail_not_readable", run=run_id)
        return True


Run = Callable[..., Coroutine[Any, Any, None]]
"""Function that answers a request with a run: `run(exchange, run_id=..., lease=...)`. With `resumes=True`, which it takes if it
can, it continues a stored run."""
IsStored = Callable[[str], Awaitable[bool]]
"""Returns True if the run of an id is stored, so that it can be continued."""
Settle = Callable[..., None]
"""Function that is called after an answer: `settle(run_id, owner=..., is_kept=...)`. The stored run is needed no more if its
answer is stored (`is_kept`), and is deleted unless its process has lost the lease `owner`."""


class Once:
    """Answers requests that have an idempotency key. `problem_for` converts an error to an error answer."""

    def __init__(
        self,
        documents: Store,
        event_log: EventLog,
        settings: Idempotency,
        problem_for: Callable[[ToolcaddieError], Problem],
        *,
        is_stored: IsStored,
        settle: Settle,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._documents = documents
        self._event_log = event_log
        self._keep_seconds = settings.keep_hours * 3600.0
        self._answer_bytes = settings.answer_bytes
        self._problem_for = problem_for
        self._is_stored = is_stored
        self._settle = settle
        self._clock = clock
        self._under_way: set[str] = set()
        """Runs of this process that have claimed a key."""
        self._releases: set[asyncio.Task[None]] = set()

    async def answer(
        self,
        exchange: Exchange,
        body: bytes,
        principal: Principal,
        run: Run,
        *,
        door: str,
        client_key: bytes,
        resumes: bool = False,
    ) -> None:
        """Runs the request, or sends its stored answer or a refusal.

        `door`: the name of the door, because the same body may be a request at two of them, with different answers. `client_key`
        is the API key that the client sent, which distinguishes clients that have the same principal; empty if it is a key of the
        gateway, because then the principal is enough. `resumes`: `run` can continue a run whose process is gone.
        """
        key = _document_key(exchange.headers[HEADER], principal, client_key)
        run_id = new_run_id()
        self._under_way.add(run_id)
        try:
            meaning = [door.encode(), *(exchange.headers.get(name, b"") for name in _MEANING_HEADERS)]
            digest = await aside(_digest, body, meaning) if len(body) >= LARGE else _digest(body, meaning)
            outcome = await self._claim(key, digest, run_id, resumes=resumes)
            match outcome:
                case Problem():
                    await exchange.refuse(outcome)
                case _AnsweredEntry():
                    await _replay(exchange, outcome)
                case _RunningEntry() if outcome.run_id == run_id:
                    await self._run(exchange, key, outcome, run)
                case _RunningEntry():
                    await self._resume(exchange, key, outcome, run)
        finally:
            self._under_way.discard(run_id)

    # --- the claim ---------------------------------------------------------------------------------------------------

    async def _claim(
        self, key: str, body: bytes, run_id: str, *, resumes: bool
    ) -> _RunningEntry | _AnsweredEntry | Problem:
        """Claims the key and returns the entry of the run that may begin, or of another run that may go on; otherwise returns the
        stored answer or a refusal.

        `body` is the digest of the request. `resumes`: True if a run can go on. Nearly every key is new, so it is claimed before
        anybody looks for an entry. If there is one, or another process changes it meanwhile, the entry is examined.
        """
        stored: bytes | None = None
        while True:
            entry = None if stored is None else _decode(stored)
            if entry is not None and (answer := await self._reply_to(entry, body)) is not None:
                return answer
            successor: _Entry = _RunningEntry(
                body=body, run_id=run_id, owner=await self._documents.lease(), at=self._clock()
            )
            if isinstance(entry, _RunningEntry) and await self._may_have_acted(entry):
                if resumes and await self._is_stored(entry.run_id):
                    successor = replace(successor, run_id=entry.run_id)
                else:
                    successor = _UnknownEntry(body=body, run_id=entry.run_id)
            if await self._swap(key, stored, successor) and isinstance(successor, _RunningEntry):
                return successor
            stored = await self._documents.get(_KIND, key)

    async def _reply_to(self, entry: _Entry, body: bytes) -> _AnsweredEntry | Problem | None:
        """Returns the reply to a request that finds this entry; None: its run broke off without an answer."""
        if entry.body != body:
            return _other_body()
        match entry:
            case _AnsweredEntry():
                return entry if entry.answer.content is not None else _answer_too_large(entry.run_id)
            case _UnknownEntry():
                return _outcome_unknown(entry.run_id)
            case _RunningEntry():
                return _still_under_way(entry.run_id) if await self._is_alive(entry) else None

    async def _is_alive(self, entry: _RunningEntry) -> bool:
        """Returns True if the run goes on, in this process or in another one that still holds its lease."""
        if entry.run_id in self._under_way:
            return True
        return entry.owner != await self._documents.lease() and await self._documents.holds(entry.owner)

    async def _may_have_acted(self, entry: _RunningEntry) -> bool:
        """Returns True if a call of the run, whose process is gone, may have changed something.

        This includes a run of which the trail has no row, if a pruning may have removed them: the run began after its claim.
        """
        if await has_intended_call(self._event_log, entry.run_id):
            return True
        may_be_removed = entry.at < await self._event_log.removed_before()
        return may_be_removed and not await self._event_log.records([entry.run_id], ["run_started"])

    async def _swap(self, key: str, before: bytes | None, successor: _Entry) -> bool:
        """Replaces the stored entry `before` (None: there is none) by `successor`. Returns False if another process has changed
        it."""
        running = isinstance(successor, _RunningEntry)
        ttl = max(self._keep_seconds, _LONGEST_RUN) if running else self._keep_seconds
        owner = successor.owner if isinstance(successor, _RunningEntry) else None
        return await self._documents.compare_and_set(
            _KIND, key, _encode(successor), expected=before, ttl=ttl, owner=owner
        )

    # --- the run -----------------------------------------------------------------------------------------------------

    async def _resume(self, exchange: Exchange, key: str, claim: _RunningEntry, run: Run) -> None:
        """Continues a run whose process is gone."""
        self._under_way.add(claim.run_id)
        try:
            await self._run(exchange, key, claim, partial(run, resumes=True))
        finally:
            self._under_way.discard(claim.run_id)

    async def _run(self, exchange: Exchange, key: str, claim: _RunningEntry, run: Run) -> None:
        """Runs the request without watching for a disconnection, because the run continues without its client."""
        recorder = _Recorder(lambda answer: self._keep(key, claim, answer), self._answer_bytes)
        exchange.wrap_send(recorder.wrap)
        try:
            await run(exchange, run_id=claim.run_id, lease=claim.owner)
        except RunTakenError:
            # The claim is void with the lease, so the next request with this key decides what becomes of the run.
            recorder.stop()
            await exchange.fail(_taken(claim.run_id))
            return
        except ToolcaddieError as error:
            if has_acted(error):
                await exchange.fail(self._problem_for(error))
                return
            recorder.stop()
            await self._release(key, claim)
            raise
        finally:
            recorder.stop()
            self._settle(claim.run_id, owner=claim.owner, is_kept=recorder.is_kept)

    async def _keep(self, key: str, claim: _RunningEntry, answer: _Answer) -> bool:
        """Stores the answer. Returns False if that fails: the claim remains, and the next request continues the run, or learns
        that its outcome is unknown."""
        if answer.content is None:
            log.warning("answer_not_kept", run=claim.run_id, reason=f"it is over {self._answer_bytes} bytes")
        entry = _AnsweredEntry(body=claim.body, run_id=claim.run_id, answer=answer)
        try:
            if await self._swap(key, _encode(claim), entry):
                return True
            log.warning("answer_not_kept", run=claim.run_id, reason="another process has taken its key over")
        except StorageError as error:
            log.warning("answer_not_kept", run=claim.run_id, reason=str(error))
        return False

    async def _release(self, key: str, claim: _RunningEntry) -> None:
        """Releases the key of a run that failed before any call began. If that fails now, it is tried again in the background:
        as long as this process lives, others take its claim for a run that is under way."""
        try:
            await self._give_back(key, claim)
        except StorageError as error:
            log.warning("idempotency_key_not_given_back", run=claim.run_id, error=str(error))
            task = asyncio.create_task(self._give_back_later(key, claim))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    async def _give_back(self, key: str, claim: _RunningEntry) -> None:
        """Lets the claim expire now, unless another request has replaced it. Raises `StorageError`."""
        entry = _encode(claim)
        await self._documents.compare_and_set(_KIND, key, entry, expected=entry, ttl=0.0, owner=claim.owner)

    async def _give_back_later(self, key: str, claim: _RunningEntry) -> None:
        for _ in range(_RELEASES):
            await asyncio.sleep(_RELEASE_PAUSE)
            try:
                if not await self._documents.holds(claim.owner):
                    return  # others know that the run has ended
                await self._give_back(key, claim)
                return
            except StorageError:
                continue


class _Recorder:
    """Records an answer while it is sent, and passes it to `keep` before its last piece is sent. An answer of more than `most`
    bytes is passed without its content.

    The head of a whole answer is sent together with its body, after it is stored: if this process dies before, the client has
    received nothing, and a load balancer can ask another server.
    """

    def __init__(self, keep: Callable[[_Answer], Awaitable[bool]], most: int) -> None:
        self.is_kept = False
        """True once the answer is stored."""
        self._keep = keep
        self._most = most
        self._recording = True
        self._status = 0
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._content: bytearray | None = bytearray()
        self._head: MutableMapping[str, Any] | None = None
        """The head of a whole answer that waits for the body."""

    def stop(self) -> None:
        """Stops recording: later pieces, such as an error, are not part of the run's answer."""
        self._recording = False

    def wrap(self, send: Send) -> Send:
        """Returns a function that records a message and then sends it."""

        async def send_recorded(message: MutableMapping[str, Any]) -> None:
            if self._recording:
                await self._take(message)
            if message["type"] == "http.response.start" and _is_whole(message):
                self._head = message
                return
            if self._head is not None:
                head, self._head = self._head, None
                await send(head)
            await send(message)

        return send_recorded

    async def _take(self, message: MutableMapping[str, Any]) -> None:
        """Records a message of the answer: its status and headers, or a piece of its body."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], tuple(message["headers"])
            return
        if self._content is not None:
            self._content += message["body"]
            if len(self._content) > self._most:
                self._content = None
        if not message["more_body"]:
            content = None if self._content is None else bytes(self._content)
            self.is_kept = await self._keep(_Answer(status=self._status, headers=self._headers, content=content))


def _is_whole(head: MutableMapping[str, Any]) -> bool:
    """Returns True if an answer with this head has one piece, and is no stream."""
    return any(name == b"content-length" for name, _ in head["headers"])


async def _replay(exchange: Exchange, entry: _AnsweredEntry) -> None:
    """Sends the stored answer again, marked by a header."""
    answer = entry.answer
    await exchange.start(answer.status, [*answer.headers, _REPLAYED])
    await exchange.write(answer.content or b"", more=False)


def key_refusal(header: bytes) -> Problem | None:
    """Returns the refusal of an invalid key; None: it is valid."""
    if header.strip() and len(header) <= LONGEST_KEY and all(0x20 <= byte < 0x7F for byte in header):
        return None
    message = f"'idempotency-key' must have 1 to {LONGEST_KEY} printable ASCII characters; a UUID is a good one"
    return problem(400, message, kind="invalid_request_error", param="idempotency-key", code="invalid_idempotency_key")


def _digest(body: bytes, meaning: Sequence[bytes]) -> bytes:
    """Returns the digest of a request, that is, of its body and of the door and the headers that are part of its meaning."""
    digest = hashlib.sha256()
    for part in (*meaning, body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _document_key(key: bytes, principal: Principal, client_key: bytes) -> str:
    """Returns the digest of an idempotency key and its sender, under which the entry is stored. Nobody can read the key back from
    the digest, which matters because a client may have written private data into the key."""
    sender = [*principal.owner, principal.bot or "", principal.role or ""]
    digest = hashlib.sha256()
    for part in (*(text.encode(errors="surrogatepass") for text in sender), client_key, key):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _other_body() -> Problem:
    return problem(
        422,
        "this idempotency key was used with another request (its body, its path, or an x-toolcaddie header was different); "
        "a new request needs a new key",
        kind="invalid_request_error",
        param="idempotency-key",
        code="idempotency_key_reused",
        headers={"x-should-retry": "false"},
    )


def _still_under_way(run_id: str) -> Problem:
    return problem(
        409,
        f"the first request with this idempotency key is still under way (run {run_id}); send it again in a moment",
        kind="invalid_request_error",
        code="request_under_way",
        headers={"retry-after": _RETRY_SECONDS, "x-toolcaddie-run": run_id},
    )


def _taken(run_id: str) -> Problem:
    return problem(
        503,
        f"this server stood still for too long, and others count it as gone; send the request again, and run {run_id} goes on",
        kind="server_error",
        code="run_taken",
        headers={"retry-after": _RETRY_SECONDS, "x-toolcaddie-run": run_id},
    )


def _outcome_unknown(run_id: str) -> Problem:
    return _final(
        f"the first request with this idempotency key broke off, and its calls may have changed something, so it is not run "
        f"again; `toolcaddie runs {run_id}` shows what it did",
        run_id,
        "outcome_unknown",
    )


def _answer_too_large(run_id: str) -> Problem:
    return _final(
        f"the first request with this idempotency key has run (run {run_id}); its answer was too large to store "
        "(setting idempotency.answer_bytes), so it is not run again",
        run_id,
        "answer_too_large",
    )


def _final(message: str, run_id: str, code: str) -> Problem:
    return without_retry(problem(422, message, kind="run_failed", code=code, headers={"x-toolcaddie-run": run_id}))
