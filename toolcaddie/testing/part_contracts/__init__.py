"""Contract suites: the promises of each socket's parts, as checks that anyone runs against a part of their own.

    from toolcaddie.testing.part_contracts import SOURCE, Subject, check_all

    SUBJECT = Subject(name="tickets", make=lambda: tickets(url="http://127.0.0.1:8080", parts=Parts()))

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", SOURCE, ids=str)
    async def test_the_source_keeps_the_contract(check):
        await check(SUBJECT)

or all of it at once, `asyncio.run(check_all(SUBJECT, SOURCE))`. A provider has a suite of its own (`provider_contract`), and so
has a store (`store_contract`).
"""

from __future__ import annotations

from toolcaddie.testing.contract import BrokenPromises, Check, ContractError, check_all
from toolcaddie.testing.part_contracts import (
    approver,
    cache,
    classifier,
    embedder,
    meta_tool,
    middleware,
    policy,
    ranker,
    sink,
    source,
)
from toolcaddie.testing.part_contracts.subject import Subject

__all__ = [
    "APPROVER",
    "CACHE",
    "CLASSIFIER",
    "EMBEDDER",
    "META_TOOL",
    "MIDDLEWARE",
    "POLICY",
    "RANKER",
    "SINK",
    "SOURCE",
    "BrokenPromises",
    "Check",
    "ContractError",
    "Subject",
    "check_all",
]

APPROVER = tuple(approver.CHECKS)
CACHE = tuple(cache.CHECKS)
CLASSIFIER = tuple(classifier.CHECKS)
EMBEDDER = tuple(embedder.CHECKS)
META_TOOL = tuple(meta_tool.CHECKS)
MIDDLEWARE = tuple(middleware.CHECKS)
POLICY = tuple(policy.CHECKS)
RANKER = tuple(ranker.CHECKS)
SINK = tuple(sink.CHECKS)
SOURCE = tuple(source.CHECKS)
