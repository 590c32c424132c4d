"""The process that reads one page for `reading.PageReader`. It imports little, because it must start fast."""

from __future__ import annotations

import json
import os
import sys

from toolcaddie.tools.web.charsets import decoded
from toolcaddie.tools.web.page_text import page_of

if sys.platform != "win32":
    import resource

CPU_SECONDS = 3
_MEMORY_BYTES = 1024 * 1024 * 1024
_NICE = 10
"""Lowers the priority to a tenth of that of other processes."""


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
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
