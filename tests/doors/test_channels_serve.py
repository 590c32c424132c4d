"""`toolcaddie serve` runs the channels of its settings."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.databases import database_url
from toolcaddie.testing.webhooks import ScriptedProgram

pytestmark = pytest.mark.anyio

SETTINGS = """
catalogs = ["gym"]
database_url = "{database}"

[bots.assistant]

[[channel]]
type = "webhook"
name = "hook"
bot = "assistant"
secret_env = "HOOK_SECRET"
reply_url = "{url}"
allow = ["*"]
"""


async def server(folder: Path, program: ScriptedProgram, *options: str) -> tuple[Process, str]:
    """A server in a process of its own, and the address of its webhook."""
    (folder / "toolcaddie.toml").write_text(
        SETTINGS.format(url=program.url, database=database_url(folder / "data.sqlite"))
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCADDIE_", "OPENAI_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "toolcaddie", "serve", "--port", "0", "--json", *options),
        cwd=folder,
        env={**environ, "HOOK_SECRET": program.secret},
        stdout=PIPE,
    )
    assert process.stdout is not None
    output = b""
    while b"}" not in output:
        line = await process.stdout.readline()
        assert line, "the server ended"
        output += line if not line.startswith(b"20") else b""
    return process, f"{json.loads(output)['url']}/channels/hook"


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_serve_answers_in_its_channels_and_after_it_was_killed(tmp_path: Path, workers: str) -> None:
    async with ScriptedProgram() as program:
        process, url = await server(tmp_path, program, "--workers", workers)
        for number in range(3):
            body = {"id": f"m{number}", "chat": "c", "person": "ann", "text": "List the clients"}
            assert await program.post(url, body) == 202
        first = await program.replies(3, seconds=60)
        assert [each["reply_to"] for each in first] == ["m0", "m1", "m2"]
        program.faults = [503] * 1_000
        assert await program.post(url, body | {"id": "m3"}) == 202
        async with asyncio.timeout(20):
            while len(program.faults) == 1_000:  # noqa: ASYNC110  the program has no event for it
                await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
        program.faults = []
        process, _ = await server(tmp_path, program, "--workers", workers)
        replies = await program.replies(4, seconds=60)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert [each["reply_to"] for each in replies] == ["m0", "m1", "m2", "m3"]
    assert program.accepted == 4
    assert all("36 rows" in each["text"] for each in replies)


async def pushed(url: str, head: str) -> int:
    """Sends 100 MB whatever the server says. Returns how many of them were sent before it closed the connection."""
    address, sent = urlsplit(url), 0
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"POST {address.path} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n".encode())
    with suppress(ConnectionError):
        while sent < 100:
            writer.write(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
            await writer.drain()
            sent += 1
    writer.close()
    return sent


async def test_a_body_of_100_mb_is_refused_without_being_read_and_the_next_message_is_answered(tmp_path: Path) -> None:
    async with ScriptedProgram() as program:
        process, url = await server(tmp_path, program)
        before = psutil.Process(process.pid).memory_info().rss
        sent = [await pushed(url, head) for head in ("content-length: 104858600", "transfer-encoding: chunked")]
        grown = psutil.Process(process.pid).memory_info().rss - before
        odd = {"id": "\U0001f600" * 128, "chat": "房" * 128, "person": "é" * 128, "text": "List the clients"}
        assert await program.post(url, odd) == 202
        (reply,) = await program.replies(1, seconds=60)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert (reply["chat"], reply["reply_to"]) == (odd["chat"], odd["id"])
    assert "36 rows" in reply["text"]
    assert max(sent) < 16, "what the sockets hold"
    assert grown < 20_000_000
