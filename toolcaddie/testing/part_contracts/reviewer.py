"""Checks of a reviewer. They do not test whether its changes are good.

Part of the contract suite `REVIEWER` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.ports import Review, Reviewed, Reviewer
from toolcaddie.testing.contract import Checks, ContractError, expect
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Reviewer]] = Checks()

_SECONDS = 60.0
_SOUL = "I am the bot of the library.\n"


async def _reviewed(reviewer: Reviewer, folder: Path, seconds: float = _SECONDS) -> Reviewed:
    (folder / "SOUL.md").write_text(_SOUL)
    (folder / "memory").mkdir()
    (folder / "memory" / "2026-05-03.md").write_text("- 14:05 Ann likes tea.\n")
    review = Review(
        folder=folder,
        instructions="Improve SOUL.md. End with a summary.",
        focus="soul",
        principal=Principal(bot="library"),
        seconds=seconds,
    )
    try:
        async with asyncio.timeout(seconds + 30):
            return await reviewer.review(review)
    except TimeoutError as error:
        raise ContractError(f"a review of {seconds:g} s was still going on 30 s later") from error


@CHECKS.add()
async def its_name_is_a_text_and_it_says_whether_it_is_contained(subject: Subject[Reviewer]) -> None:
    reviewer = subject.make()
    expect(isinstance(reviewer.name, str) and bool(reviewer.name), f"the name is {reviewer.name!r}")
    expect(isinstance(reviewer.contained, bool), f"contained is {reviewer.contained!r}, not True or False")


@CHECKS.add()
async def it_returns_a_summary_and_leaves_the_folder_in_its_place(subject: Subject[Reviewer]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        reviewed = await _reviewed(subject.make(), Path(folder))
        expect(isinstance(reviewed, Reviewed), f"it returned {reviewed!r:.100}, not a Reviewed")
        expect(isinstance(reviewed.summary, str), f"the summary is {reviewed.summary!r:.100}, not a text")
        expect(os.path.isdir(folder), "the folder is gone")  # noqa: ASYNC240  a check on a folder of its own


@CHECKS.add()
async def a_review_without_time_ends_soon(subject: Subject[Reviewer]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ToolcaddieError):
        await _reviewed(subject.make(), Path(folder), seconds=0.01)
