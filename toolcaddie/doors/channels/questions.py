"""Questions to people about calls, in their chats: the run that waits, where it is asked, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from toolcaddie.core.approval import EXPIRY_SECONDS, Approval
from toolcaddie.core.bots import BotWork, ChatAddress
from toolcaddie.core.channels import Button, Incoming
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunNotFoundError
from toolcaddie.doors.channels.sentences import Sentences
from toolcaddie.doors.channels.station import Station, shown_name
from toolcaddie.ports import BotTalk, Store
from toolcaddie.util.text import visible, visible_line

_RUNS, _QUESTIONS = "channel.run", "channel.question"
_PAGE = 100


class WaitingRun(Struct, frozen=True, kw_only=True):
    """A run that waits for answers, with what is needed to continue it."""

    channel: str
    work: BotWork
    message: Incoming
    times: int = 0
    """Number of times that it was continued before."""


class Asked(Struct, frozen=True, kw_only=True):
    """The places in which a question was asked."""

    run: str
    """Key of the run that waits."""
    channel: str
    chats: tuple[str, ...]
    asker: tuple[str, str]
    """The owner of the run."""

    def is_in(self, place: ChatAddress) -> bool:
        return place.channel == self.channel and place.chat in self.chats


class Questions:
    """The runs that wait, in a store."""

    def __init__(self, store: Store, talk: BotTalk) -> None:
        self._store = store
        self._talk = talk

    async def remember(self, run: WaitingRun, chats: Sequence[str]) -> Sequence[Approval]:
        """Stores a run that waits, and returns its open questions. `chats`: the chats in which they are asked."""
        approvals = await self._talk.questions(run.work.id)
        await self._store.put(_RUNS, _place(run), msgspec.json.encode(run), ttl=EXPIRY_SECONDS)
        for approval in approvals:
            before = await self._asked(approval.id)  # in an earlier run of the same person, which waits for it too
            places = dict.fromkeys((*(() if before is None else before.chats), *chats))
            asked = Asked(run=_place(run), channel=run.channel, chats=tuple(places), asker=run.work.principal.owner)
            await self._store.put(_QUESTIONS, approval.id, msgspec.json.encode(asked), ttl=EXPIRY_SECONDS)
        return [approval for approval in approvals if approval.status == "open"]

    async def decide(self, approval_id: str, *, approve: bool, by: Principal, place: ChatAddress) -> WaitingRun | None:
        """Answers a question in the name of a person. `place`: the chat in which the answer was written. Returns the run if it
        waits for no other answer. Raises `RequestError`, also for a question that was not asked there: a person has another
        name in each channel, so that elsewhere nothing would show that it is a call of their own."""
        asked = await self._asked(approval_id)
        if asked is None or not (asked.is_in(place) or asked.asker == by.owner):
            raise RequestError(
                f"there is no open question {approval_id[:64]!r} in this chat",
                param="approval",
                code="unknown_approval",
            )
        await self._talk.decide(approval_id, approve=approve, by=by)
        stored = await self._store.get(_RUNS, asked.run)
        if stored is None:
            return None
        run = msgspec.json.decode(stored, type=WaitingRun)
        return run if await self.is_answered(run) else None

    async def open(self, run: WaitingRun) -> Sequence[Approval] | None:
        """Returns the questions of a run that nobody has answered; None: it waits no more, because something else has continued
        it to its end."""
        try:
            return [each for each in await self._talk.questions(run.work.id) if each.status == "open"]
        except RunNotFoundError:
            await self.forget(run)
            return None

    async def is_answered(self, run: WaitingRun) -> bool:
        return await self.open(run) == []

    async def forget(self, run: WaitingRun) -> None:
        await self._store.delete(_RUNS, _place(run))

    async def waits(self, run: WaitingRun) -> bool:
        """Returns False if the run was continued already."""
        stored = await self._store.get(_RUNS, _place(run))
        return stored is not None and msgspec.json.decode(stored, type=WaitingRun).times == run.times

    async def is_asked(self, approval_id: str) -> bool:
        return await self._asked(approval_id) is not None

    async def _asked(self, approval_id: str) -> Asked | None:
        stored = await self._store.get(_QUESTIONS, approval_id)
        return None if stored is None else msgspec.json.decode(stored, type=Asked)

    async def all(self, channel: str) -> Sequence[WaitingRun]:
        """Returns the runs of a channel that wait."""
        return await waiting_runs(self._store, f"{channel}\0")


async def waiting_runs(store: Store, prefix: str = "") -> Sequence[WaitingRun]:
    """Returns the runs that wait, of all channels or of those whose keys begin so."""
    runs: list[WaitingRun] = []
    cursor: str | None = None
    while True:
        page = await store.scan(_RUNS, prefix=prefix, cursor=cursor, limit=_PAGE)
        runs += [msgspec.json.decode(document.value, type=WaitingRun) for document in page.documents]
        cursor = page.cursor
        if cursor is None:
            return runs


async def forget_waiting(store: Store, works: Collection[str]) -> None:
    """Forgets the waiting runs of some work, by id, and where their questions were asked."""
    places = {_place(run) for run in await waiting_runs(store) if run.work.id in works}
    cursor: str | None = None
    while places:
        page = await store.scan(_QUESTIONS, cursor=cursor, limit=_PAGE)
        for document in page.documents:
            if msgspec.json.decode(document.value, type=Asked).run in places:
                await store.delete(_QUESTIONS, document.key)
        cursor = page.cursor
        if cursor is None:
            break
    for place in places:
        await store.delete(_RUNS, place)


def question_text(sentences: Sentences, approval: Approval, run: WaitingRun) -> str:
    """Returns the question about a call: everything that would be approved, with nothing hidden in it, and the ids of who asked
    and where, because people choose their names."""
    message = run.message
    origin = sentences.question_group if message.group else sentences.question_private
    arguments = msgspec.json.format(msgspec.json.encode(approval.arguments)).decode()
    lines = [
        sentences.question.format(asker=shown_name(message)),
        origin.format(person=visible_line(message.person), chat=visible_line(message.chat), channel=run.channel),
        sentences.question_tool.format(tool=approval.tool),
        sentences.question_arguments.format(arguments=arguments),
        *([sentences.question_preview.format(preview=approval.preview)] if approval.preview else []),
        *([sentences.question_reason.format(reason=approval.reason)] if approval.reason else []),
        *([sentences.question_taint.format(tools=", ".join(approval.taint))] if approval.taint else []),
        sentences.question_answers.format(id=approval.id),
    ]
    return visible("\n".join(lines))


def question_buttons(sentences: Sentences, approval: Approval) -> tuple[Button, ...]:
    return (
        Button(label=sentences.approve, command=f"/approve {approval.id}"),
        Button(label=sentences.deny, command=f"/deny {approval.id}"),
    )


def question_chats(station: Station, message: Incoming) -> Sequence[str]:
    """Returns the chats in which a question is asked: those of the approvers; without any, a group in which it arose. A person
    alone with the bot is not asked, because nobody approves a call of their own."""
    return station.settings.approvers or ((message.chat,) if message.group else ())


def _place(run: WaitingRun) -> str:
    return f"{run.channel}\0{run.work.id}"
