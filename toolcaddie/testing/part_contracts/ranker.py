"""Checks of a ranker, which scores the tools of a catalog for a request. The catalog here has two tools.

Part of the contract suite `RANKER` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import numpy as np

from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import RankerFactory
from toolcaddie.ports.ranking import Ranking
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import CATALOG, Subject

CHECKS: Checks[Subject[RankerFactory]] = Checks()

_REQUESTS = (
    QueryWords(messages=(("delete the client, please", 1.0),)),
    QueryWords(messages=(("repeat this text", 1.0), ("delete a client", 0.5)), called=("echo",)),
    QueryWords(messages=(("", 1.0),)),
)


@CHECKS.add()
async def every_tool_has_a_score_that_is_a_number_and_not_negative(subject: Subject[RankerFactory]) -> None:
    ranker = subject.make()(CATALOG)
    for words in _REQUESTS:
        ranking = ranker.rank(words, None)
        expect(isinstance(ranking, Ranking), f"it returned a {type(ranking).__name__}, not a Ranking")
        expect_equal(ranking.scores.shape, (len(CATALOG),), "the shape of the scores")
        expect(
            bool(np.isfinite(ranking.scores).all() and (ranking.scores >= 0).all()),
            "a score is negative, infinite or not a number",
        )


@CHECKS.add()
async def a_calibrated_score_is_at_most_one(subject: Subject[RankerFactory]) -> None:
    ranker = subject.make()(CATALOG)
    for words in _REQUESTS:
        ranking = ranker.rank(words, None)
        highest = float(ranking.scores.max())
        expect(not ranking.calibrated or highest <= 1.0 + 1e-6, f"a calibrated score is {highest}")


@CHECKS.add()
async def a_tool_that_the_caller_may_not_see_scores_0(subject: Subject[RankerFactory]) -> None:
    ranker = subject.make()(CATALOG)
    for hidden in range(len(CATALOG)):
        visible = np.ones(len(CATALOG), dtype=bool)
        visible[hidden] = False
        for words in _REQUESTS:
            score = float(ranker.rank(words, visible).scores[hidden])
            expect(score == 0.0, f"the hidden tool {CATALOG.tools[hidden].name} scores {score}")


@CHECKS.add()
async def the_same_request_gets_the_same_scores_also_after_others(subject: Subject[RankerFactory]) -> None:
    ranker = subject.make()(CATALOG)
    first = ranker.rank(_REQUESTS[0], None).scores.copy()
    ranker.rank(_REQUESTS[1], None)
    expect(bool(np.array_equal(first, ranker.rank(_REQUESTS[0], None).scores)), "the scores of one request changed")


@CHECKS.add()
async def every_tool_asked_about_gets_its_reasons(subject: Subject[RankerFactory]) -> None:
    ranker = subject.make()(CATALOG)
    for words in _REQUESTS:
        reasons = ranker.rank(words, None).explain([1, 0])
        expect_equal(len(reasons), 2, "the number of explanations for two tools")
        expect(all(isinstance(line, str) for each in reasons for line in each), "a reason is not a text")


@CHECKS.add()
async def a_ranker_made_from_a_previous_one_scores_as_one_made_without(subject: Subject[RankerFactory]) -> None:
    factory = subject.make()
    previous = factory(CATALOG)
    fresh, derived = factory(CATALOG), factory(CATALOG, previous)
    for words in _REQUESTS:
        same = np.allclose(fresh.rank(words, None).scores, derived.rank(words, None).scores, atol=1e-6)
        expect(bool(same), "a ranker made from a previous one has other scores than one made without")
