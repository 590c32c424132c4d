"""`toolcaddie serve` with a telephone: a person approves the call, and the service reports to the server how it went."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.databases import database_url
from tests.doors.processes import Process, serving
from toolcaddie.core.control import Principal
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedTwilio, ScriptedUpstream, call, say
from toolcaddie.testing.twilio import RungCall
from toolcaddie.tools.phone.calls import CallRow

pytestmark = pytest.mark.anyio

ANN, MIA = Principal(id="ann"), Principal(id="mia")
NUMBER = "+525587654321"
SETTINGS = """
database_url = "{database}"

[[source]]
type = "phone"
from_number = "+525512345678"
url = "{url}"
report_to = "https://bots.example.com/telephony/{name}?office=1"
prefix = "office"
required = false
"""


def write(home: Path, twilio: ScriptedTwilio, name: str = "calls") -> None:
    settings = SETTINGS.format(database=database_url(home / "data.sqlite"), url=twilio.url, name=name)
    (home / "toolcaddie.toml").write_text(settings)


async def keys_of(home: Path) -> Mapping[str, str]:
    async with Database(database_url(home / "data.sqlite")) as database:
        return {person.id: (await database.keys.add(person.id, person))[1] for person in (ANN, MIA)}


class Office:
    """People with keys of a server."""

    def __init__(self, server: Process, keys: Mapping[str, str], http: aiohttp.ClientSession) -> None:
        self.url = server.base_url.removesuffix("/v1")
        self._keys = keys
        self._http = http
        self._history: list[dict[str, str]] = []

    async def say(self, text: str) -> str:
        """Sends a message in Ann's conversation, and returns the answer."""
        self._history.append({"role": "user", "content": text})
        body = {"model": "gpt-test", "messages": self._history}
        answer = (await self.ask("ann", "POST", "/v1/chat/completions", body))["choices"][0]["message"]["content"]
        self._history.append({"role": "assistant", "content": answer})
        return str(answer)

    async def ask(self, person: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self._keys[person]}"}
        async with self._http.request(method, f"{self.url}{path}", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def status(self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> int:
        async with self._http.post(f"{self.url}{path}", data=form, headers=headers) as answer:
            return answer.status


async def approved_call(office: Office, twilio: ScriptedTwilio) -> RungCall:
    """A call that Ann asks for and Mia approves."""
    assert "needs a person's approval" in await office.say("Tell the shop that I come at nine")
    assert not twilio.rung
    ((question,),) = [run["approvals"] for run in (await office.ask("mia", "GET", "/approvals"))["data"]]
    assert NUMBER in question["preview"]
    assert question["arguments"]["contact"] == NUMBER
    await office.ask("mia", "POST", f"/approvals/{question['id']}", {"approved": True})
    assert await office.say("Go on") == "I called."
    (rung,) = twilio.rung
    return rung


async def row_of(home: Path) -> CallRow:
    async with Database(database_url(home / "data.sqlite")) as database:
        (document,) = (await database.store.scan("phone-call")).documents
    return msgspec.json.decode(document.value, type=CallRow)


async def test_an_approved_call_rings_once_and_any_worker_takes_signed_reports_of_it(tmp_path: Path) -> None:
    arguments = {"action": "call", "contact": NUMBER, "message": "At nine."}
    script = [call("office__phone_call", arguments), say("I called.")]
    async with ScriptedTwilio() as twilio, ScriptedUpstream(script) as upstream, aiohttp.ClientSession() as http:
        write(tmp_path, twilio)
        keys = await keys_of(tmp_path)
        words = ("--upstream", upstream.base_url, "--upstream-key-env", "OPENAI_API_KEY", "--workers", "2")
        with serving(tmp_path, *words, **twilio.environ) as server:
            office = Office(server, keys, http)
            rung = await approved_call(office, twilio)
            assert (rung.to, rung.text) == (NUMBER, "At nine.")
            address = rung.report_to.removeprefix("https://bots.example.com")
            form = {"AccountSid": twilio.account, "CallSid": rung.sid, "CallStatus": "completed"}
            other = {"X-Twilio-Signature": twilio.signature(f"{office.url}{address}", form)}
            assert await office.status(address, form) == 403
            assert await office.status(address, form, other) == 403
            assert await office.status("/telephony/other", form) == 404
            for status, seconds in (("ringing", None), ("completed", 12), ("in-progress", None)):
                assert await twilio.report(rung, status, seconds=seconds, through=office.url) == 204
    row = await row_of(tmp_path)
    assert (row.status, row.id, row.report, row.seconds) == ("placed", rung.sid, "completed", 12)
    assert not upstream.refusals


async def test_after_a_reload_the_reports_go_to_the_new_address(tmp_path: Path) -> None:
    async with ScriptedTwilio() as twilio, ScriptedUpstream([]) as upstream, aiohttp.ClientSession() as http:
        write(tmp_path, twilio)
        with serving(tmp_path, "--upstream", upstream.base_url, **twilio.environ) as server:
            office = Office(server, {}, http)
            assert await office.status("/telephony/calls?office=1", {"a": "b"}) == 403
            write(tmp_path, twilio, "other")
            server.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(30):
                while await office.status("/telephony/other?office=1", {"a": "b"}) != 403:  # noqa: ASYNC110  no event
                    await asyncio.sleep(0.02)
            assert await office.status("/telephony/calls?office=1", {"a": "b"}) == 404
