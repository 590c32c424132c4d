"""The contract of stores, also with several processes that write, stall and are killed.

The author of a store runs the whole list, with any test runner:

    # my_store/opening.py
    @asynccontextmanager
    async def opened(place: str) -> AsyncIterator[Store]:
        async with MyStore(place, lease=0.5) as store:
            yield store

    # tests/test_my_store.py
    SUBJECT = Subject(name="mine", opened=opened, new_place=a_new_address, factory="my_store.opening:opened")

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", checks_for(SUBJECT), ids=str)
    async def test_the_store_keeps_the_contract(check: Check[Subject]) -> None:
        await check(SUBJECT)

or all of it at once, `asyncio.run(check_all(SUBJECT, CHECKS))`.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.testing.contract import BrokenPromises, Check, ContractError, check_all
from toolcaddie.testing.store_contract import documents, leasing, logs, scanning
from toolcaddie.testing.store_contract.subject import Subject

__all__ = ["CHECKS", "BrokenPromises", "Check", "ContractError", "Subject", "check_all", "checks_for"]

CHECKS: tuple[Check[Subject], ...] = tuple(
    check for part in (documents, scanning, logs, leasing) for check in part.CHECKS
)
"""Every promise, by what it is about: documents, scans, logs, leases."""


def checks_for(subject: Subject) -> Sequence[Check[Subject]]:
    """Returns the checks that apply: those about other processes only for a store that other processes can reach."""
    return [check for check in CHECKS if check.applies_to(subject)]
