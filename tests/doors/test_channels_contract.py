"""The shipped channels keep the contract of the socket, whatever their service does."""

from __future__ import annotations

from typing import Any

import pytest

from toolcaddie.doors.channels.telegram import telegram
from toolcaddie.doors.channels.webhook import webhook
from toolcaddie.doors.channels.whatsapp import whatsapp
from toolcaddie.parts import Parts, Secrets
from toolcaddie.testing.part_contracts import CHANNEL, Subject
from toolcaddie.testing.telegram import ScriptedTelegram
from toolcaddie.testing.webhooks import ScriptedProgram
from toolcaddie.testing.whatsapp import ScriptedWhatsApp

pytestmark = pytest.mark.anyio

each_check = pytest.mark.parametrize("check", CHANNEL, ids=str)


@each_check
@pytest.mark.parametrize("webhook_url", ["", "http://127.0.0.1:9"])
async def test_telegram_keeps_the_contract(check: Any, webhook_url: str) -> None:
    async with ScriptedTelegram() as server:
        parts = Parts(secrets=Secrets({"TELEGRAM_BOT_TOKEN": server.token}))
        make = lambda: telegram(url=server.url, webhook_url=webhook_url, parts=parts)  # noqa: E731
        await check(Subject(name="telegram", make=make))


@each_check
async def test_whatsapp_keeps_the_contract(check: Any) -> None:
    async with ScriptedWhatsApp() as server:
        parts = Parts(secrets=Secrets(server.secrets))
        make = lambda: whatsapp(url=server.url, phone_number_id=server.number, parts=parts)  # noqa: E731
        await check(Subject(name="whatsapp", make=make))


@each_check
async def test_webhook_keeps_the_contract(check: Any) -> None:
    async with ScriptedProgram() as program:
        parts = Parts(secrets=Secrets({"HOOK_SECRET": program.secret}))
        make = lambda: webhook(secret_env="HOOK_SECRET", reply_url=program.url, parts=parts)  # noqa: E731
        await check(Subject(name="webhook", make=make))


@each_check
async def test_a_channel_whose_service_is_gone_keeps_the_contract(check: Any) -> None:
    parts = Parts(secrets=Secrets({"TELEGRAM_BOT_TOKEN": "1:token"}))
    await check(Subject(name="telegram", make=lambda: telegram(url="http://127.0.0.1:9", parts=parts)))
