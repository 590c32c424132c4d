"""`idempotency-key`: a request that is sent again with its key runs once and gets the answer of the first.

Before a run starts, its key is claimed with one compare-and-set write that names the run and the process it belongs to.
What is found under a key decides:

    nothing                                the request runs
    a run of a process that lives          409: it is under way
    a run of a process that is gone        it runs again if the trail shows that it intended no call, else 422: its
                                           outcome is unknown
    an answer                              the answer, without a run
    any of these, for another request      422

An answer is kept before its last byte goes out, so that a client that has it can only be answered alike. A failure before
any call was intended gives the key back. The run of a request with a key goes on when its client leaves: whoever sends
the request again wants the answer of that run.

Keys are kept as digests, together with who sent them: a principal, and for clients without a key of ours the digest of
their `Authorization`. Requests that are forwarded byte for byte do not come here: their key goes on to the upstream.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import Any

import msgspec

from toolcaddie.app.settings import Idempotency
from toolcaddie.core.bounds import LARGE
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import StorageError, ToolcaddieError, has_acted
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.essential import PIN_HEADER
from toolcaddie.doors.gateway.exchange import Exchange, Send
from toolcaddie.doors.gateway.problems import not_again, problem
from toolcaddie.guards.aside import aside
from toolcaddie.ports import EventLog, Store
from toolcaddie.util.log import Logger

log = Logger(__name__)

HEADER = b"idempotency-key"
LONGEST_KEY = 255

_MEANING = (b"x-toolcaddie-catalog", PIN_HEADER.encode(), b"x-toolcaddie-conversation")
"""Headers that make another request of the same body."""

_KIND = "idempotency"
_LONGEST_RUN = 86_400.0
"""A claim outlives its run, also where answers are kept for a shorter time."""
_REPLAYED = (b"x-toolcaddie-replayed", b"true")
_RETRY_SECONDS = "1"


class _Running(msgspec.Struct, frozen=True, kw_only=True, tag="running"):
    """A run that has the key."""

    body: bytes
    """The digest of the request."""
    run_id: str
    owner: int
    """The lease of the process that carries it on."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was sent; a stream with all its events."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content: bytes | None
    """None: it was too large to keep."""


class _Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """The answer that all requests with this key get."""

    body: bytes
    run_id: str
    answer: _Answer


class _Unknown(msgspec.Struct, frozen=True, kw_only=True, tag="unknown"):
    """The run intended a call and broke off: nobody can say what it did, so it never runs again."""

    body: bytes
    run_id: str


_Entry = _Running | _Answered | _Unknown
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode


def new_run_id() -> str:
    return f"run_{uuid.uuid4().hex}"


async def intended(event_log: EventLog, run_id: str) -> bool:
    """Whether a run has intended a call, so that it may have acted. True as well where the trail cannot tell."""
    try:
        return bool(await event_log.records([run_id], ["call_intended"]))
    except StorageError:
        log.warning("trail_not_readable", run=run_id)
        return True


Run = Callable[..., Coroutine[Any, Any, None]]
"""Answers a request: `run(exchange, run_id=..., lease=...)`."""


class Once:
    """Answers requests that carry a key. `told` makes the answer of an error."""

    def __init__(
        self,
        documents: Store,
        event_log: EventLog,
        settings: Idempotency,
        told: Callable[[ToolcaddieError], Problem],
    ) -> None:
        self._documents = documents
        self._event_log = event_log
        self._keep_seconds = settings.keep_hours * 3600.0
        self._answer_bytes = settings.answer_bytes
        self._told = told
        self._under_way: set[str] = set()
        """The runs of this process that hold a key."""

    async def answer(self, exchange: Exchange, body: bytes, principal: Principal, run: Run, *, keyed: bool) -> None:
        """Runs the request, or gives the answer it had. `keyed`: its Authorization is a key of ours."""
        authorization = b"" if keyed else exchange.headers.get(b"authorization", b"")
        key = _document_key(exchange.headers[HEADER], principal, authorization)
        run_id = new_run_id()
        self._under_way.add(run_id)
        try:
            said = [exchange.headers.get(name, b"") for name in _MEANING]
            digest = await aside(_digest, body, said) if len(body) >= LARGE else _digest(body, said)
            outcome = await self._claimed(key, digest, run_id)
            match outcome:
                case Problem():
                    await exchange.refuse(outcome)
                case _Answered():
                    await _replay(exchange, outcome)
                case _Running():
                    await self._run(exchange, key, outcome, run)
        finally:
            self._under_way.discard(run_id)

    # --- the claim ---------------------------------------------------------------------------------------------------

    async def _claimed(self, key: str, body: bytes, run_id: str) -> _Running | _Answered | Problem:
        """The claim of a run that may begin, or what there is instead of one."""
        while True:
            stored = await self._documents.get(_KIND, key)
            entry = None if stored is None else _decode(stored)
            if entry is not None and (answer := await self._standing(entry, body)) is not None:
                return answer
            after: _Entry
            if isinstance(entry, _Running) and await self._may_have_acted(entry):
                after = _Unknown(body=body, run_id=entry.run_id)
            else:
                after = _Running(body=body, run_id=run_id, owner=await self._documents.lease())
            if await self._swap(key, stored, after) and isinstance(after, _Running):
                return after

    async def _standing(self, entry: _Entry, body: bytes) -> _Answered | Problem | None:
        """What an entry says to a request. None: the run it names broke off."""
        if entry.body != body:
            return _other_body()
        match entry:
            case _Answered():
                return entry if entry.answer.content is not None else _answer_too_large(entry.run_id)
            case _Unknown():
                return _outcome_unknown(entry.run_id)
            case _Running():
                return _still_under_way(entry.run_id) if await self._goes_on(entry) else None

    async def _goes_on(self, entry: _Running) -> bool:
        if entry.run_id in self._under_way:
            return True
        return entry.owner != await self._documents.lease() and await self._documents.holds(entry.owner)

    async def _may_have_acted(self, entry: _Running) -> bool:
        """True as well for the run of another process that the trail does not know: it was pruned, or never began."""
        if await intended(self._event_log, entry.run_id):
            return True
        ours = entry.owner == await self._documents.lease()
        return not ours and not await self._event_log.records([entry.run_id], ["run_started"])

    async def _swap(self, key: str, before: bytes | None, after: _Entry) -> bool:
        """Puts `after` in the place of `before`. False: somebody else was faster."""
        running = isinstance(after, _Running)
        ttl = max(self._keep_seconds, _LONGEST_RUN) if running else self._keep_seconds
        owner = after.owner if isinstance(after, _Running) else None
        return await self._documents.compare_and_set(_KIND, key, _encode(after), expected=before, ttl=ttl, owner=owner)

    # --- the run -----------------------------------------------------------------------------------------------------

    async def _run(self, exchange: Exchange, key: str, claim: _Running, run: Run) -> None:
        """Nobody watches for the client here: the run goes on without it."""
        recorder = _Recorder(lambda answer: self._keep(key, claim, answer), self._answer_bytes)
        exchange.through(recorder.around)
        try:
            await run(exchange, run_id=claim.run_id, lease=claim.owner)
        except ToolcaddieError as error:
            if has_acted(error):
                await exchange.fail(self._told(error))
                return
            recorder.stop()
            await self._give_back(key, claim)
            raise
        finally:
            recorder.stop()

    async def _keep(self, key: str, claim: _Running, answer: _Answer) -> None:
        """Where it cannot be written the key stays with the run, and the next request is told that the outcome is unknown."""
        if answer.content is None:
            log.warning("answer_not_kept", run=claim.run_id, reason=f"it is over {self._answer_bytes} bytes")
        entry = _Answered(body=claim.body, run_id=claim.run_id, answer=answer)
        try:
            if not await self._swap(key, _encode(claim), entry):
                log.warning("answer_not_kept", run=claim.run_id, reason="another process has taken its key over")
        except StorageError as error:
            log.warning("answer_not_kept", run=claim.run_id, reason=str(error))

    async def _give_back(self, key: str, claim: _Running) -> None:
        """Nothing was done, so a request with the same key may run. Where this cannot be written, it finds that out itself."""
        try:
            await self._documents.delete(_KIND, key, owner=claim.owner)
        except StorageError as error:
            log.warning("idempotency_key_not_given_back", run=claim.run_id, error=str(error))


class _Recorder:
    """Writes an answer down while it is sent, and hands it to `keep` before its last piece goes out."""

    def __init__(self, keep: Callable[[_Answer], Awaitable[None]], most: int) -> None:
        self._keep = keep
        self._most = most
        self._recording = True
        self._status = 0
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._content: bytearray | None = bytearray()

    def stop(self) -> None:
        """What is sent from here on is not the answer of the run."""
        self._recording = False

    def around(self, send: Send) -> Send:
        async def recorded(message: MutableMapping[str, Any]) -> None:
            if self._recording:
                await self._take(message)
            await send(message)

        return recorded

    async def _take(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], tuple(message["headers"])
            return
        if self._content is not None:
            self._content += message["body"]
            if len(self._content) > self._most:
                self._content = None
        if not message["more_body"]:
            content = None if self._content is None else bytes(self._content)
            await self._keep(_Answer(status=self._status, headers=self._headers, content=content))


async def _replay(exchange: Exchange, entry: _Answered) -> None:
    answer = entry.answer
    await exchange.start(answer.status, [*answer.headers, _REPLAYED])
    await exchange.write(answer.content or b"", more=False)


def wrong_key(header: bytes) -> Problem | None:
    """The answer to a key that cannot be one."""
    if header.strip() and len(header) <= LONGEST_KEY and all(0x20 <= byte < 0x7F for byte in header):
        return None
    told = f"'idempotency-key' must have 1 to {LONGEST_KEY} printable ASCII characters; a UUID is a good one"
    return problem(400, told, kind="invalid_request_error", param="idempotency-key", code="invalid_idempotency_key")


def _digest(body: bytes, headers: Sequence[bytes]) -> bytes:
    """That of the body, where no such header came."""
    if not any(headers):
        return hashlib.sha256(body).digest()
    digest = hashlib.sha256()
    for part in (*headers, body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _document_key(key: bytes, principal: Principal, authorization: bytes) -> str:
    """No part of it can be read back: who sends a key may have put anything into it."""
    who = [*principal.owner, principal.bot or "", principal.role or ""]
    digest = hashlib.sha256()
    for part in (*(text.encode(errors="surrogatepass") for text in who), authorization, key):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _other_body() -> Problem:
    return problem(
        422,
        "this idempotency key was used with another request (its body, or an x-toolcaddie header, was different); "
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


def _outcome_unknown(run_id: str) -> Problem:
    return _final(
        f"the first request with this idempotency key broke off after it had begun to act, so it is not run again; "
        f"`toolcaddie runs {run_id}` shows what it did",
        run_id,
        "outcome_unknown",
    )


def _answer_too_large(run_id: str) -> Problem:
    return _final(
        f"the first request with this idempotency key has run (run {run_id}); its answer was too large to keep "
        "(setting idempotency.answer_bytes), so it is not run again",
        run_id,
        "answer_too_large",
    )


def _final(message: str, run_id: str, code: str) -> Problem:
    return not_again(problem(422, message, kind="run_failed", code=code, headers={"x-toolcaddie-run": run_id}))
