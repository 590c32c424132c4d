"""Stores proposals, and applies them: one new version for each file, if nobody has changed it since."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.ports import PersonaFiles, Store
from toolcaddie.tools.improve.values import Change, Proposal, ProposalStatus

_KIND = "improve-proposal"
_TTL_SECONDS = 90 * 86_400.0
"""Open proposals and decided ones are gone after this time; the versions of the files stay."""
_PAGE = 20
_MOST_OPEN = 20
"""The largest number of open proposals of a bot."""


class Proposals:
    """The proposals of all bots. `personas` has the files."""

    def __init__(self, store: Store, personas: PersonaFiles, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self.personas = personas

    async def add(self, proposal: Proposal) -> None:
        """Stores a new proposal."""
        document = msgspec.json.encode(proposal)
        if not await self._store.compare_and_set(_KIND, _key(proposal), document, expected=None, ttl=_TTL_SECONDS):
            raise StorageError(f"there is a proposal {proposal.id} already")

    async def get(self, tenant: str, bot: str, proposal_id: str) -> Proposal:
        """Returns a proposal of a bot. Raises `RequestError` if it has none of that id."""
        return (await self._stored(tenant, bot, proposal_id))[1]

    async def find(self, tenant: str, proposal_id: str) -> Proposal:
        """Returns a proposal of any bot. Raises `RequestError` if there is none."""
        for proposal in await self.all(tenant):
            if proposal.id == proposal_id:
                return proposal
        raise _unknown(proposal_id)

    async def all(self, tenant: str, bot: str | None = None) -> Sequence[Proposal]:
        """Returns the proposals of a bot, the newest first; None: of all bots of the tenant."""
        proposals: list[Proposal] = []
        cursor: str | None = None
        while True:
            prefix = f"{tenant}\0" if bot is None else f"{tenant}\0{bot}\0"
            page = await self._store.scan(_KIND, prefix=prefix, cursor=cursor, limit=_PAGE)
            proposals += [_decoded(document.value) for document in page.documents]
            cursor = page.cursor
            if cursor is None:
                return sorted(proposals, key=lambda each: each.made, reverse=True)

    async def check_room(self, tenant: str, bot: str) -> None:
        """Raises `RequestError` if a bot has too many open proposals for another one."""
        waiting = sum(each.status == "open" for each in await self.all(tenant, bot))
        if waiting >= _MOST_OPEN:
            raise RequestError(
                f"{waiting} proposals wait for a person; nothing is reviewed before some are decided", code="limit"
            )

    async def check(self, proposal: Proposal) -> None:
        """Raises `RequestError` if a proposal was decided already, or if one of its files has changed since."""
        if proposal.status != "open":
            raise RequestError(f"the proposal {proposal.id} was {proposal.status} already", code="decided")
        changed = [change.path for change in proposal.changes if not await self._is_ready(proposal, change)]
        if changed:
            raise RequestError(
                f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed since the review, so the proposal "
                f"{proposal.id} does not fit any more; reject it and review again",
                code="changed",
            )

    async def apply(self, proposal: Proposal, by: Principal) -> Proposal:
        """Writes a new version of each file. It may be repeated after a crash. Raises `RequestError` as `check`."""
        await self.check(proposal)
        for change in proposal.changes:
            await self._write(proposal, change)
        return await self._decide(proposal, "applied", by)

    async def reject(self, proposal: Proposal, by: Principal, note: str = "") -> Proposal:
        """Closes a proposal without an effect. Raises `RequestError` if it was decided already."""
        return await self._decide(proposal, "rejected", by, note)

    async def remove(self, proposal: Proposal) -> None:
        """Erases a proposal. The versions of files that it made stay."""
        await self._store.delete(_KIND, _key(proposal))

    async def _write(self, proposal: Proposal, change: Change) -> None:
        key = PersonaKey(tenant=proposal.tenant, bot=proposal.bot)
        written = await self.personas.write(
            key,
            change.path,
            change.text,
            author=proposal.author,
            expected=change.version,
            note=_note(proposal),
        )
        if written is None and not await self._is_written(proposal, change):
            raise RequestError(
                f"{change.path} was changed at this moment; files of the proposal that were written before it stay, and "
                f"their former versions too",
                code="changed",
            )

    async def _is_ready(self, proposal: Proposal, change: Change) -> bool:
        """Returns True if a file is as the reviewer read it, or has this change already."""
        current = await self.personas.read(PersonaKey(tenant=proposal.tenant, bot=proposal.bot), change.path)
        if (0 if current is None else current.version) == change.version:
            return True
        return (current is None and change.version == 0) or await self._is_written(proposal, change)

    async def _is_written(self, proposal: Proposal, change: Change) -> bool:
        current = await self.personas.read(PersonaKey(tenant=proposal.tenant, bot=proposal.bot), change.path)
        return current is not None and current.note == _note(proposal) and current.text == change.text

    async def _decide(self, proposal: Proposal, status: ProposalStatus, by: Principal, note: str = "") -> Proposal:
        document, current = await self._stored(proposal.tenant, proposal.bot, proposal.id)
        if current.status != "open":
            raise RequestError(f"the proposal {proposal.id} was {current.status} already", code="decided")
        decided = replace(current, status=status, decided=self._clock(), decided_by=f"{by.tenant}/{by.id}", note=note)
        encoded = msgspec.json.encode(decided)
        if not await self._store.compare_and_set(_KIND, _key(decided), encoded, expected=document, ttl=_TTL_SECONDS):
            raise RequestError(f"somebody else decided about {proposal.id} at this moment", code="decided")
        return decided

    async def _stored(self, tenant: str, bot: str, proposal_id: str) -> tuple[bytes, Proposal]:
        document = await self._store.get(_KIND, f"{tenant}\0{bot}\0{proposal_id[:100]}")
        if document is None:
            raise _unknown(proposal_id)
        return document, _decoded(document)


def author_of(principal: Principal, run_id: str, taint: Sequence[str]) -> Author:
    """Returns the author of what a review in this run proposes. `taint`: what the run has read, and what is in the files."""
    return Author(who=f"{principal.tenant}/{principal.id}", run_id=run_id, taint=tuple(dict.fromkeys(taint)))


def _note(proposal: Proposal) -> str:
    return f"improve {proposal.focus}: proposal {proposal.id}"


def _key(proposal: Proposal) -> str:
    return f"{proposal.tenant}\0{proposal.bot}\0{proposal.id}"


def _unknown(proposal_id: str) -> RequestError:
    return RequestError(f"there is no proposal {proposal_id[:64]!r}", param="proposal", code="unknown_proposal")


def _decoded(document: bytes) -> Proposal:
    try:
        return msgspec.json.decode(document, type=Proposal)
    except msgspec.MsgspecError as error:
        raise StorageError(f"a proposal cannot be read: {error}") from error
