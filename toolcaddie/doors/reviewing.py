"""Reviews of tools that bots wrote: what a person may see and decide. Every door for people goes through `Reviews`.

Approving a tool is judged like approving the call of `create_tool` that wrote it: by the rules about `approve` and by
`policy.approvers`, and nobody approves a tool that was written in their own name. Whoever may approve a tool may also reject,
revoke, rename and delete it; and so may the person in whose name it was written, because none of this lets it run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.control.approvers import JudgedApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.tools.authored import Authorship
from toolcaddie.tools.authored.digests import check_digest
from toolcaddie.tools.authored.values import Author, AuthoredTool, BrokenFolder, Review, Status
from toolcaddie.util.suggest import did_you_mean

STATUSES: Mapping[str, int] = {
    "unknown_tool": 404,
    "may_not_approve": 403,
    "changed": 409,
    "taken": 409,
    "limit": 409,
    "broken": 409,
    "refused": 422,
}
"""HTTP statuses of refusals, by the code of the `RequestError`. Any other is 400."""

LONGEST_NOTE = 2_000
"""Largest number of characters of a note."""

_AT_ONCE = 20
"""The number of tools judged before other work of the event loop goes on. Each takes 0.2 to 0.5 ms."""
_WRITER = "create_tool"
_CATEGORY = "authored"


class Reviews:
    """Passes each request of a person to the service of tools, if the person may make it.

    A tool that the person may neither approve nor has asked for does not exist for that person. All methods raise `RequestError`;
    its codes are those of `Authorship`, and `may_not_approve`.
    """

    def __init__(self, authorship: Authorship, approvals: JudgedApprovals) -> None:
        self._authorship = authorship
        self._approvals = approvals

    async def list(
        self, person: Principal, *, status: Status | None = None, bot: str | None = None
    ) -> Sequence[AuthoredTool]:
        """Returns the tools that a person may see: those that wait first, then the newest."""
        seen: list[AuthoredTool] = []
        may_see = self._approvals.seer(person)
        for number, tool in enumerate(await self._authorship.list(person.tenant, status=status, bot=bot)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # other requests go on meanwhile
            if _is_own(tool, person) or may_see(_question(tool)):
                seen.append(tool)
        return sorted(seen, key=lambda tool: tool.status != "pending")

    async def broken(self, person: Principal) -> Sequence[BrokenFolder]:
        """Returns the tools of the person's tenant whose folders cannot be read; none if the person may not approve tools."""
        return await self._authorship.broken(person.tenant) if self._may_see_broken(person) else ()

    async def show(self, person: Principal, key: str) -> Review:
        """Returns a tool with everything that the person needs to decide about it."""
        try:
            review = await self._authorship.show(person.tenant, key)
        except RequestError as error:
            if error.code == "unknown_tool" or (error.code == "broken" and not self._may_see_broken(person)):
                raise await self._unknown(person, key) from error
            raise
        if not self._may_see(review.tool, person):
            raise await self._unknown(person, key)
        return review

    def objection(self, tool: AuthoredTool, person: Principal) -> str:
        """Returns why this person may not approve the tool; empty: the person may."""
        if _is_own(tool, person):
            return (
                f"{tool.definition.name} was written in the name of {person.id}, and nobody approves a tool of their own; "
                "somebody else must answer"
            )
        try:
            self._approvals.check(_question(tool), person, approved=True)
        except RequestError as error:
            return str(error)
        return ""

    async def dry_run(self, person: Principal, key: str, arguments: Mapping[str, Any], *, digest: str) -> ToolResult:
        """Runs a tool once in the sandbox, for its reader."""
        tool = await self._seen(person, key)
        return await self._authorship.dry_run(person.tenant, tool.id, arguments, digest=digest)

    async def approve(self, person: Principal, key: str, *, digest: str, note: str = "") -> AuthoredTool:
        """Approves exactly the state with this digest, which is also the state by which the rules have judged the person."""
        tool = await self._seen(person, key)
        self._check_approvable(tool, person)
        check_digest(tool, digest)
        return await self._authorship.approve(person.tenant, tool.id, digest=digest, by=person, note=_checked(note))

    async def rollback(self, person: Principal, key: str, version: int, *, note: str = "") -> AuthoredTool:
        """Puts an approved version back, and approves it again. The rules judge the version and not the present state, because
        only the version will run."""
        tool = await self._seen(person, key)
        earlier = await self._authorship.version(person.tenant, tool.id, version)
        self._check_approvable(earlier, person)
        return await self._authorship.rollback(
            person.tenant, tool.id, version, digest=earlier.digest, by=person, note=_checked(note)
        )

    async def reject(self, person: Principal, key: str, *, note: str = "") -> AuthoredTool:
        tool = await self._seen(person, key)
        return await self._authorship.reject(person.tenant, tool.id, by=person, note=_checked(note))

    async def revoke(self, person: Principal, key: str, *, note: str = "") -> AuthoredTool:
        tool = await self._seen(person, key)
        return await self._authorship.revoke(person.tenant, tool.id, by=person, note=_checked(note))

    async def rename(self, person: Principal, key: str, name: str) -> AuthoredTool:
        """Gives a tool another name; it waits for an approval then."""
        tool = await self._seen(person, key)
        return await self._authorship.rename(person.tenant, tool.id, name, by=person)

    async def change_scope(self, person: Principal, key: str, scope: str) -> AuthoredTool:
        """Gives a tool another scope; it waits for an approval then."""
        tool = await self._seen(person, key)
        return await self._authorship.change_scope(person.tenant, tool.id, scope, by=person)

    async def delete(self, person: Principal, key: str) -> None:
        """Deletes a tool with all its versions, also one whose folder is broken."""
        try:
            key = (await self._seen(person, key)).id
        except RequestError as error:
            if error.code != "broken":
                raise
        await self._authorship.delete(person.tenant, key, by=person)

    async def _seen(self, person: Principal, key: str) -> AuthoredTool:
        return (await self.show(person, key)).tool

    def _check_approvable(self, tool: AuthoredTool, person: Principal) -> None:
        if objection := self.objection(tool, person):
            raise RequestError(objection, param="tool", code="may_not_approve")

    def _may_see(self, tool: AuthoredTool, person: Principal) -> bool:
        return _is_own(tool, person) or self._approvals.may_see(_question(tool), person)

    def _may_see_broken(self, person: Principal) -> bool:
        """Returns True if a person may approve tools of which nothing is known, not even who asked for them."""
        return self._approvals.may_see(_question_of(Principal(id="", tenant=person.tenant)), person)

    async def _unknown(self, person: Principal, key: str) -> RequestError:
        """Returns the error about a tool that does not exist for this person. It suggests no name that is hidden from them."""
        names = [tool.definition.name for tool in await self.list(person)]
        message = f"there is no tool {key[:80]!r}; {did_you_mean(key, names)}"
        return RequestError(message, param="tool", code="unknown_tool")


def _is_own(tool: AuthoredTool, person: Principal) -> bool:
    return tool.author is not None and tool.author.principal.owner == person.owner


def _question(tool: AuthoredTool) -> Approval:
    """Returns the question whether the call of `create_tool` that wrote this tool may run, for the rules about `approve`."""
    author = tool.author or Author(principal=Principal(id="", tenant=tool.tenant))
    return _question_of(
        author.principal,
        id=tool.id,
        run_id=author.run_id,
        arguments=msgspec.to_builtins(tool.definition),
        digest=tool.digest,
        taint=author.taint,
        created=tool.created,
    )


def _question_of(asker: Principal, **facts: Any) -> Approval:
    """Returns a question about a call of `create_tool`. An empty id stands for an asker whom nobody knows."""
    nothing: Mapping[str, Any] = {"id": "", "run_id": "", "arguments": {}, "digest": "", "created": 0.0}
    return Approval(
        call_id="",
        tool=_WRITER,
        policy_version="",
        principal=asker,
        subject=Tool(name=_WRITER, category=_CATEGORY, source=_CATEGORY),
        restrictions_kept=True,
        expires=sys.float_info.max,
        **{**nothing, **facts},
    )


def _checked(note: str) -> str:
    if len(note) > LONGEST_NOTE:
        raise RequestError(
            f"the note has {len(note):,} characters; at most {LONGEST_NOTE:,} are accepted", param="note", code="limit"
        )
    return note
