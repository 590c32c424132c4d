"""Puts the messages of the leading process into the queues of their chats, those included that other processes left behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from toolcaddie.core.channels import Incoming
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.doors.channels.answering import Answering
from toolcaddie.doors.channels.commands import Command, read_command
from toolcaddie.doors.channels.histories import Histories
from toolcaddie.doors.channels.journal import Entry, Journal, Lost
from toolcaddie.doors.channels.lanes import Job, Lanes
from toolcaddie.doors.channels.questions import Questions, WaitingRun
from toolcaddie.doors.channels.sentences import Sentences
from toolcaddie.doors.channels.station import Station
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger

log = Logger(__name__)

_MOST_COMMANDS = 20
"""The largest number of commands of one chat that wait."""
_RUN_LOOKS = 20
"""Number of looks for messages after which runs that wait are looked at, and messages of processes that died."""


class Dispatch:
    """The queues of one time of leading. `owner`: the number of this process's lease."""

    def __init__(
        self,
        stations: Sequence[Station],
        journal: Journal,
        answering: Answering,
        questions: Questions,
        histories: Histories,
        store: Store,
        owner: int,
    ) -> None:
        self._stations = stations
        self._journal = journal
        self._answering = answering
        self._questions = questions
        self._histories = histories
        self._store = store
        self.owner = owner
        self._lanes = {station.name: Lanes(most_waiting=station.settings.waiting) for station in stations}
        self._commands = Lanes(most_waiting=_MOST_COMMANDS)
        self._broken = asyncio.Event()
        self._collecting = asyncio.Lock()
        self._refused: set[str] = set()
        """Lanes whose chat was told that too much is waiting."""
        self._attended: set[tuple[str, int]] = set()
        """The runs that wait, by id and number of times, which are looked at when their chat has time."""

    def put(self, station: Station, entry: Entry, *, always: bool = False) -> None:
        """Puts a message for which this process is in charge. `always`: however much is waiting."""
        message = entry.row.incoming
        if message is None or entry.row.letter is not None:
            chat = (
                message.chat if message is not None else entry.row.letter.chat if entry.row.letter is not None else ""
            )
            self._lane(station, chat, lambda: self._answering.answer(station, entry, self.owner))
            return
        # Somebody else's words decide nothing in this person's name, and a command that is changed afterwards is none.
        command = None if message.forwarded or message.edited else read_command(message.text)
        if command is not None and command.name != "new":
            known = command
            # Commands do not wait for the answer that is being made.
            self._commands.put(
                station.lane(message.chat),
                self._guarded(lambda: self._obey(station, entry, message, known)),
                always=always,
            )
            return
        lane = station.lane(message.chat)
        job = (
            (lambda: self._answering.answer(station, entry, self.owner))
            if command is None
            else (lambda: self._begin_conversation(station, entry, message))
        )
        if self._lanes[station.name].put(lane, self._guarded(job), always=always):
            self._refused.discard(lane)
        else:
            self._refuse(station, entry, lane)

    async def collect(self, station: Station) -> None:
        """Takes the messages that other processes received. Called before a message of this process is put, because those may
        have been written earlier."""
        async with self._collecting:
            for entry in await self._journal.handed(station.name):
                await self._claim(station, entry, always=False)

    async def follow(self, look_seconds: float) -> None:
        """Finds messages that other processes took or left behind, until it is cancelled or `StorageError` is raised."""
        for looks in itertools.count(1):
            for station in self._stations:
                await self.collect(station)
            if looks % _RUN_LOOKS == 0:
                await self.continue_all()
            await asyncio.sleep(look_seconds)

    async def until_broken(self) -> None:
        """Raises `StorageError` as soon as a message could not be answered because the database failed."""
        await self._broken.wait()
        raise StorageError("a message could not be recorded")

    async def close(self) -> None:
        for lanes in (self._commands, *self._lanes.values()):
            await lanes.close()

    # --- what was left behind

    async def continue_all(self, *, begins: bool = False) -> None:
        """Continues messages of processes that have died, and runs whose questions were answered elsewhere. `begins`: this
        process answers nothing yet, so it continues what it left behind itself when it led before."""
        alive: dict[int, bool] = {0: False, self.owner: True}
        for station in self._stations:
            for entry in await self._journal.unfinished(station.name):
                number = entry.row.owner
                if begins and number == self.owner and entry.row.incoming is not None:
                    self.put(station, entry, always=True)
                if number not in alive:
                    alive[number] = await self._store.holds(number)
                if not alive[number]:
                    await self._claim(station, entry)
            for run in await self._questions.all(station.name):
                self._attend(station, run)

    async def _claim(self, station: Station, entry: Entry, *, always: bool = True) -> None:
        if entry.row.owner == self.owner:
            return
        try:
            claimed = await self._journal.claim(entry, self.owner)
        except Lost:
            return
        self.put(station, claimed, always=always)

    # --- what people write

    async def _obey(self, station: Station, entry: Entry, message: Incoming, command: Command) -> None:
        match command.name:
            case "stop":
                text = self._answering.stop(station, message)
            case "approve" | "deny":
                text = await self._decide(station, message, command)
            case _:
                text = station.sentences.help
        await self._answering.say(station, entry, text)

    async def _decide(self, station: Station, message: Incoming, command: Command) -> str:
        """Answers a question in the name of the person who wrote. Returns what became of it."""
        approve, sentences = command.name == "approve", station.sentences
        if not command.argument:
            return sentences.which_question.format(command=command.name)
        try:
            by, place = station.principal(message), station.address(message.chat)
            run = await self._questions.decide(command.argument, approve=approve, by=by, place=place)
        except RequestError as error:
            log.info("channel_decision_refused", channel=station.name, error=str(error))
            return _refusal(sentences, error)
        if run is not None and (origin := self._station(run.channel)) is not None:
            self._attend(origin, run)
        return sentences.approved if approve else sentences.refused

    async def _begin_conversation(self, station: Station, entry: Entry, message: Incoming) -> None:
        await self._histories.begin(station.name, message.chat)
        await self._answering.say(station, entry, station.sentences.new_conversation)

    def _attend(self, station: Station, run: WaitingRun) -> None:
        """Looks at a run that waits as soon as its chat has time: it goes on if its questions are answered. It is looked at again
        and again, so this is in the queue of the chat once."""
        known = (run.work.id, run.times)
        if known in self._attended:
            return
        self._attended.add(known)

        async def look() -> None:
            self._attended.discard(known)
            await self._answering.ask_again(station, run, self.owner)
            await self._answering.proceed(station, run, self.owner)

        self._lane(station, run.message.chat, look)

    def _refuse(self, station: Station, entry: Entry, lane: str) -> None:
        """Tells a chat once that too much is waiting. Further messages are not answered until one was."""
        first = lane not in self._refused
        self._refused.add(lane)
        text = station.sentences.too_many.format(count=station.settings.waiting)
        job = (lambda: self._answering.say(station, entry, text)) if first else (lambda: self._drop(entry))
        self._commands.put(lane, self._guarded(job), always=True)

    async def _drop(self, entry: Entry) -> None:
        await self._journal.finish(entry)

    def _lane(self, station: Station, chat: str, job: Job) -> None:
        self._lanes[station.name].put(station.lane(chat), self._guarded(job), always=True, counts=False)

    def _guarded(self, job: Job) -> Job:
        """Returns a job after whose failure by the database this process begins again, with everything that is unfinished."""

        async def work() -> None:
            try:
                await job()
            except StorageError as error:
                log.error("channel_database_failed", error=str(error))
                self._broken.set()

        return work

    def _station(self, name: str) -> Station | None:
        return next((station for station in self._stations if station.name == name), None)


def _refusal(sentences: Sentences, error: RequestError) -> str:
    """Returns why a question could not be answered."""
    match error.code:
        case "unknown_approval":
            return sentences.unknown_approval
        case "approval_closed":
            return sentences.approval_closed
        case "may_not_approve":
            return sentences.may_not_approve
        case _:
            return sentences.not_decided
