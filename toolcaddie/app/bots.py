"""Makes what lets the bots of the settings work: their files and chats, the queue of durable work, and the tasks of a server.

Tools are made before the runtime that runs them, so `BotsOnDemand` stands for the bots until `bind` gives it the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.bots.compacting import Compacting
from toolcaddie.bots.requests import Recall, nothing_recalled
from toolcaddie.bots.talking import Talk
from toolcaddie.bots.waiting import Continuing, Waiting
from toolcaddie.bots.working import Worker
from toolcaddie.control.bots import Bot
from toolcaddie.core.bots import BotAnswer, BotCard, BotWork, ChatAddress
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.parts import Parts
from toolcaddie.personas import StoredChats
from toolcaddie.ports import BotRunner, Messenger, Store
from toolcaddie.runtime import Runtime


class BotsOnDemand:
    """Implements `ports.BotRunner` for tools, which are made before there is a runtime.

    `bots`: those of the settings. Until there is a runner, their cards name no tools.
    """

    def __init__(self, bots: Mapping[str, Bot]) -> None:
        self._bots = bots
        self._runner: BotRunner | None = None

    def bind(self, runner: BotRunner) -> None:
        """Lets the bots of this runner work from now on."""
        self._runner = runner

    def cards(self, asker: Principal, tools: Sequence[str] | None = None) -> Sequence[BotCard]:
        if self._runner is not None:
            return self._runner.cards(asker, tools)
        return [
            BotCard(name=name, description=bot.description, skills=bot.skills)
            for name, bot in self._bots.items()
            if name != asker.bot
        ]

    async def answer(self, work: BotWork) -> BotAnswer:
        return await self._bound.answer(work)

    async def begin(self, work: BotWork) -> None:
        await self._bound.begin(work)

    @property
    def _bound(self) -> BotRunner:
        if self._runner is None:
            raise ConfigError(
                "bots cannot be asked here, because this program does not run them; start toolcaddie serve"
            )
        return self._runner


class MessengerOnDemand:
    """Implements `ports.Messenger` for tools and jobs, which are made before the channels run."""

    def __init__(self) -> None:
        self._messenger: Messenger | None = None

    def bind(self, messenger: Messenger) -> None:
        """Sends through these channels from now on."""
        self._messenger = messenger

    async def send(
        self, address: ChatAddress, text: str, *, key: str, sender: str = "", patience: float = 60.0
    ) -> bool:
        return await self._running(address).send(address, text, key=key, sender=sender, patience=patience)

    async def may_write(self, address: ChatAddress) -> bool:
        return await self._running(address).may_write(address)

    def is_group(self, address: ChatAddress) -> bool:
        return self._messenger is not None and self._messenger.is_group(address)

    def _running(self, address: ChatAddress) -> Messenger:
        if self._messenger is None:
            raise RequestError(
                f"the channel {address.channel!r} does not run here; toolcaddie serve runs the channels of its settings",
                param="channel",
            )
        return self._messenger


@dataclass(frozen=True, slots=True, kw_only=True)
class BotParts:
    """What lets bots work, on top of one runtime."""

    talk: Talk
    worker: Worker
    continuing: Continuing


def bot_parts(
    runtime: Runtime,
    parts: Parts,
    *,
    store: Store,
    recall: Recall = nothing_recalled,
    bots: Mapping[str, Bot] | None = None,
) -> BotParts:
    """Returns the parts of the bots of a runtime. `store`: where they keep their chats, unless `parts` has others. `bots`: those
    of the settings."""
    waiting, chats, messenger = Waiting(store=store), parts.chats or StoredChats(store), parts.messenger
    compacting = Compacting(runtime=runtime, chats=chats)
    talk = Talk(runtime=runtime, chats=chats, waiting=waiting, compacting=compacting, recall=recall)
    return BotParts(
        talk=talk,
        worker=Worker(talk=talk, store=store),
        continuing=Continuing(
            runtime=runtime,
            waiting=waiting,
            resume=talk.resume,
            given=talk.given,
            messenger=messenger,
            bots=bots or {},
        ),
    )
