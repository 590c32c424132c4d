"""Contract suites for parts of your own: a source, a policy, a cache and so on. This is code for tests.

A part is an implementation of one of the interfaces in `toolcaddie/ports`. A contract suite is a tuple of checks for one of these
interfaces: each check tests one promise that every implementation keeps. A subject says how to make the part under test.

    from toolcaddie.testing.part_contracts import SOURCE, Subject, check_all

    SUBJECT = Subject(name="tickets", make=lambda: tickets(url="http://127.0.0.1:8080", parts=Parts()))

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", SOURCE, ids=str)
    async def test_the_source_keeps_the_contract(check):
        await check(SUBJECT)

or all checks at once: `asyncio.run(check_all(SUBJECT, SOURCE))`. The suites for providers and for stores are in packages of their
own, `provider_contract` and `store_contract`.
"""

from __future__ import annotations

from toolcaddie.testing.contract import BrokenPromises, Check, ContractError, check_all
from toolcaddie.testing.part_contracts import (
    approver,
    cache,
    channel,
    classifier,
    embedder,
    interpreter,
    meta_tool,
    middleware,
    policy,
    ranker,
    reviewer,
    sandbox,
    search,
    sink,
    source,
    state,
    telephony,
)
from toolcaddie.testing.part_contracts.state import StateSubject
from toolcaddie.testing.part_contracts.subject import Subject

__all__ = [
    "APPROVER",
    "CACHE",
    "CHANNEL",
    "CLASSIFIER",
    "EMBEDDER",
    "INTERPRETER",
    "META_TOOL",
    "MIDDLEWARE",
    "POLICY",
    "RANKER",
    "REVIEWER",
    "SANDBOX",
    "SEARCH",
    "SINK",
    "SOURCE",
    "STATE",
    "TELEPHONY",
    "BrokenPromises",
    "Check",
    "ContractError",
    "StateSubject",
    "Subject",
    "check_all",
]

APPROVER = tuple(approver.CHECKS)
CACHE = tuple(cache.CHECKS)
CHANNEL = tuple(channel.CHECKS)
CLASSIFIER = tuple(classifier.CHECKS)
EMBEDDER = tuple(embedder.CHECKS)
INTERPRETER = tuple(interpreter.CHECKS)
META_TOOL = tuple(meta_tool.CHECKS)
MIDDLEWARE = tuple(middleware.CHECKS)
POLICY = tuple(policy.CHECKS)
RANKER = tuple(ranker.CHECKS)
REVIEWER = tuple(reviewer.CHECKS)
SEARCH = tuple(search.CHECKS)
SANDBOX = tuple(sandbox.CHECKS)
SINK = tuple(sink.CHECKS)
SOURCE = tuple(source.CHECKS)
STATE = tuple(state.CHECKS)
TELEPHONY = tuple(telephony.CHECKS)
