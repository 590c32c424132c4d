"""The contract suite of providers: checks for a class that asks a model, such as one of your own. It is code for tests.

Each check starts a server on a local socket. The server refuses invalid requests as the real provider does, and fails where the
check wants that. The author of a provider runs the whole list, with any test runner:

    SUBJECT = Subject(name="acme", provider=lambda base_url, key: Acme(base_url, key), wire=AcmeWire)

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_the_provider_keeps_the_contract(check: Check) -> None:
        await check(SUBJECT)

or all checks at once: `asyncio.run(check_all(SUBJECT))`. `wire` is the API of the server (`testing.wire.Wire`). For an API that
ships, use its wire, such as `testing.CHAT` for chat completions. `check_switch` tests a conversation over two providers that take
turns, and `check_conversation` one over any number.
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

CHECKS: tuple[Check, ...] = tuple(
    check for module in (shape, answers, asking, failing, hostile) for check in module.CHECKS
)
"""All checks, in this order: the provider object itself, answers, requests, failing servers, damaged answers."""


async def check_all(subject: Subject) -> None:
    """Runs every check. Raises `BrokenPromises`, which lists all that failed. If the object lacks a member of a provider, only
    that is reported: the other checks do not run, because each would fail for the same reason."""
    first = len(tuple(shape.CHECKS))
    untried, failures = len(CHECKS) - first, await failures_of(subject, CHECKS[:first])
    if not failures:
        untried, failures = 0, await failures_of(subject, CHECKS[first:])
    if failures:
        raise BrokenPromises(subject, failures, of=len(CHECKS), untried=untried)
