"""What a provider promises, as checks to run against one: over a real local server that is strict and, on demand, broken.

Whoever writes a provider runs the whole list, by any test runner:

    SUBJECT = Subject(name="acme", provider=lambda base_url, key: Acme(base_url, key), wire=AcmeWire)

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_the_provider_keeps_the_contract(check: Check) -> None:
        await check(SUBJECT)

or all of it at once, `asyncio.run(check_all(SUBJECT))`. A server of one of the wires we have needs no `wire` of one's own:
`testing.CHAT` is that of chat completions. `check_switch` is for pairs of providers, `check_conversation` for any number.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.testing.provider_contract import answers, asking, failing, hostile, shape
from toolcaddie.testing.provider_contract.conversing import check_conversation
from toolcaddie.testing.provider_contract.subject import BrokenPromises, Check, ContractError, Subject
from toolcaddie.testing.provider_contract.switching import check_switch

__all__ = [
    "CHECKS",
    "BrokenPromises",
    "Check",
    "ContractError",
    "Subject",
    "check_all",
    "check_conversation",
    "check_switch",
]

CHECKS: tuple[Check, ...] = tuple(
    check for part in (shape, answers, asking, failing, hostile) for check in part.CHECKS.found
)
"""Every promise, by what it is about: the object, answers, requests, failures, damaged answers."""


async def check_all(subject: Subject) -> None:
    """Run every check. Raises `BrokenPromises`, which lists all that failed; where the object itself is not a provider, that
    alone, because every other check would only stumble over it."""
    first = len(shape.CHECKS.found)
    tried, failed = first, await _failed(subject, CHECKS[:first])
    if not failed:
        tried, failed = len(CHECKS), await _failed(subject, CHECKS[first:])
    if failed:  # a list: the traces of all of them are hundreds of lines
        raise BrokenPromises(subject, failed, tried=tried, of=len(CHECKS))


async def _failed(subject: Subject, checks: Sequence[Check]) -> dict[str, Exception]:
    failed: dict[str, Exception] = {}
    for check in checks:
        try:
            await check(subject)
        except Exception as error:  # noqa: BLE001  the others are to be checked as well
            failed[check.name] = error
    return failed
