"""People are told about questions: signed requests to a real server, repeated until one is accepted."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web

from toolcaddie.app.informing import webhooks_of
from toolcaddie.app.settings import ApprovalSettings
from toolcaddie.audit.redact import redact
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.telemetry.webhook import KIND, ApprovalWebhook, Notice
from toolcaddie.testing import ScriptedProvider, calls, say

pytestmark = pytest.mark.anyio

KEY = b"a secret of thirty-two bytes len"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@tool(destructive=True)
def remove(name: str, password: str = "") -> str:
    """Remove somebody."""
    return f"removed {name}"


@dataclass
class Receiver:
    """A server that answers with these statuses, the last one for ever."""

    statuses: list[int]
    address: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self, request: web.Request) -> web.Response:
        self.requests.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status < 300:
            self.arrived.set()
        return web.Response(status=status)


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    here = Receiver(statuses=list(statuses))
    app = web.Application()
    app.router.add_post("/questions", here.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    here.address = f"http://127.0.0.1:{runner.addresses[0][1]}/questions"
    try:
        yield here
    finally:
        await runner.cleanup()


async def asked(webhook: ApprovalWebhook, *names: str) -> str:
    """Runs until questions wait, and returns the id of the run."""
    script = [calls(*(("remove", {"name": name, "password": "hunter2-hunter2"}) for name in names)), say("done")]
    runtime = Runtime(provider=ScriptedProvider(script), sources=[remove], sinks=[webhook])
    return (await runtime.run("remove them", principal=Principal(id="ann", tenant="acme"))).run_id


def webhook_to(address: str, store: Store, secret: str = SECRET) -> ApprovalWebhook:
    return ApprovalWebhook(address, secret, store, redact=redact, waits=(0.01, 0.01))


async def settled(store: Store) -> None:
    """Waits until no notice is stored any more."""
    async with asyncio.timeout(10):
        while (await store.scan(KIND)).documents:  # noqa: ASYNC110  the store has no event for it
            await asyncio.sleep(0.005)


async def test_the_questions_of_a_run_are_one_signed_request_without_secrets() -> None:
    store = MemoryStore()
    async with receiver(200) as people:
        webhook = webhook_to(people.address, store)
        run_id = await asked(webhook, "john", "jane")
        await asyncio.wait_for(people.arrived.wait(), 10)
        await settled(store)
        await webhook.close()
    ((headers, body),) = people.requests
    value = msgspec.json.decode(body)
    assert value["type"] == "approvals.waiting"
    data = value["data"]
    assert (data["run_id"], data["asked_by"], data["tenant"]) == (run_id, "ann", "acme")
    assert [each["arguments"]["name"] for each in data["approvals"]] == ["john", "jane"]
    assert b"hunter2" not in body
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


async def test_a_refused_request_is_repeated_with_the_same_id() -> None:
    store = MemoryStore()
    async with receiver(500, 302, 204) as people:
        webhook = webhook_to(people.address, store)
        await asked(webhook, "john")
        await asyncio.wait_for(people.arrived.wait(), 10)
        await settled(store)
        await webhook.close()
    assert len(people.requests) == 3
    assert len({headers["webhook-id"] for headers, _ in people.requests}) == 1


async def test_what_one_process_could_not_send_the_next_one_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with receiver(500) as people:
        webhook = webhook_to(people.address, store)
        await asked(webhook, "john")
        await webhook.close()
    (document,) = (await store.scan(KIND)).documents
    notice = msgspec.json.decode(document.value, type=Notice)
    old = Notice(id=notice.id, at=notice.at - 3_600, body=notice.body)
    await store.put(KIND, notice.id, msgspec.json.encode(old))
    async with receiver(200) as people:
        webhook = webhook_to(people.address, store)
        await webhook.open()
        await asyncio.wait_for(people.arrived.wait(), 10)
        await settled(store)
        await webhook.close()
    assert people.requests[0][0]["webhook-id"] == notice.id


async def test_a_run_does_not_wait_for_a_webhook_that_is_down() -> None:
    store = MemoryStore()
    webhook = webhook_to("http://127.0.0.1:1/questions", store)
    assert await asked(webhook, "john")
    await webhook.close()
    assert len((await store.scan(KIND)).documents) == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"webhook": "ftp://host/x", "webhook_secret_env": "HOOK"}, "must begin with http:// or https://"),
        ({"webhook": "http://host/x"}, "approvals.webhook needs a secret"),
        ({"webhook": "http://host/x", "webhook_secret_env": "NOT_SET"}, "NOT_SET"),
        ({"webhook": "http://host/x", "webhook_secret_env": "HOOK"}, "the rest is no base64"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused_at_the_start(
    table: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "whsec_!")
    with pytest.raises(ConfigError, match=message):
        webhooks_of(ApprovalSettings(**table), MemoryStore())
