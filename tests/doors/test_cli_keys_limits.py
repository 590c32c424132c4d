"""Limits of API keys on the command line, and in a server with several processes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.databases import home_url
from tests.doors.commandline import CommandLine
from tests.doors.processes import Process, serving
from tests.doors.test_workers import until
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import BILLION, KeyUsage
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedUpstream, say

TODAY = datetime.now(UTC).date()


def limits_of(toolcaddie: CommandLine, name: str = "laptop") -> Any:
    (key,) = [key for key in toolcaddie.json("keys", "list")["keys"] if key["name"] == name]
    return {limit: value for limit, value in key["limits"]["in_force"].items() if value is not None}


def test_a_key_gets_limits_when_it_is_made_and_later(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("keys", "add", "laptop", "--requests-per-minute", "60")
    shown = toolcaddie.ok("keys", "limit", "laptop", "--dollars-per-day", "5.5", "--tokens-per-minute", "100000")
    assert shown == "laptop: 60 requests per minute, 100,000 tokens per minute, 5.5 dollars per day\n"
    assert toolcaddie.ok("keys", "limit", "laptop") == shown
    assert "60 requests per minute" in toolcaddie.ok("keys", "list")
    large = toolcaddie.ok("keys", "limit", "laptop", "--tokens-per-day", "2000000", "--dollars-per-day", "0.1")
    assert large.endswith("2,000,000 tokens per day, 0.1 dollars per day\n")
    toolcaddie.ok("keys", "limit", "laptop", "--tokens-per-day", "default", "--dollars-per-day", "5.5")
    assert limits_of(toolcaddie) == {"requests_per_minute": 60, "tokens_per_minute": 100_000, "dollars_per_day": 5.5}


def test_a_key_without_limits_of_its_own_has_those_of_the_settings(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text("[key_limits]\nrequests_per_day = 1000\ndollars_per_day = 2.0\n")
    toolcaddie.ok("keys", "add", "laptop", "--requests-per-day", "50")
    assert limits_of(toolcaddie) == {"requests_per_day": 50, "dollars_per_day": 2.0}
    toolcaddie.ok("keys", "limit", "laptop", "--dollars-per-day", "none")
    assert limits_of(toolcaddie) == {"requests_per_day": 50}
    toolcaddie.ok("keys", "limit", "laptop", "--requests-per-day", "default", "--dollars-per-day", "default")
    assert limits_of(toolcaddie) == {"requests_per_day": 1_000, "dollars_per_day": 2.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", "--tokens-per-day", "1"], "there is no key 'nobody'; `toolcaddie keys list` shows them"),
        (["laptop", "--tokens-per-day", "0"], "must be more than 0; write none for no limit"),
        (["laptop", "--tokens-per-day", "many"], "'many' is no number; write a number, none or default"),
        (["laptop", "--tokens-per-day", "1.5"], "'1.5' is no number"),
    ],
)
def test_a_wrong_limit_is_named(toolcaddie: CommandLine, words: list[str], message: str) -> None:
    toolcaddie.ok("keys", "add", "laptop")
    assert message in toolcaddie.refused("keys", "limit", *words)
    assert limits_of(toolcaddie) == {}


async def _used() -> None:
    async with Database(home_url(Path.cwd())) as database:
        for name in ("laptop", "phone"):
            key, _ = await database.keys.add(name, Principal(id=name))
            for age, model, money in ((0, "openai:gpt-x", 3 * BILLION // 2), (0, "own:m", 0), (9, "openai:gpt-x", 5)):
                day = (TODAY - timedelta(days=age)).isoformat()
                used = KeyUsage(key_id=key.id, day=day, model=model, requests=2, input_tokens=1_000, output_tokens=10)
                unpriced = {"unpriced": 2, "estimated": 1} if model == "own:m" else {}
                database.meter.record(KeyUsage(**{**vars_of(used), **unpriced, "money": money}))


def vars_of(usage: KeyUsage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in usage.__dataclass_fields__}


def test_the_use_of_keys_is_shown_by_day_and_model(toolcaddie: CommandLine) -> None:
    asyncio.run(_used())
    shown = toolcaddie("usage", "keys", "--days", "7", "--key", "laptop")
    assert "1.5000" in shown.stdout
    assert "unknown" in shown.stdout  # the dollars of a model without a price
    assert "phone" not in shown.stdout
    assert "4 requests, 2,020 tokens, 1.5000 dollars" in shown.stderr
    assert "2 of these requests went to a model without a known price" in shown.stderr
    assert "1 of these requests have estimated tokens" in shown.stderr
    assert len(toolcaddie.json("usage", "keys")["usage"]) == 6
    assert "there is no key 'nobody'" in toolcaddie.refused("usage", "keys", "--key", "nobody")


def test_unused_keys_are_said_to_be_unused(toolcaddie: CommandLine) -> None:
    assert "no key has been used in this time" in toolcaddie("usage", "keys").stderr


def _answers(server: Process, secret: str, number: int) -> int:
    """Sends requests over connections of their own, so that any process may get them; returns the number of answers."""
    answers = 0
    for _ in range(number):
        with server.client(api_key=secret) as client, contextlib.suppress(openai.RateLimitError):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
            answers += 1
    return answers


def test_all_processes_of_a_server_share_a_limit_which_sighup_and_the_command_change(
    toolcaddie: CommandLine, tmp_path: Path
) -> None:
    home = toolcaddie.home
    settings = "[key_limits]\nrequests_per_day = {}\n"
    (home / "toolcaddie.toml").write_text(settings.format(5))
    secret = toolcaddie.json("keys", "add", "laptop")["secret"]
    with (
        ScriptedUpstream([say("hello")] * 30) as upstream,
        serving(home, "--upstream", upstream.base_url, "--workers", "2") as server,
    ):
        assert _answers(server, secret, 8) == 5
        (home / "toolcaddie.toml").write_text(settings.format(7))
        server.process.send_signal(signal.SIGHUP)
        answers: list[int] = []
        until(lambda: sum(answers) >= 2 or bool(answers.append(_answers(server, secret, 2))))
        assert (sum(answers), _answers(server, secret, 4)) == (2, 0)
        toolcaddie.ok("keys", "limit", "laptop", "--requests-per-day", "8")
        until(lambda: _answers(server, secret, 1) == 1)
        assert _answers(server, secret, 3) == 0
