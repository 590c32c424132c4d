"""Runs evaluations in the background: one at a time, in a process of its own, with the progress in the store, so that any page of
any process of the server shows it."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcaddie.app.measuring_process import Measurement, send, started
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.doors.console.evaluation.values import Evaluation
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger

log = Logger(__name__)

_KIND = "console-evaluation"
"""Kind of the documents; the key is the tenant and the id. Ids are ordered from the newest to the oldest."""
_CANCEL = "console-evaluation-end"
"""Kind of the documents that ask whichever process runs an evaluation to end it."""
_TTL_SECONDS = 30 * 86_400.0
_CANCEL_SECONDS = 3_600.0
_BEAT = 0.5
"""Seconds between two looks at the store and two writes of the progress."""
_SILENT = 60.0
"""Seconds without a beat after which nobody runs an evaluation any more."""
_LONGEST = 1_800.0
"""Seconds after which an evaluation is ended."""
_LAST_MOMENT = 1 << 44
_ASKED_TO_END = b"1"


class Evaluations:
    """The evaluations of all tenants. `clock`: seconds since the epoch."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None

    async def begin(self, measurement: Measurement, *, by: str, tenant: str) -> Evaluation:
        """Begins an evaluation, and returns it at once. Raises `RequestError` while this process runs another one."""
        if self._is_busy:
            raise RequestError(
                "an evaluation is running, and there is one at a time; wait for its end, or cancel it",
                code="evaluation_is_running",
            )
        self._is_busy = True
        now = self._clock()
        evaluation = Evaluation(
            id=f"{_LAST_MOMENT - int(now * 1000):011x}{secrets.token_hex(4)}",
            tenant=tenant,
            by=by,
            source="trail" if measurement.requests is None else "list",
            configurations=tuple(each.name for each in measurement.configurations),
            began=now,
            beat=now,
        )
        try:
            await self._write(evaluation)
        except BaseException:
            self._is_busy = False
            raise
        self._task = asyncio.create_task(self._run(evaluation, measurement))
        return evaluation

    async def cancel(self, tenant: str, evaluation_id: str) -> None:
        """Asks the process that runs an evaluation to end it. Raises `RequestError` if there is none, or if it has ended."""
        evaluation = await self.get(tenant, evaluation_id)
        if evaluation.status != "running":
            raise RequestError("the evaluation has ended already", code="decided")
        await self._store.put(_CANCEL, evaluation.id, _ASKED_TO_END, ttl=_CANCEL_SECONDS)

    async def get(self, tenant: str, evaluation_id: str) -> Evaluation:
        """Returns an evaluation. Raises `RequestError` if there is none."""
        document = await self._store.get(_KIND, f"{tenant}\0{evaluation_id[:64]}")
        if document is None:
            raise RequestError(f"there is no evaluation {evaluation_id[:64]!r}", code="unknown_evaluation")
        return self._decoded(document)

    async def page(
        self, tenant: str, *, cursor: str | None = None, limit: int
    ) -> tuple[Sequence[Evaluation], str | None]:
        """Returns evaluations, the newest first, and the cursor of the next page; None: there is none."""
        page = await self._store.scan(_KIND, prefix=f"{tenant}\0", cursor=cursor, limit=limit)
        return [self._decoded(each.value) for each in page.documents], page.cursor

    async def _run(self, evaluation: Evaluation, measurement: Measurement) -> None:
        process: subprocess.Popen[bytes] | None = None
        try:
            process = await asyncio.to_thread(started)
            evaluation = await self._followed(evaluation, measurement, process)
        except asyncio.CancelledError:
            raise
        except Exception:  # the outermost frame of a task: an unforeseen error is logged and shown
            log.exception("evaluation_failed", evaluation=evaluation.id)
            evaluation = replace(evaluation, status="failed", error="The server's log says why.")
        finally:
            if process is not None:
                process.kill()
                threading.Thread(target=_reap, args=(process,), daemon=True).start()
            self._is_busy = False
        await self._write(replace(evaluation, ended=self._clock(), beat=self._clock()))

    async def _followed(
        self, evaluation: Evaluation, measurement: Measurement, process: subprocess.Popen[bytes]
    ) -> Evaluation:
        """Returns an evaluation as it is at its end. Its progress is written on the way."""
        written = 0.0
        async with aclosing(_messages(process, measurement)) as messages:
            async for message in messages:
                now = self._clock()
                if "outcome" in message:
                    return replace(evaluation, status="done", outcome=message["outcome"])
                if "error" in message:
                    return replace(evaluation, status="failed", error=message["error"])
                evaluation = replace(evaluation, **message)
                if now < written + _BEAT:
                    continue
                if await self._store.get(_CANCEL, evaluation.id) is not None:
                    return replace(evaluation, status="cancelled")
                if now > evaluation.began + _LONGEST:
                    return replace(evaluation, status="failed", error=f"it took longer than {_LONGEST / 60:g} minutes")
                written, evaluation = now, replace(evaluation, beat=now)
                await self._write(evaluation)
        return replace(evaluation, status="failed", error="its process ended; the server's log may say why")

    async def _write(self, evaluation: Evaluation) -> None:
        key = f"{evaluation.tenant}\0{evaluation.id}"
        await self._store.put(_KIND, key, msgspec.json.encode(evaluation), ttl=_TTL_SECONDS)

    def _decoded(self, document: bytes) -> Evaluation:
        try:
            evaluation = msgspec.json.decode(document, type=Evaluation)
        except msgspec.MsgspecError as error:
            raise StorageError(f"an evaluation cannot be read: {error}") from error
        is_lost = evaluation.status == "running" and self._clock() > evaluation.beat + _SILENT
        return replace(evaluation, status="lost") if is_lost else evaluation


async def _messages(process: subprocess.Popen[bytes], measurement: Measurement) -> AsyncGenerator[dict[str, Any], None]:
    """Yields what a process says, and an empty message whenever it is silent for a while."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    assert process.stdin is not None
    assert process.stdout is not None
    source, target = process.stdout, process.stdin

    def read() -> None:
        with suppress(OSError, RuntimeError, ValueError):  # the process or the loop has ended
            send(measurement, target)
            for line in source:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    threading.Thread(target=read, name="toolcaddie-evaluation", daemon=True).start()
    while True:
        try:
            line = await asyncio.wait_for(lines.get(), _BEAT)
        except TimeoutError:
            yield {}
            continue
        if not line:
            return
        yield msgspec.json.decode(line)


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
