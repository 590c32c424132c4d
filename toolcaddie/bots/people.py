"""Shows and removes the arrangements of a person with a bot that are still to come: jobs, work that waits for an answer,
questions about its calls, and proposals of reviews."""

from __future__ import annotations

import time
from dataclasses import dataclass

from msgspec import Struct

from toolcaddie.bots.waiting import Waiting
from toolcaddie.bots.working import forget_answers
from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.bots import BotWork
from toolcaddie.core.jobs import Job
from toolcaddie.core.personas import PersonaKey
from toolcaddie.ports import PersonaFiles, Store
from toolcaddie.ports.jobs import JobStore
from toolcaddie.storage.runs import StoredRuns
from toolcaddie.tools.improve.proposals import Proposals
from toolcaddie.tools.improve.values import Proposal

_ALL = 1_000_000


class Arranged(Struct, frozen=True, kw_only=True):
    """Everything that a person has arranged with a bot."""

    jobs: tuple[Job, ...] = ()
    waiting: tuple[BotWork, ...] = ()
    """Messages whose runs wait for a person's answer."""
    questions: tuple[Approval, ...] = ()
    """Questions about calls, also those that were answered."""
    proposals: tuple[Proposal, ...] = ()
    """Proposals for which the person asked, also those that were decided."""

    @property
    def is_empty(self) -> bool:
        return not (self.jobs or self.waiting or self.questions or self.proposals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangements:
    """The arrangements of people with a bot."""

    key: PersonaKey
    rows: JobStore
    store: Store
    personas: PersonaFiles

    async def of(self, person: str) -> Arranged:
        """Returns what a person, `tenant/id`, has arranged."""
        tenant, name, bot = self.key.tenant, person.partition("/")[2], self.key.bot
        works = await Waiting(store=self.store).all()
        questions = await StoredApprovals(self.store).list(tenant, limit=_ALL)
        return Arranged(
            jobs=tuple(await self.rows.list(tenant=tenant, bot=bot, owner=name)),
            waiting=tuple(
                work for work in works if work.principal.owner == (tenant, name) and work.principal.bot == bot
            ),
            questions=tuple(
                each for each in questions if each.principal.owner == (tenant, name) and each.principal.bot == bot
            ),
            proposals=tuple(each for each in await self._proposals.all(tenant, bot) if each.author.who == person),
        )

    async def forget(self, arranged: Arranged) -> None:
        """Removes what `of` returned. Jobs do not run again, and waiting work is not continued, whatever is answered."""
        waiting, runs = Waiting(store=self.store), StoredRuns(self.store)
        for job in arranged.jobs:
            await self.rows.remove(job.id)
            await forget_answers(self.store, f"job:{job.id}:")
        for work in arranged.waiting:
            await waiting.remove(work)
            await runs.forget(work.id)
        for question in arranged.questions:
            await StoredApprovals(self.store).remove(question)
        for proposal in arranged.proposals:
            await self._proposals.remove(proposal)

    @property
    def _proposals(self) -> Proposals:
        return Proposals(self.store, self.personas, clock=time.time)
