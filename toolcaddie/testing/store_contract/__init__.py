"""The contract suite of stores, which keep documents, logs and leases: checks for a store of your own. It is code for tests.

If other processes can reach the store, some checks start such processes, let them write, stop them and kill them. The author of a
store runs the whole list, with any test runner:

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

or all checks at once: `asyncio.run(check_all(SUBJECT, CHECKS))`.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.testing.contract import BrokenPromises, Check, ContractError, check_all
from toolcaddie.testing.store_contract import documents, leasing, logs, scanning
from toolcaddie.testing.store_contract.subject import Subject

__all__ = ["CHECKS", "BrokenPromises", "Check", "ContractError", "Subject", "check_all", "checks_for"]

CHECKS: tuple[Check[Subject], ...] = tuple(
    check for module in (documents, scanning, logs, leasing) for check in module.CHECKS
)
"""All checks, in this order: documents, scans, logs, leases."""


def checks_for(subject: Subject) -> Sequence[Check[Subject]]:
    """Returns the checks that apply to a store. Checks with other processes apply if other processes can reach the store."""
    return [check for check in CHECKS if check.applies_to(subject)]
