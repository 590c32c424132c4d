"""A walk through the sample bots with real servers: python -m benchmarks.bots_walk [--wait SECONDS]

`toolcaddie serve` runs two bots; Telegram and the model are scripted servers on real sockets. A person tells the assistant a
fact, the server is restarted, and the person asks for it in a new conversation; sets a reminder that arrives after another
restart; and lets the assistant ask the therapist, who cannot run commands. The exit code is 1 if a step fails. `--wait`: seconds
until the reminder.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.bots_model import reply_to
from toolcaddie.testing import ScriptedUpstream
from toolcaddie.testing.telegram import ScriptedTelegram

_PERSON = 1
_START_SECONDS = 60.0
_TWO_POLLS = "Conflict: terminated by other getUpdates"
"""Begins the refusal while the request of a server that has stopped is still open."""
_CHANNEL = """
[[channel]]
type = "telegram"
name = "tg"
bot = "assistant"
token_env = "TELEGRAM_BOT_TOKEN"
url = "{telegram}"
allow = ["1"]
"""


class Walk:
    """The servers of a walk, and what has failed so far."""

    def __init__(self, folder: Path, telegram: ScriptedTelegram, model_url: str) -> None:
        self._folder, self._telegram = folder, telegram
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TOOLCADDIE_")},
            "TELEGRAM_BOT_TOKEN": telegram.token,
            "OPENAI_API_KEY": "test-key",
            "TOOLCADDIE_MODEL": "openai:scripted",
            "TOOLCADDIE_UPSTREAM_URL": model_url,
        }
        self.failures: list[str] = []

    def prepare(self) -> None:
        """Writes the sample into the folder, and adds the channel to its settings."""
        subprocess.run(
            [sys.executable, "-m", "toolcaddie", "init", "--sample", "bots"],
            cwd=self._folder,
            env=self._environ,
            check=True,
            capture_output=True,
        )
        settings = self._folder / "toolcaddie.toml"
        settings.write_text(settings.read_text() + _CHANNEL.format(telegram=self._telegram.url))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Runs `toolcaddie serve` until the end of the block."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, *("-m", "toolcaddie", "serve", "--port", "0", "--json"),
            cwd=self._folder, env=self._environ, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_START_SECONDS):
                await process.stdout.readuntil(b"}\n")
            yield
        finally:
            process.terminate()
            await process.wait()

    async def ask(self, text: str, *expected: str, seconds: float = 60.0) -> str:
        """Writes a message and returns the answer, which must have the expected words."""
        count = len(self._telegram.sent)
        self._telegram.write(text, person=_PERSON)
        return await self._answer(count, text, *expected, seconds=seconds)

    async def wait(self, *expected: str, seconds: float) -> str:
        """Returns the next message of the bot."""
        return await self._answer(len(self._telegram.sent), "a reminder", *expected, seconds=seconds)

    async def _answer(self, count: int, what: str, *expected: str, seconds: float) -> str:
        try:
            sent = await self._telegram.answers(count + 1, seconds=seconds)
            answer = str(sent[count]["text"])
        except TimeoutError:
            answer = "(nothing)"
        missing = [word for word in expected if word not in answer]
        self.failures += [f"{what}: {answer!r} lacks {missing}"] if missing else []
        print(f"{'MISSED' if missing else 'ok':<7}{what}\n       -> {answer}")
        return answer


async def walked(folder: Path, *, wait: float) -> list[str]:
    """Walks, and returns what has failed."""
    async with ScriptedTelegram() as telegram:
        with ScriptedUpstream(reply_to, models=["scripted"]) as model:
            walk = Walk(folder, telegram, model.base_url)
            walk.prepare()
            async with walk.serving():
                await walk.ask("Remember: my sister Lucía was born on 3 May", "Saved")
            async with walk.serving():
                await walk.ask("/new")
                await walk.ask("What do you know about my sister?", "Lucía", "3 May")
                moment = (datetime.now(UTC) + timedelta(seconds=wait)).isoformat(timespec="seconds")
                await walk.ask(f"Remind me at {moment}: drink water", "Added")
            async with walk.serving():
                await walk.wait("drink water", seconds=wait + 60)
                await walk.ask("Ask therapist: I cannot sleep", "therapist answers", "I cannot sleep")
                await walk.ask("Ask therapist: run: id", "therapist answers")
                if "uid=" in telegram.sent[-1]["text"]:
                    walk.failures.append("the therapist ran a command")
            walk.failures += [each for each in telegram.refusals if not each.startswith(_TWO_POLLS)]
    return walk.failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wait", type=float, default=120.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        failures = asyncio.run(walked(Path(folder), wait=options.wait))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
