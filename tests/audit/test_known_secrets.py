"""A secret that this process knows appears in nothing that it shows or stores, in whatever form."""

from __future__ import annotations

import base64
import html
import json
import random
import string
import textwrap
import urllib.parse
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.databases import new_url
from toolcaddie import tool
from toolcaddie.audit.redact import redact, redact_json, redact_keys, redact_text
from toolcaddie.audit.trail import TEXT_LIMIT, Trail
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.events import CallDecided, CallFinished, RunEvent, RunFinished, TextDelta, ToolsSelected
from toolcaddie.core.message import Message, RawBody
from toolcaddie.core.run import RunResult, RunState
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.guards.known_secrets import KNOWN, KnownSecrets
from toolcaddie.parts import Secrets
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.util.lazy import LazySequence

FORMS: list[Callable[[str], str]] = [
    lambda secret: f"the key is {secret}.",
    lambda secret: json.dumps({"text": secret}),
    lambda secret: json.dumps({"text": secret}, ensure_ascii=False),
    lambda secret: json.dumps({"text": json.dumps({"text": secret})}),
    lambda secret: repr(secret),
    lambda secret: html.escape(secret),
    lambda secret: "https://host/?key=" + urllib.parse.quote(secret, safe=""),
    lambda secret: "https://host/?key=" + urllib.parse.quote_plus(secret),
    lambda secret: secret.encode().hex(),
    lambda secret: base64.b64encode(secret.encode()).decode(),
    lambda secret: base64.b64encode(f"user:{secret}".encode()).decode(),
    lambda secret: base64.b64encode(f"u:{secret} and more".encode()).decode(),
    lambda secret: base64.urlsafe_b64encode(f"us:{secret}>>>".encode()).decode(),
    lambda secret: base64.encodebytes(f"a letter that takes two lines or more: {secret} {'x' * 60}".encode()).decode(),
    lambda secret: json.dumps(base64.encodebytes(f"{'x' * 50}{secret}".encode()).decode().replace("\n", "\r\n")),
    lambda secret: "\n  ".join(textwrap.wrap(base64.b64encode(f"{'x' * 50}{secret}".encode()).decode(), 20)),
]


@pytest.mark.parametrize("form", FORMS)
@given(
    secret=st.text(string.printable.strip() + "äß€ ", min_size=8, max_size=80).filter(
        lambda text: len(text.strip()) >= 8
    )
)
def test_a_secret_is_found_in_each_form(form: Callable[[str], str], secret: str) -> None:
    known = KnownSecrets([secret])
    text = known.redact(form(secret))
    assert "[redacted]" in text
    assert secret not in text


def test_short_values_are_not_searched_for() -> None:
    known = KnownSecrets(["test", "", "   short   "])
    assert known.redact("this is a test, and short") == "this is a test, and short"


def test_a_value_without_a_secret_stays_the_same_object() -> None:
    known = KnownSecrets(["correct horse battery"])
    message = Message(role="user", content="hello")
    assert known.clean(message) is message
    assert known.clean(Message(role="user", content="a correct horse battery")).text == "a [redacted]"
    assert known.clean({"a": ["correct horse battery", b"correct horse battery", 7]}) == {
        "a": ["[redacted]", b"[redacted]", 7]
    }


def test_a_secret_is_never_shown_whole_however_a_stream_is_cut() -> None:
    known, chance = KnownSecrets(["correct horse battery"]), random.Random(3)
    text = "the correct answer: correct horse battery, and a horse. correct horse"
    for _ in range(200):
        shown, withheld, rest = "", "", text
        while rest:
            size = chance.randrange(1, 12)
            piece, withheld = known.split(withheld + rest[:size])
            shown, rest = shown + piece, rest[size:]
        assert shown + withheld == "the correct answer: [redacted], and a horse. correct horse"


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """A secret that a part has read from its variable."""
    monkeypatch.setenv("SOME_SECRET", "correct-horse-battery-7")
    value = Secrets().get("SOME_SECRET")
    assert value is not None
    return value


def test_what_a_part_reads_as_a_secret_is_known(secret: str) -> None:
    assert secret not in KNOWN.redact(f"a {secret}")
    for clean in (redact_text, redact_keys, redact_json, redact):
        assert clean(f"a {secret}") == "a [redacted]"
    assert redact_json(json.dumps({"path": f"/{secret}"})) == '{"path":"/[redacted]"}'


LOOKS_LIKE_A_KEY = "sk-abcdefghijklmnop1234567890"
ARGUMENTS = {
    '{"data":{"password":"hunter2hunter2","password":""}}': '{"data":{"password":""}}',
    f'{{"data":{{"note":"{LOOKS_LIKE_A_KEY}","note":"x"}}}}': '{"data":{"note":"x"}}',
    f'{{"data":{{"{LOOKS_LIKE_A_KEY}":1,"{LOOKS_LIKE_A_KEY}2":2}}}}': '{"data":{"[redacted]":1,"[redacted] 2":2}}',
    '{"data":{"a":"\\u0063orrect-horse-battery-7","a":"x"}}': '{"data":{"a":"x"}}',
    '{"data":{"a":"\\u0063orrect-horse-battery-7"}}': '{"data":{"a":"[redacted]"}}',
    '{"data": {"a":  "plain"}}': '{"data": {"a":  "plain"}}',
}


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_json_that_says_more_than_its_value_is_recorded_as_its_value(secret: str, arguments: str) -> None:
    @tool(read_only=True)
    async def keep(data: dict[str, Any]) -> str:
        """Keep data."""
        return "kept"

    async with Database(new_url()) as database:
        provider = ScriptedProvider([call("keep", arguments), say("done")])
        result = await Runtime(provider=provider, sources=[keep], trail=Trail(database.events)).run("keep it")
        records = await database.events.events(result.run_id)
    assert {record.data["arguments"] for record in records if "arguments" in record.data} == {ARGUMENTS[arguments]}


@pytest.mark.anyio
async def test_trail_approvals_and_listeners_lack_it_and_the_tool_gets_it(secret: str) -> None:
    given_texts: list[str] = []

    @tool(destructive=True)
    async def send(text: str, note: str = "") -> str:
        given_texts.append(text)
        raise ValueError(f"cannot send {text}")

    events: list[RunEvent] = []

    async def listen(event: RunEvent) -> None:
        events.append(event)

    arguments = {"text": secret, "note": "x" * TEXT_LIMIT + secret}
    provider = ScriptedProvider([call("send", arguments), say(f"I sent {secret}.")])
    async with Database(new_url()) as database:
        runtime = Runtime(provider=provider, sources=[send], trail=Trail(database.events), documents=database.store)
        with runtime.subscribe(listen):
            paused = await runtime.run(f"send {secret}")
            (question,) = await runtime.approvals.list(Principal().tenant)
            (waiting,) = paused.state.pending
            done = await runtime.resume(paused.state.run_id, approvals={waiting.call.id: True}, reason=f"as {secret}")
        records = await database.events.events(paused.state.run_id)
        (answered,) = await runtime.approvals.list(Principal().tenant)
    assert given_texts == [secret]
    assert done.text == f"I sent {secret}."
    for shown in (records, events, question, answered):
        encoded = msgspec.json.encode(shown, enc_hook=lambda value: value.fields).decode()
        assert secret not in encoded
        assert "[redacted]" in encoded
    (intended,) = [record for record in records if record.kind == "call_intended"]
    (finished,) = [event for event in events if isinstance(event, CallFinished)]
    assert len(intended.data["arguments_sha256"]) == 64
    assert finished.result.is_error
    assert not any(isinstance(event, TextDelta) for event in events)
    assert any(isinstance(event, CallDecided) for event in events)


def test_an_answer_of_the_provider_is_cleaned_when_it_is_read_and_not_before(secret: str) -> None:
    reads: list[str] = []

    def fields() -> dict[str, Any]:
        reads.append("read")
        return {"echo": secret}

    state = RunState(run_id="r")
    body = RawBody(wire="chat", fields=fields)
    event = RunFinished(run_id="r", result=RunResult(run_id="r", status="completed", text="", state=state, raw=body))
    for clean in (KNOWN.clean(event), KNOWN.clean([event])[0]):
        assert not reads
        assert clean.result.raw is not None
        assert clean.result.raw.fields == {"echo": "[redacted]"}
        reads.clear()


def test_reasons_are_cleaned_when_they_are_read_and_not_before(secret: str) -> None:
    reads: list[str] = []

    def reasons() -> list[str]:
        reads.append("read")
        return [f"words: {secret}", "named"]

    selected = SelectedTool(tool=Tool(name="send"), reasons=LazySequence(reasons))
    event = ToolsSelected(run_id="r", selection=Selection(tools=(selected,)))
    clean = KNOWN.clean(event)
    assert not reads
    assert clean.selection.tools[0].reasons == ("words: [redacted]", "named")
    assert clean.selection.names == ("send",)


def test_an_event_without_secrets_is_not_copied(secret: str) -> None:
    event = CallDecided(
        run_id="r", call=ToolCall(id="c", name="send", arguments="{}"), decision=Decision(verdict="allow")
    )
    assert KNOWN.clean(event) is event
