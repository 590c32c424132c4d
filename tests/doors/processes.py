"""`toolcaddie serve` as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai

from tests.databases import home_environment

PATIENCE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    process: subprocess.Popen[str]
    base_url: str
    log_file: Path

    def log(self) -> str:
        """Returns what the server has logged so far."""
        return self.log_file.read_text()

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(**{"base_url": self.base_url, "api_key": "none", "max_retries": 0, **options})

    def cut(self) -> int:
        """A first signal asks for an end, a second one for an end at once.

        The second one follows when the first one has closed the port: two signals that wait for a process at the same time
        reach it in any order, and SIGTERM behind SIGINT hurries nobody.
        """
        self.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while self._listens():
            assert time.monotonic() < deadline, "the server does not stop"
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def _listens(self) -> bool:
        url = urlsplit(self.base_url)
        try:
            socket.create_connection((url.hostname or "", url.port or 0), PATIENCE).close()
        except ConnectionError:
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(home: Path, *words: str, **environ: str) -> Iterator[Process]:
    """A server in `home` on a free port; ready when it has said so."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCADDIE_")}
    log_file = home / "server.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "toolcaddie", "serve", "--port", "0", "--json", *words],
            cwd=home,
            env={**clean, "OPENAI_API_KEY": "test-key", "PYTHONPATH": str(home), **home_environment(home), **environ},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        told = ""
        while not told.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, f"the server ended: {told}"
            told += line
        yield Process(process=process, base_url=json.loads(told)["base_url"], log_file=log_file)
    finally:
        process.kill()
        process.communicate()
