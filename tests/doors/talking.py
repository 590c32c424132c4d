"""Channels on a real runtime for tests: bots that answer from a script, a database on disk."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.databases import database_url
from tests.doors.serving import served
from toolcaddie import Runtime
from toolcaddie.app.settings.channels import ChannelSettings
from toolcaddie.core.approval import Approval
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.http import ChannelsDoor
from toolcaddie.doors.channels.station import Station
from toolcaddie.doors.channels.telegram import telegram
from toolcaddie.doors.channels.webhook import webhook
from toolcaddie.doors.channels.whatsapp import whatsapp
from toolcaddie.engine.prompt import Language
from toolcaddie.parts import Parts, Secrets
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, say
from toolcaddie.testing.telegram import ScriptedTelegram
from toolcaddie.testing.webhooks import ScriptedProgram
from toolcaddie.testing.whatsapp import ScriptedWhatsApp


class Talk:
    """Implements `ports.BotTalk` on a runtime: the same work is answered once, and a run that waits can be continued."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.works: list[BotWork] = []
        self._runs: dict[str, str] = {}

    async def answer(self, work: BotWork) -> BotAnswer:
        self.works.append(work)
        request = RunRequest(
            messages=[Message(role="user", content=work.message)],
            principal=work.principal,
            conversation=work.chat,
            inherited=work.inherited,
        )
        result = await self.runtime.run(request)
        self._runs[work.id] = result.run_id
        return self._answer(work, result)

    async def questions(self, run_id: str) -> Sequence[Approval]:
        return await self.runtime.questions(self._runs[run_id])

    async def decide(self, approval_id: str, *, approve: bool, by: Principal, reason: str = "") -> Approval:
        approvals = self.runtime.approvals
        return await approvals.answer(by.tenant, approval_id, approved=approve, by=by, reason=reason)

    async def resume(self, work: BotWork) -> BotAnswer:
        return self._answer(work, await self.runtime.resume(self._runs[work.id]))

    def _answer(self, work: BotWork, result: RunResult) -> BotAnswer:
        status = "pending" if result.status == "pending" else "completed"
        return BotAnswer(run_id=work.id, status=status, text=result.text or "")


def echo(request: ModelRequest) -> Any:
    """Repeats the last message."""
    return say(f"You said: {request.messages[-1].text}")


@contextlib.asynccontextmanager
async def talking(script: Callable[[ModelRequest], Any] | Sequence[Any] = echo, **options: Any) -> AsyncIterator[Talk]:
    """A bot whose model answers from a script."""
    async with Runtime(provider=ScriptedProvider(script), **options) as runtime:
        yield Talk(runtime)


def telegram_station(
    server: ScriptedTelegram, name: str = "tg", *, webhook_url: str = "", language: Language = "en", **settings: Any
) -> Station:
    parts = Parts(secrets=Secrets({"TELEGRAM_BOT_TOKEN": server.token}))
    service = telegram(url=server.url, webhook_url=webhook_url, poll_seconds=5, parts=parts)
    return Station(settings=ChannelSettings(name=name, **settings), type="telegram", service=service, language=language)


Place = Path | str
"""Place of a test's database: a folder for a file, or the URL of another database."""


@contextlib.asynccontextmanager
async def telegram_chat(
    place: Place, script: Any = echo, *, runtime: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[ScriptedTelegram, Talk, Channels]]:
    """A bot that people can write to at a local Telegram."""
    async with (
        ScriptedTelegram() as server,
        talking(script, **(runtime or {})) as talk,
        running([telegram_station(server, **settings)], talk, place) as channels,
    ):
        yield server, talk, channels


@contextlib.asynccontextmanager
async def whatsapp_chat(
    place: Place, script: Any = echo, *, sources: Any = (), template: str = "", clock: Any = time.time, **settings: Any
) -> AsyncIterator[tuple[ScriptedWhatsApp, str, Talk, Channels]]:
    """A bot behind a phone number of a local WhatsApp. Gives the address of its webhook too."""
    async with ScriptedWhatsApp() as server:
        parts = Parts(secrets=Secrets(server.secrets), clock=clock)
        service = whatsapp(url=server.url, phone_number_id=server.number, template=template, parts=parts)
        station = Station(settings=ChannelSettings(name="wa", **settings), type="whatsapp", service=service)
        options: dict[str, Any] = {"sources": sources} if sources else {}
        async with (
            talking(script, **options) as talk,
            webhook_served(lambda _: station, talk, place) as (url, channels),
        ):
            yield server, url, talk, channels


@contextlib.asynccontextmanager
async def program_chat(
    place: Place, script: Any = echo, *, clock: Any = time.time, **settings: Any
) -> AsyncIterator[tuple[ScriptedProgram, str, Talk]]:
    """A bot to which a program writes through signed requests. Gives the address of its webhook too."""
    async with ScriptedProgram() as program:
        parts = Parts(secrets=Secrets({"HOOK_SECRET": program.secret}), clock=clock)
        service = webhook(secret_env="HOOK_SECRET", reply_url=program.url, parts=parts)
        station = Station(settings=ChannelSettings(name="hook", **settings), type="webhook", service=service)
        async with talking(script) as talk, webhook_served(lambda _: station, talk, place) as (url, _):
            yield program, url, talk


def url_at(place: Place) -> str:
    return place if isinstance(place, str) else database_url(place / "db")


@contextlib.asynccontextmanager
async def running(stations: Sequence[Station], talk: Any, place: Place) -> AsyncIterator[Channels]:
    """The channels over a database, as soon as they lead."""
    async with Database(url_at(place), lease=0.5) as opened:
        channels = Channels(stations, talk, opened.store, look_seconds=0.05, waits=(0.01, 0.02))
        async with channels:
            await channels.until_leading()
            yield channels


class Later:
    """An application that is served before it is made, because its channels need the address of the server."""

    def __init__(self) -> None:
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@contextlib.asynccontextmanager
async def webhook_served(
    make: Callable[[str], Station], talk: Any, place: Place
) -> AsyncIterator[tuple[str, Channels]]:
    """A channel whose webhook is served. `make` returns its station, from the address of the server."""
    later = Later()
    async with served(later) as url:
        station = make(url)
        async with running([station], talk, place) as channels:
            later.app = ChannelsDoor(channels)
            yield f"{url}/channels/{station.name}", channels


async def eventually(condition: Callable[[], Any], *, seconds: float = 10.0) -> None:
    """Waits until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.01)
