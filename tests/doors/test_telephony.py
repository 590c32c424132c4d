"""Twilio reports to the door how calls went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.databases import database_url
from tests.doors.serving import served
from tests.doors.talking import Later
from toolcaddie import Runtime
from toolcaddie.core.control import Principal
from toolcaddie.doors.telephony import MOST_BYTES, TelephonyDoor
from toolcaddie.parts import Parts, Secrets
from toolcaddie.registry import Registry
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, ScriptedTwilio

pytestmark = pytest.mark.anyio

ANN = "+525587654321"


async def status_of(url: str, body: Any, headers: dict[str, str] | None = None, method: str = "POST") -> int:
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body, headers=headers) as response:
        assert await response.read() == b""
        return response.status


async def test_a_signed_report_is_taken_and_everything_else_is_refused(tmp_path: Path) -> None:
    later = Later()
    async with (
        served(later) as url,
        ScriptedTwilio() as twilio,
        Database(database_url(tmp_path / "db")) as database,
    ):
        address = f"{url}/telephony/calls"
        config = {"from_number": "+525512345678", "allowed_numbers": [ANN], "url": twilio.url, "report_to": address}
        parts = Parts(store=database.store, secrets=Secrets(twilio.environ))
        phone = Registry().make("source", "phone", config, parts)
        async with Runtime(provider=ScriptedProvider([]), sources=[phone], documents=database.store) as runtime:
            later.app = TelephonyDoor(runtime.source)
            call = {"action": "call", "contact": ANN, "message": "The library opens at nine.", "idempotency_key": "a"}
            await runtime.call("phone_call", call, principal=Principal(id="ann", bot="clerk"))
            rung = twilio.rung[0]
            assert rung.report_to.startswith(f"{address}?call=")
            assert await status_of(rung.report_to, {"CallSid": rung.sid, "CallStatus": "completed"}) == 403
            forged = {"X-Twilio-Signature": twilio.signature(rung.report_to, {"CallSid": rung.sid})}
            assert await status_of(rung.report_to, {"CallSid": "another"}, forged) == 403
            assert await status_of(rung.report_to, b"x=" + b"x" * MOST_BYTES) == 413
            assert await status_of(rung.report_to, b"a=1&a=2") == 400
            assert await status_of(rung.report_to, None, method="GET") == 405
            assert await status_of(f"{url}/telephony/other", {"CallSid": rung.sid}) == 404
            assert await twilio.report(rung, "completed", seconds=12) == 204
            again = await runtime.call("phone_call", call, principal=Principal(id="ann", bot="clerk"))
    assert "It is completed after 12 s." in again.text, json.dumps(again.text)
