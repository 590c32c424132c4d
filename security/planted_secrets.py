"""Plants secrets in everything that a run sees, and searches all that is stored or shown for them.

The secrets are values of variables that the settings name: the key of the model, of a fallback, of the trail, the password of the
database, and others. They appear in messages, in calls and their arguments, in results, exceptions, answers of the model and of
its server, and in what people write when they answer a question: in plain text and in base64, URLs, JSON and JSON within JSON.
Then they are searched for, by another code than the one that removes them.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import os
import random
import sqlite3
import string
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import msgspec

from security.goals import Goal, none_of
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.settings import AuditSettings, FallbackSettings, Settings, Upstream
from toolcaddie.audit.redact import redact_keys
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.events import ClientCallDelta, RunEvent, RunFinished, TextDelta
from toolcaddie.doors.cli.failure import failure_of, print_failure
from toolcaddie.doors.gateway.problems import problem_of
from toolcaddie.telemetry.logs import configure_logging
from toolcaddie.testing import ScriptedUpstream, call, calls, refuse, say

PLACES = ("trail", "logs", "errors", "events", "approvals")
_ALPHABETS = (
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits + "-_",
    string.ascii_letters + string.digits + "+/=",
    string.ascii_letters + string.digits + "!#$%&*()?<>\"'\\",
    string.ascii_letters + "äöüß€",
)
_PIECE = 16
"""Number of characters of base64 that show a secret inside of a longer text."""


def searched(count: int) -> Sequence[Goal]:
    """Plants so many secrets and returns a goal for each place in which they must not be."""
    chance = random.Random(11)
    secrets = [_secret(chance) for _ in range(count)]
    variables = {f"PLANTED_{number}": secret for number, secret in enumerate(secrets)}
    with tempfile.TemporaryDirectory(prefix="security-") as folder, _set(variables):
        shown, runs = asyncio.run(_played(Path(folder), secrets))
    exposed = {place: [secret for secret in secrets if _is_in(secret, shown[place])] for place in PLACES}
    markers = [place for place in PLACES if "[redacted]" not in shown[place]]
    return [
        *(none_of(f"planted secrets found in {place}", len(exposed[place]), count) for place in PLACES),
        Goal(
            name="places in which secrets were planted and removed",
            figure=f"{len(PLACES) - len(markers)} of {len(PLACES)}, {runs} runs",
            goal="all",
            met=not markers,
        ),
    ]


def _secret(chance: random.Random) -> str:
    alphabet = chance.choice(_ALPHABETS)
    return "".join(chance.choice(alphabet) for _ in range(chance.randrange(12, 64)))


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


async def _played(folder: Path, secrets: Sequence[str]) -> tuple[Mapping[str, str], int]:
    """Runs every scenario with every secret. Returns the text of each place, and the number of runs."""
    file = folder / "planted.sqlite"
    events: list[bytes] = []
    errors: list[str] = []
    log = io.StringIO()
    names = [f"PLANTED_{number}" for number in range(len(secrets))]
    runs = 0
    async with ScriptedUpstream(_answer, api_key=None) as upstream:
        settings = Settings(
            catalogs=("python:security.leaks",),
            database_url=f"sqlite:///{file}",
            model="gpt-test",
            upstream=Upstream(url=upstream.base_url, key_env=names[0], attempts=1),
            fallback=(FallbackSettings(model="openai:gpt-other", url=upstream.base_url, key_env=names[1]),),
            audit=AuditSettings(redact_env=tuple(names)),
        )
        with redirect_stderr(log):
            configure_logging(json=True, level="debug", redact=redact_keys)
            async with assembled(settings) as parts:
                with parts.runtime.subscribe(_listener(events)):
                    for secret in secrets:
                        runs += await _play(parts, secret, events, errors)
                approvals = await parts.runtime.approvals.list(Principal().tenant, limit=10_000)
    _unconfigure()
    shown = {
        "trail": _rows(file),
        "logs": log.getvalue(),
        "errors": "\n".join(errors),
        "events": b"\n".join(events).decode(),
        "approvals": msgspec.json.encode(approvals).decode() + _documents(file),
    }
    return shown, runs


async def _play(parts: Assembled, secret: str, events: list[bytes], errors: list[str]) -> int:
    """Runs the scenarios with one secret. Returns the number of runs."""
    scenarios = ("echo", "encoded", "long", "break", "refuse", "send")
    for scenario in scenarios:
        try:
            async for event in parts.runtime.stream(f"{scenario} {secret}"):
                if not isinstance(event, TextDelta | ClientCallDelta):  # the answer itself, on its way to the caller
                    events.append(_encoded(event))
            run_id = event.run_id
            if scenario == "send":
                answers = [
                    item for item in await parts.runtime.approvals.list(Principal().tenant) if item.run_id == run_id
                ]
                approved = {item.call_id: True for item in answers if item.status == "open"}
                await parts.runtime.resume(run_id, approvals=approved, reason=f"because {secret}")
        except ToolcaddieError as error:
            errors += [str(error), str(getattr(error, "body", b"")), problem_of(error, own_upstream_key=True).message]
            shown = io.StringIO()
            with redirect_stderr(shown):
                print_failure(failure_of(error), as_json=True)
            errors.append(shown.getvalue())
    return len(scenarios)


def _listener(events: list[bytes]) -> Any:
    """Returns a subscriber that keeps all events, and the texts of the streamed answers in one piece."""
    answers: dict[str, str] = {}

    async def listen(event: RunEvent) -> None:
        if isinstance(event, TextDelta):
            answers[event.run_id] = answers.get(event.run_id, "") + event.text
        elif isinstance(event, RunFinished):
            events.append(answers.pop(event.run_id, "").encode())
        events.append(_encoded(event))

    return listen


def _encoded(event: RunEvent) -> bytes:
    return msgspec.json.encode(event, enc_hook=lambda value: value.fields)


def _answer(body: Mapping[str, Any]) -> Any:
    """Returns the answer of the model, which repeats the secret of the message."""
    messages = body["messages"]
    text = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    scenario, _, secret = text.partition(" ")
    if any(message["role"] == "tool" for message in messages):
        return say(f"I used {secret} for it.")
    match scenario:
        case "echo":
            return call("echo_text", {"text": secret})
        case "encoded":
            return calls(
                *(("echo_text", {"text": form, "note": f"{number}"}) for number, form in enumerate(_forms(secret)))
            )
        case "long":
            return call("echo_text", {"text": f"{'x' * 3_985}{secret}", "note": f"{'y' * 5_000}{secret}"})
        case "break":
            return call("break_with", {"text": secret})
        case "send":
            return call("send_text", {"text": secret})
    return refuse(401, f"Incorrect API key provided: {secret}")


def _forms(secret: str) -> Sequence[str]:
    return (
        base64.b64encode(secret.encode()).decode(),
        base64.b64encode(f"user:{secret}@host".encode()).decode(),
        base64.urlsafe_b64encode(f"me:{secret}".encode()).decode(),
        "https://host/path?key=" + urllib.parse.quote(secret, safe=""),
        json.dumps({"inner": json.dumps({"password": secret})}),
        secret.encode().hex(),
    )


def _rows(file: Path) -> str:
    with sqlite3.connect(file) as connection:
        rows = connection.execute("select run_id, kind, data from events").fetchall()
        rows += connection.execute("select run_id, message, principal from runs").fetchall()
    connection.close()
    return "\n".join(" ".join(row) for row in rows)


def _documents(file: Path) -> str:
    with sqlite3.connect(file) as connection:
        values = connection.execute("select value from documents where kind like 'approval%'").fetchall()
    connection.close()
    return "\n".join(bytes(value).decode("utf-8", "replace") for (value,) in values)


def _is_in(secret: str, text: str) -> bool:
    """Returns True if a secret can be read from a text."""
    raw = secret.encode()
    escaped = json.dumps(secret)[1:-1]
    plain = (
        secret,
        escaped,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(escaped)[1:-1],
        urllib.parse.quote(secret, safe=""),
        raw.hex(),
    )
    return any(form in text for form in plain) or any(piece in text for piece in _base64_pieces(raw))


def _base64_pieces(raw: bytes) -> Iterator[str]:
    """Yields a piece from the middle of the secret's base64, for each place at which the secret may begin."""
    for start in range(3):
        middle = raw[start : start + (len(raw) - start) // 3 * 3]
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            if len(piece := encode(middle).decode()[:_PIECE]) == _PIECE:
                yield piece


def _unconfigure() -> None:
    """Ends the logging of the attack, whose stream is closed."""
    logging.getLogger().handlers[:] = [logging.StreamHandler(sys.stderr)]
    logging.getLogger().setLevel(logging.WARNING)
