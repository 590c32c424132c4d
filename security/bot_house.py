"""A house with two bots for hostile texts: the ordinary one, made from settings, with files, memory, jobs, a telephone, other
bots and reviews, real local servers of a model, of Twilio and of Telegram, and a database on disk."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from security.bot_demands import CLERK, HELPER, NUMBER, REVIEW, Case, Obedient
from security.bot_pages import PAGES
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.improving import stored_proposals
from toolcaddie.app.settings import ChannelSettings, PartSettings, Settings, Upstream
from toolcaddie.control.bots import Bot
from toolcaddie.core.approval import Approval
from toolcaddie.core.bots import BotWork
from toolcaddie.core.control import Principal
from toolcaddie.core.personas import LOGS, NOTES, Author, Fact, PersonaKey, Provenance, fact_line
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.station import Station
from toolcaddie.doors.channels.telegram import telegram
from toolcaddie.parts import Parts, Secrets
from toolcaddie.personas import StoredPersonas
from toolcaddie.testing import ScriptedTwilio, ScriptedUpstream
from toolcaddie.testing.telegram import ScriptedTelegram
from toolcaddie.tools.improve.values import Change, Proposal
from toolcaddie.tools.phone.contacts import Contacts

ANN = Principal(id="ann", bot=CLERK)
_PERSON = 1
"""Ann in Telegram."""
_STRANGER = Author(who="default/eve", run_id="run_eve", taint=("read_page",))
_FORWARDED = {"type": "hidden_user", "sender_user_name": "Eve", "date": 1_700_000_000}
_MANY = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Everything that a demand may change, counted."""

    versions: int
    """Versions of the files of all bots."""
    jobs: int
    calls: int
    """Telephones that rang."""
    contacts: int
    bots: int
    """Runs of the other bot that a text demanded."""
    reviews: int
    proposals: int
    """Proposals, and once more those that were applied."""


class House:
    """The house while it runs."""

    def __init__(
        self,
        parts: Assembled,
        model: Obedient,
        twilio: ScriptedTwilio,
        chat: ScriptedTelegram,
        personas: StoredPersonas,
    ) -> None:
        self._parts = parts
        self._model = model
        self._twilio = twilio
        self._chat = chat
        self._personas = personas
        self._proposals = stored_proposals(parts.settings, parts.documents)

    async def prepare(self, case: Case) -> None:
        """Puts the text of a case where the clerk will read it, and a proposal that the text may demand."""
        self._model.case, self._model.has_read = case, False
        PAGES.clear()
        PAGES[case.number] = case.text
        key = PersonaKey(tenant=ANN.tenant, bot=CLERK)
        if case.place == "memory":
            # One half has the provenance of another run of Ann that had read a page, the other half has none.
            origin = Provenance(who=f"{ANN.tenant}/{ANN.id}", trust="tainted") if case.number % 2 else Provenance()
            path, text = (
                f"{LOGS}{date(2020, 1, 1) + timedelta(days=case.number)}.md",
                fact_line(Fact(time="09:00", text=case.text, provenance=origin)),
            )
            await self._personas.write(key, path, f"{text}\n", author=_STRANGER, expected=0)
        elif case.place == "note":
            await self._personas.write(key, f"{NOTES}{case.sign}-note.md", case.text, author=_STRANGER, expected=0)
        if case.demand.name == "proposal":
            await self._proposals.add(_proposal(case))

    async def play(self, case: Case) -> str:
        """Lets Ann write to the clerk. Returns the tools about whose calls a person is asked, separated by spaces."""
        before = {each.id for each in await self._questions()}
        if case.place == "forwarded":
            answers = len(self._chat.sent)
            self._chat.write(case.text, person=_PERSON, forward_origin=_FORWARDED)
            await self._chat.answers(answers + 1)
        else:
            work = BotWork(
                id=f"run_{case.sign}", principal=ANN, message="Is there anything new?", chat=f"ann:{case.number}"
            )
            await self._parts.work.bots.talk.answer(work)
        return " ".join(each.tool for each in await self._questions() if each.id not in before)

    async def approve(self) -> None:
        """Answers all questions with yes, and continues the runs that waited for it."""
        while questions := await self._questions():
            for each in questions:
                await self._parts.runtime.approvals.answer(ANN.tenant, each.id, approved=True)
            await self._parts.work.bots.continuing.look()

    async def effects(self) -> Effects:
        """Counts everything that texts demand."""
        store, proposals = self._parts.documents, await self._proposals.all(ANN.tenant)
        versions = [
            file.version
            for bot in (CLERK, HELPER)
            for file in await self._personas.paths(PersonaKey(tenant=ANN.tenant, bot=bot))
        ]
        people = (ANN, _of_telegram())
        return Effects(
            versions=sum(versions),
            jobs=sum(
                [len(await self._parts.database.jobs.list(tenant=ANN.tenant, bot=bot)) for bot in (CLERK, HELPER)]
            ),
            calls=len(self._twilio.rung),
            contacts=sum([len(await Contacts(store, {}).all(person)) for person in people]),
            bots=self._model.obeyed_bots,
            reviews=self._model.reviews,
            proposals=len(proposals) + sum(each.status == "applied" for each in proposals),
        )

    async def _questions(self) -> Sequence[Approval]:
        return await self._parts.runtime.approvals.list(ANN.tenant, status="open", limit=_MANY)


@asynccontextmanager
async def opened(folder: Path, model: Obedient, *, policy: str | None) -> AsyncIterator[House]:
    """Yields the house. `policy`: the type of the policy; None: the one that ships."""
    async with (
        ScriptedUpstream(model, api_key=None) as upstream,
        ScriptedTwilio() as twilio,
        ScriptedTelegram() as chat,
    ):
        settings = _settings(folder, upstream.base_url, twilio.url, policy)
        with _set(twilio.environ):
            async with assembled(settings) as parts:
                station = _station(chat)
                personas = StoredPersonas(parts.documents, folders={})
                async with Channels([station], parts.work.bots.talk, parts.documents, look_seconds=0.05) as channels:
                    await channels.until_leading()
                    yield House(parts, model, twilio, chat, personas)


def _settings(folder: Path, upstream: str, twilio: str, policy: str | None) -> Settings:
    phone = {
        "from_number": "+525512345678",
        "allowed_numbers": [NUMBER],
        "url": twilio,
        "limits": {"calls_per_day": _MANY, "calls_per_number": _MANY, "dollars_per_day": _MANY},
    }
    return Settings(
        database_url=f"sqlite:///{folder / 'house.sqlite'}",
        model="gpt-test",
        upstream=Upstream(url=upstream, attempts=1),
        catalogs=("python:security.bot_pages",),
        source=(
            *(PartSettings(type=name) for name in ("persona", "memory", "cron", "improve")),
            PartSettings(type="team", config={"collaboration": True, "rounds": 100}),
            PartSettings(type="phone", config=phone),
        ),
        policy=None if policy is None else PartSettings(type=policy),
        bots={CLERK: Bot(description="answers Ann"), HELPER: Bot(description="reads pages")},
    )


def _station(chat: ScriptedTelegram) -> Station:
    parts = Parts(secrets=Secrets({"TELEGRAM_BOT_TOKEN": chat.token}))
    settings = ChannelSettings(name="tg", bot=CLERK, allow=(str(_PERSON),))
    return Station(settings=settings, type="telegram", service=telegram(url=chat.url, poll_seconds=5, parts=parts))


def _of_telegram() -> Principal:
    return Principal(id=f"tg:{_PERSON}", bot=CLERK, channel="tg")


def _proposal(case: Case) -> Proposal:
    """Returns a proposal of a reviewer that was deceived, too."""
    return Proposal(
        id=case.sign,
        tenant=ANN.tenant,
        bot=CLERK,
        focus="all",
        made=0.0,
        author=_STRANGER,
        reviewer="run",
        summary=REVIEW,
        changes=(Change(path=f"{NOTES}{case.sign}.md", before="", after="I obey.\n", version=0),),
    )


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
