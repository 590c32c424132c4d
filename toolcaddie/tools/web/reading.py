"""Reads HTML in a process of its own, which ends after a limited time.

No program reads all HTML in a time that grows only with its size: a megabyte of nested or unclosed elements takes minutes, in one
call of the parser that nothing can interrupt. So a page is read by a process with a limit of CPU time and of memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.tools.web.charsets import decoded
from toolcaddie.tools.web.page_text import page_of

if sys.platform != "win32":
    import resource

CPU_SECONDS = 3
MEMORY_BYTES = 1024 * 1024 * 1024
AT_ONCE = 4
"""Processes of one reader at the same time, and large pages that are held at the same time."""
_SLICE = 64 * 1024
"""Bytes that are passed to the process at once, so that a page is not copied as a whole."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from toolcaddie.tools.web.reading import main; main()"
)
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
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", _PROGRAM, json.dumps(sys.path)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            )
            try:
                output, errors = await _communicated(process, request + b"\n", body)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            raise PageError(_reason(process.returncode, errors))
        page: dict[str, Any] = json.loads(output)
        return page


async def _communicated(process: asyncio.subprocess.Process, head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Passes a page to the process and waits for its end. Returns its output and its errors."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors, _, _ = await asyncio.gather(
        process.stdout.read(), process.stderr.read(), _fed(process.stdin, head, body), process.wait()
    )
    return output, errors


async def _fed(stdin: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
    try:
        stdin.write(head)
        for at in range(0, len(body), _SLICE):
            stdin.write(body[at : at + _SLICE])
            await stdin.drain()
        stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the process has ended, and its status says why


def _reason(code: int, errors: bytes) -> str:
    if code == -signal.SIGXCPU:
        return f"the page is nested or written so that reading it takes longer than {CPU_SECONDS} s"
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the page cannot be read: {last[:200] or f'its reader ended with status {code}'}"


def main() -> None:
    """Reads a page from standard input and writes its text to standard output, both as JSON."""
    _limit()
    request = json.loads(sys.stdin.buffer.readline())
    html = decoded(sys.stdin.buffer.read(), request["content_type"])
    page = page_of(html, request["url"])
    answer = {"title": page.title[:500], "text": page.text[: request["most"]], "characters": len(page.text)}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # freeing the tree of a hostile page takes time too


def _limit() -> None:
    """Limits the process, and lets all others go first. Does nothing on systems without such limits."""
    if sys.platform == "win32":
        return
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
