"""Starts a real `toolcaddie serve` with a quiet client beside it, sends requests to it, and reads its memory and the waits of the
quiet client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_READ = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a server. `status` 0: there was none, because the connection was closed or the time was over."""

    status: int
    text: str

    @property
    def sentence(self) -> str:
        """The message of an error, the text of a chat answer, or the beginning of any other answer."""
        try:
            body = json.loads(self.text)
            return str(body["error"]["message"] if "error" in body else body["choices"][0]["message"]["content"])
        except (ValueError, KeyError, TypeError):
            return self.text[:200]


@dataclass(slots=True, kw_only=True)
class Server:
    """A server under attack."""

    process: subprocess.Popen[str]
    host: str
    port: int
    quiet: tuple[str, ...]
    """The requests of the quiet client: paths, or `chat`."""
    folder: Path
    waits: list[tuple[float, float, int]] = field(default_factory=list)
    """Start, seconds and status of each request of the quiet client."""

    @property
    def resident(self) -> int:
        """Resident memory of the server in bytes."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """The largest resident memory since `forget_peak`, in bytes."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def send(self, *pieces: bytes, seconds: float = 60.0) -> Answer:
        """Sends the pieces on a new connection and returns the answer, which may come before all is sent."""
        async with self.connection() as (reader, writer):
            return await exchange(reader, writer, pieces, seconds)

    async def post(self, body: bytes, **options: Any) -> Answer:
        return await self.send(chat_head(len(body)), body, **options)

    def longest_wait(self, since: float) -> tuple[float, int]:
        """Returns the longest wait of the quiet client in seconds, and the number of its requests that ended after the moment
        `since`. A failed request counts as an endless wait."""
        waits = [
            (1e9 if status != 200 else seconds) for start, seconds, status in self.waits if start + seconds >= since
        ]
        return max(waits, default=1e9), len(waits)


def chat_head(length: int | None, *more: str) -> bytes:
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = ("POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", size, *more)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: tuple[bytes, ...], seconds: float
) -> Answer:
    """Sends the pieces and returns the answer. If the answer comes first, the rest is not sent."""

    async def sending() -> None:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                for at in range(0, len(piece), _READ):
                    writer.write(piece[at : at + _READ])
                    await writer.drain()

    task = asyncio.ensure_future(sending())
    try:
        async with asyncio.timeout(seconds):
            return await read_answer(reader)
    except TimeoutError:
        return Answer(status=0, text=f"no answer within {seconds:g} s")
    finally:
        task.cancel()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(head.split(" ", 2)[1])
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if "content-length" in fields:
            body = await reader.readexactly(int(fields["content-length"]))
        else:
            body = await reader.readuntil(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError) as error:
        return Answer(status=0, text=f"the connection was closed without an answer ({type(error).__name__})")
    return Answer(status=status, text=body.decode(errors="replace"))


@contextlib.asynccontextmanager
async def serving(
    *words: str,
    quiet: tuple[str, ...],
    settings: str = "",
    tools: str = "",
    files: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Server]:
    """Starts a server in a folder of its own, and a quiet client that keeps sending requests. `words`: further options of
    `serve`; `files`: further files of its folder; `environ`: further variables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "toolcaddie.toml").write_text(settings)
        (folder / "hostile_tools.py").write_text(tools)
        for file, text in (files or {}).items():
            (folder / file).write_text(text)
        with _served(folder, words, environ or {}) as (process, ready):
            host, port = ready["url"].removeprefix("http://").split(":")
            server = Server(process=process, host=host, port=int(port), quiet=quiet, folder=folder)
            with _beside(server):
                yield server


@contextlib.contextmanager
def _served(
    folder: Path, words: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCADDIE_")}
    clean.pop("OPENAI_API_KEY", None)
    command = [sys.executable, "-m", "toolcaddie", "serve", "--port", "0", "--json", "--approve", "run", *words]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**clean, "PYTHONPATH": str(ROOT), **environ},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            output = ""
            for line in process.stdout:
                output += line
                if line.startswith("}"):
                    break
            if not output:
                raise RuntimeError(f"the server did not start: {(folder / 'log.txt').read_text()[-2000:]}")
            yield process, json.loads(output)
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _beside(server: Server) -> Iterator[None]:
    command = [sys.executable, "-m", "security.quiet", server.host, str(server.port), *server.quiet]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    loop, lines = asyncio.get_running_loop(), process.stdout

    def read() -> None:
        for line in lines:
            start, seconds, status = line.split()
            server.waits.append((float(start), float(seconds), int(status)))

    reading = loop.run_in_executor(None, read)
    try:
        yield
    finally:
        process.stdin.close()
        process.wait(30)
        del reading
