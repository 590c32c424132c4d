"""The contract of providers: checks that run over a real local server, which is strict and, on demand, broken.

The author of a provider runs the whole list, with any test runner:

    SUBJECT = Subject(name="acme", provider=lambda base_url, key: Acme(base_url, key), wire=AcmeWire)

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_the_provider_keeps_the_contract(check: Check) -> None:
        await check(SUBJECT)

or all of it at once, `asyncio.run(check_all(SUBJECT))`. For a server of a wire that ships, use that wire: `testing.CHAT` is chat
completions. `check_switch` is for pairs of providers, `check_conversation` for any number.
"""

from __future__ import annotations

from toolcaddie.testing.contract import BrokenPromises, ContractError, failures_of
from toolcaddie.testing.provider_contract import answers, asking, failing, hostile, shape
from toolcaddie.testing.provider_contract.conversing import check_conversation
from toolcaddie.testing.provider_contract.subject import Check, Subject
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

CHECKS: tuple[Check, ...] = tuple(check for part in (shape, answers, asking, failing, hostile) for check in part.CHECKS)
"""Every promise, by what it is about: the object, answers, requests, failures, damaged answers."""


async def check_all(subject: Subject) -> None:
    """Runs every check. Raises `BrokenPromises`, which lists all that failed. If the object itself is not a provider, that is
    the only failure: the other checks are not tried, because each would fail for the same reason."""
    first = len(tuple(shape.CHECKS))
    untried, failures = len(CHECKS) - first, await failures_of(subject, CHECKS[:first])
    if not failures:
        untried, failures = 0, await failures_of(subject, CHECKS[first:])
    if failures:
        raise BrokenPromises(subject, failures, of=len(CHECKS), untried=untried)
