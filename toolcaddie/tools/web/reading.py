"""Reads HTML in a process of its own, which ends after a limited time.

No program reads all HTML in a time that grows only with its size: a megabyte of nested or unclosed elements takes minutes, in one
call of the parser that nothing can interrupt. So a page is read by a process with a limit of CPU time and of memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.tools.web.page_process import CPU_SECONDS

AT_ONCE = 4
"""Processes of one reader at the same time, and large pages that are held at the same time."""
_threads = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="toolcaddie-pages")
"""The threads that talk to the processes."""

_CALM_SECONDS = 0.25
"""After this time a process computes only while nobody else does: few pages take so long, and others are not to wait for them."""
_PROGRAM = """
import json, os, sys
sys.platform == "win32" or os.nice(10)
sys.path[:] = json.loads(sys.argv[1])
from toolcaddie.tools.web.page_process import main
main()
"""
"""A process with a tenth of the computing time of others."""
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT")
"""Environment variables of the process."""


class PageError(ToolcaddieError):
    """A page cannot be read."""


class PageReader:
    """Turns HTML into text. Made inside the running event loop.

    `concurrency`: the largest number of pages that are fetched at the same time.
    """

    def __init__(self, concurrency: int) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)
        self.fetching = asyncio.Semaphore(concurrency)
        """Held while a page is fetched and read."""
        self.holding = asyncio.Semaphore(AT_ONCE)
        """Held while a large page is fetched and read."""

    async def read(self, body: bytes, *, content_type: str, url: str, most: int) -> dict[str, Any]:
        """Returns `title`, `text` (at most `most` characters) and `characters` (of the whole text). If this is cancelled, the
        process is killed. Raises `PageError`."""
        request = json.dumps({"content_type": content_type, "url": url, "most": most}).encode()
        code, output, errors = await self._answer(request + b"\n" + body)
        if code:
            raise PageError(_reason(code, errors))
        page: dict[str, Any] = json.loads(output)
        return page

    async def _answer(self, request: bytes) -> tuple[int, bytes, bytes]:
        """Returns the exit code of a process, its output and its errors."""
        await self._free.acquire()
        try:
            process = _started()
        except OSError as error:
            self._free.release()
            raise PageError(f"the page cannot be read: no process can be started ({error.strerror})") from error
        # A killed process may wait for computing time to end. Nobody waits for it, but its place is taken meanwhile.
        ended = asyncio.wrap_future(_threads.submit(process.communicate, request))
        ended.add_done_callback(lambda _: self._free.release())
        calm = asyncio.get_running_loop().call_later(_CALM_SECONDS, _calm_down, process)
        try:
            output, errors = await asyncio.shield(ended)
        finally:
            calm.cancel()
            if not ended.done():
                process.kill()
        return process.returncode, output, errors


def _started() -> subprocess.Popen[bytes]:
    """Starts a process without asyncio: it takes half a millisecond, and with uvloop, which forks the whole server, fourteen."""
    return subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", _PROGRAM, json.dumps(sys.path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )


def _calm_down(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "linux" and process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))


def _reason(code: int, errors: bytes) -> str:
    if code == -signal.SIGXCPU:
        return f"the page is nested or written so that reading it takes longer than {CPU_SECONDS} s"
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the page cannot be read: {last[:200] or f'its reader ended with status {code}'}"
