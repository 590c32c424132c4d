"""The source `improve`: its tool, and what it says of a call before it runs."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.bots import Inherited
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.core.personas import PersonaFile, PersonaKey
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Spent, Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.guards.markers import marked
from toolcaddie.ports import Reviewer
from toolcaddie.ports.reviewing import Focus, Review
from toolcaddie.tools.improve.copies import Changes, changes_in, taint_of, write_copy
from toolcaddie.tools.improve.definitions import CATEGORY, NAME, definition_of_tool
from toolcaddie.tools.improve.focuses import FOCUSES, instructions_of
from toolcaddie.tools.improve.proposals import Proposals, author_of
from toolcaddie.tools.improve.shown import shown_file, with_hidden_lines
from toolcaddie.tools.improve.values import Change, Proposal
from toolcaddie.tools.memory.visibility import Reader
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import valid_text

_MARGIN = 2.0
_MOST_SUMMARY = 4_000


class ImproveSource:
    """Implements `ports.ClaimingSource` and `ports.AssessingSource`."""

    name = "improve"
    revision = 0
    claims = frozenset({NAME})

    def __init__(
        self,
        reviewer: Reviewer | None,
        proposals: Proposals,
        *,
        allowed: Sequence[Focus] = FOCUSES,
        seconds: float,
        max_output: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reviewer = reviewer
        self.proposals = proposals
        self._allowed = allowed
        self._seconds = seconds
        self._max_output = max_output
        self._clock = clock
        self._tools = (definition_of_tool(self.name, allowed, seconds),)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return (CATEGORY,)

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Refuses what cannot work. Applying a proposal always asks, and shows the whole difference. A review asks after
        untrusted content, and where nothing contains the reviewer."""
        try:
            key = _key(context)
            if arguments.get("action") == "apply":
                proposal = await self.proposals.get(key.tenant, key.bot, _proposal_id(arguments))
                await self.proposals.check(proposal)
                return Assessment(
                    annotations=ToolAnnotations(read_only=False, destructive=True, open_world=False),
                    preview=proposal.sheet,
                )
            focus, reviewer = self._focus(arguments), self._checked_reviewer()
        except RequestError as error:
            return Assessment(refusal=str(error))
        asks = bool(context.taint) or not reviewer.contained
        return Assessment(
            annotations=ToolAnnotations(read_only=False, destructive=asks, idempotent=False, open_world=False),
            preview=f"{reviewer.name} reviews {focus} of {key.bot}:\n{arguments.get('context', '')}",
        )

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        try:
            if arguments.get("action") == "apply":
                return await self._applied(_proposal_id(arguments), context)
            return await self._reviewed(self._focus(arguments), str(arguments.get("context", "")), context)
        except ToolcaddieError as error:
            state = error.state
            spent = None if state is None else Spent(usage=state.usage, calls=state.calls, taint=state.taint)
            return replace(failed(KNOWN.redact(str(error)), own_words=isinstance(error, RequestError)), spent=spent)

    async def _applied(self, proposal_id: str, context: RunContext) -> ToolResult:
        key = _key(context)
        proposal = await self.proposals.get(key.tenant, key.bot, proposal_id)
        applied = await self.proposals.apply(proposal, context.principal)
        names = ", ".join(change.path for change in applied.changes)
        return ToolResult(content=f"applied {applied.id}: {names} changed; the former versions stay", own_words=True)

    async def _reviewed(self, focus: Focus, wish: str, context: RunContext) -> ToolResult:
        key, reviewer = _key(context), self._checked_reviewer()
        await self.proposals.check_room(key.tenant, key.bot)
        whole, reader = await self.proposals.personas.paths(key), Reader.of(context.principal, context.conversation)
        files = [shown for file in whole if (shown := shown_file(file, reader)) is not None]
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="toolcaddie-improve-"))
        try:
            copy = folder / "persona"
            await asyncio.to_thread(_made, copy, files)
            reviewed = await reviewer.review(self._review(copy, focus, wish, context))
            changes = await asyncio.to_thread(changes_in, copy, files, focus, person=reader.who)
        finally:
            await asyncio.to_thread(_remove, folder)
        summary = valid_text(KNOWN.redact(reviewed.summary.strip()))[:_MOST_SUMMARY]
        if not changes.proposed:
            text, words = "the review proposes no change", f"{summary}{_left_out(changes)}"
            return ToolResult(content=f"{text}\n{marked(words)}" if words else text, spent=reviewed.spent)
        proposal = Proposal(
            id=f"improve_{random_id()}",
            tenant=key.tenant,
            bot=key.bot,
            focus=focus,
            made=self._clock(),
            author=author_of(context.principal, context.run_id, (*context.taint, *taint_of(files))),
            reviewer=reviewer.name,
            summary=summary,
            changes=_of_whole_files(changes, whole, reader),
        )
        await self.proposals.add(proposal)
        return ToolResult(
            content=f"{_waiting(proposal)}\n{marked(f'{self._shown(proposal)}{_left_out(changes)}')}",
            structured={"proposal": proposal.id, "files": [change.path for change in proposal.changes]},
            spent=reviewed.spent,
        )

    def _review(self, folder: Path, focus: Focus, wish: str, context: RunContext) -> Review:
        """Returns the task of the reviewer, with the rest of the run's budget."""
        deadline = context.deadline
        left = self._seconds if deadline is None else min(self._seconds, deadline - time.monotonic() - _MARGIN)
        if left <= 0 or context.tokens_left == 0:
            raise RequestError("too little time or too few tokens are left for a review", code="limit")
        return Review(
            folder=folder,
            instructions=instructions_of(focus, wish),
            focus=focus,
            principal=context.principal,
            seconds=left,
            inherited=Inherited(
                lineage=(*context.inherited.lineage, str(context.principal.bot)),
                taint=context.taint,
                calls=context.calls_left,
                tokens=context.tokens_left,
                seconds=left,
            ),
        )

    def _shown(self, proposal: Proposal) -> str:
        """Returns summary and difference, as far as the model reads them."""
        text = f"{proposal.summary}\n\n{proposal.diff}"
        if len(text) <= self._max_output:
            return text
        rest = len(text) - self._max_output
        return f"{text[: self._max_output]}\n... {rest:,} more characters: toolcaddie improve show {proposal.id}"

    def _focus(self, arguments: Mapping[str, Any]) -> Focus:
        """Returns the focus of a call. Raises `RequestError` if the settings do not allow it."""
        focus = cast(Focus, arguments.get("focus") or ("all" if "all" in self._allowed else self._allowed[0]))
        if focus not in self._allowed:
            raise RequestError(
                f"the focus {focus} is not allowed here; allowed: {', '.join(self._allowed)}", param="focus"
            )
        return focus

    def _checked_reviewer(self) -> Reviewer:
        if self._reviewer is None:
            raise RequestError("this host has no reviewer; name one in [source.reviewer]")
        return self._reviewer


def _of_whole_files(changes: Changes, whole: Sequence[PersonaFile], reader: Reader) -> tuple[Change, ...]:
    files = {file.path: file for file in whole}
    return tuple(
        with_hidden_lines(change, files[change.path], reader) if change.path in files else change
        for change in changes.proposed
    )


def _made(copy: Path, files: Sequence[PersonaFile]) -> None:
    copy.mkdir()
    write_copy(copy, files)


def _remove(folder: Path) -> None:
    """Removes a folder. A program does it, because Python's own function fails on folders that are nested a thousand times."""
    subprocess.run(["rm", "-rf", "--", str(folder)], check=False, capture_output=True)


def _key(context: RunContext) -> PersonaKey:
    """Returns the owner of the files. Raises `RequestError` for a request that is none of a bot."""
    if context.principal.bot is None:
        raise RequestError("only a bot has files of its own, and this request names none", param="bot")
    return PersonaKey(tenant=context.principal.tenant, bot=context.principal.bot)


def _proposal_id(arguments: Mapping[str, Any]) -> str:
    proposal = str(arguments.get("proposal", "")).strip()
    if not proposal:
        raise RequestError("proposal is missing; name the one to apply", param="proposal")
    return proposal


def _waiting(proposal: Proposal) -> str:
    count = len(proposal.changes)
    return (
        f"proposal {proposal.id} changes {count} file{'s' * (count > 1)} and waits for a person. To ask for it now, call "
        f"improve with action apply; or a person uses `toolcaddie improve apply {proposal.id}`."
    )


def _left_out(changes: Changes) -> str:
    return "".join(f"\nleft out: {each}" for each in changes.left_out[:20])
