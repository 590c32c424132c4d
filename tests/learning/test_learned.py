"""Learning from use, seen through selection: what past requests change, for whom, and how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.presets import LEXICAL, SelectionSettings
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.learning import (
    CalledTool,
    Experience,
    Fit,
    Learned,
    LearningSettings,
    LogEntry,
    called,
    factory,
    refit,
)
from toolcaddie.learning.co_use import CoUse
from toolcaddie.selection.selector import Selector

ANNA, BORIS, MALLORY = Principal(id="anna"), Principal(id="boris"), Principal(id="mallory")
STRANGER = Principal(id="anna", tenant="elsewhere")

FREEZE = Tool(name="membership_hold", description="Puts a contract on hold")
INVOICE = Tool(name="billing_list", description="Lists what is owed")
ROOM = Tool(name="room_booking", description="Books a studio")
TOOLS = (FREEZE, INVOICE, ROOM, *(Tool(name=f"other_{n}", description=f"Thing number {n}") for n in range(30)))
CATALOG = Catalog.of(TOOLS)


def _entry(
    text: str, *tools: Tool | CalledTool, by: Principal | None = None, group: str = "", at: float = 0
) -> LogEntry:
    return LogEntry(
        words=QueryWords(messages=((text, 1.0),)),
        tools=tuple(tool if isinstance(tool, CalledTool) else called(tool) for tool in tools),
        principal=by,
        group=group,
        at=at,
    )


def _asked(text: str, by: Principal | None = None) -> QueryWords:
    return QueryWords(messages=((text, 1.0),), principal=by)


def _ranker(experience: Experience, catalog: Catalog = CATALOG, *, weight: float = 1.0) -> Learned:
    """The ranker of a catalog in which the memory is believed this much."""
    names = frozenset(tool.name for tool in catalog.tools)
    experience.keep_fit(catalog.version, Fit(weight=weight, requests=100, tools=names))
    return Learned(catalog, experience)


def _score(experience: Experience, text: str, tool: Tool = FREEZE, *, by: Principal | None = None) -> float:
    scores = _ranker(experience).rank(_asked(text, by), None).scores
    return float(scores[CATALOG.position(tool.name)])


def _reason(experience: Experience, text: str, tool: Tool = FREEZE, *, by: Principal | None = None) -> str:
    ranker, words = _ranker(experience), _asked(text, by)
    ranking = ranker.rank(words, None)
    (said,) = ranking.explain([CATALOG.position(tool.name)])
    return " ".join(said)


def _experience(*entries: LogEntry, **settings) -> Experience:
    experience = Experience(LearningSettings(**settings), clock=lambda: 100 * 86_400.0)
    experience.extend(entries)
    return experience


# --- what it finds --------------------------------------------------------------------------------------------------------


def test_what_was_called_after_a_like_request_scores_and_nothing_else():
    experience = _experience(_entry("freeze my abo please", FREEZE), _entry("what do I owe", INVOICE))
    scores = _ranker(experience).rank(_asked("please freeze the abo of John"), None).scores
    assert scores[CATALOG.position("membership_hold")] == scores.max() > 0
    assert scores[CATALOG.position("other_3")] == 0


def test_an_entry_counts_at_once_without_a_new_index():
    experience = _experience(_entry("what do I owe", INVOICE))
    assert _score(experience, "freeze my abo") == 0
    experience.add(_entry("freeze my abo", FREEZE))
    assert _score(experience, "freeze my abo") > 0.5


def test_an_entry_says_the_same_before_and_after_it_is_indexed():
    many = [_entry(f"request number {n} about {n % 7}", TOOLS[3 + n % 9]) for n in range(50)]
    experience = _experience(*many)
    experience.add(_entry("freeze my abo", FREEZE))
    before = _score(experience, "freeze the abo now")
    experience.settle()
    assert _score(experience, "freeze the abo now") == pytest.approx(before, rel=0.1)


def test_the_order_in_which_requests_came_does_not_matter():
    entries = [_entry(f"freeze abo {n}", TOOLS[n % 5]) for n in range(40)]
    one, other = _experience(*entries), _experience(*entries[::-1])
    words = _asked("freeze abo 3")
    assert np.allclose(_ranker(one).rank(words, None).scores, _ranker(other).rank(words, None).scores)


def test_a_request_that_shares_no_word_with_a_past_one_finds_it_by_meaning():
    experience = _experience(_entry("what do I owe", INVOICE), _entry("Tische reservieren", ROOM))
    assert _score(experience, "outstanding debts please", INVOICE) > 0.3
    assert _score(experience, "outstanding debts please", ROOM) == 0


def test_what_says_nothing_to_the_embedder_is_compared_by_its_words():
    experience = _experience(_entry("冻结会员", FREEZE), _entry("预订房间", ROOM))
    assert _raw(experience, "冻结会员", FREEZE, BORIS) == pytest.approx(3.0, rel=0.01)
    assert _score(experience, "冻结会员", ROOM) < _score(experience, "冻结会员", FREEZE) / 2


def test_the_embedder_of_what_is_remembered_already_stays():
    class Other:
        name, dimensions, languages = "other", 3, None

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return np.eye(3, dtype=np.float32)[[len(text) % 3 for text in texts]]

    begun, empty = _experience(_entry("what do I owe", INVOICE)), Experience()
    for experience in (begun, empty):
        experience.compare_by(Other())
        experience.add(_entry("what do I owe?", INVOICE))
    assert (begun.embedder.name, empty.embedder.name) == ("words-2", "other")
    assert _score(begun, "what do I owe", INVOICE) > 0.5
    assert _score(empty, "what do I owe?", INVOICE) > 0.5


def test_a_renamed_tool_is_known_by_its_definition_and_a_changed_one_by_its_name():
    experience = _experience(_entry("freeze my abo", FREEZE), _entry("what do I owe", INVOICE))
    later = Catalog.of(
        [replace(FREEZE, name="pause_contract"), replace(INVOICE, description="Shows open invoices"), ROOM]
    )
    ranker = _ranker(experience, later)
    assert ranker.rank(_asked("freeze my abo"), None).scores[0] > 0.5
    assert ranker.rank(_asked("what do I owe"), None).scores[1] > 0.5


def test_a_digest_that_several_tools_share_renames_none():
    bare = [Tool(name="one"), Tool(name="two")]
    experience = _experience(_entry("freeze my abo", replace(bare[0], name="gone")))
    assert not _ranker(experience, Catalog.of(bare)).rank(_asked("freeze my abo"), None).scores.any()


def test_a_tool_that_vanished_is_forgotten():
    experience = _experience(_entry("freeze my abo", FREEZE), _entry("what do I owe", INVOICE))
    without = Catalog.of([INVOICE, ROOM])
    assert not _ranker(experience, without).rank(_asked("freeze my abo"), None).scores.any()
    assert experience.forget(lambda tool: without.get(tool.name) is not None) == 1
    assert len(experience) == 1


def test_what_only_hidden_tools_were_called_for_changes_nothing_that_is_visible():
    seen = _entry("freeze my abo", FREEZE)
    hidden = [_entry("freeze my abo today", ROOM) for _ in range(200)]
    mask = np.array([tool.name != "room_booking" for tool in CATALOG.tools])
    words = _asked("freeze my abo")
    scores = _ranker(_experience(seen, *hidden)).rank(words, mask).scores
    assert scores[CATALOG.position("room_booking")] == 0
    assert scores[CATALOG.position("membership_hold")] == scores.max() > 0.5


# --- how far it is believed -----------------------------------------------------------------------------------------------


def _selector(experience: Experience) -> Selector:
    rankers = (*LEXICAL, "learned")
    return Selector(SelectionSettings(rankers=rankers), {"learned": factory(experience)})


def _names(selector: Selector, text: str, catalog: Catalog = CATALOG) -> Sequence[str]:
    query = SelectionQuery(messages=[Message(role="user", content=text)])
    return [found.tool.name for found in selector.ranked(View(catalog=catalog), query, 5).tools]


PHRASES = ("abo", "card", "pass", "ticket", "plan", "fee", "debt", "sum", "bill", "studio", "hall", "space")


def _useful_log() -> list[LogEntry]:
    """Requests that share no word with the tools they were for."""
    tools = {0: FREEZE, 1: INVOICE, 2: ROOM}
    return [
        _entry(f"{verb} the {thing} {time}", tools[n // 4 % 3] if n < 5 else tools[min(n // 4, 2)])
        for n, thing in enumerate(PHRASES)
        for verb in ("stop", "show", "want")
        for time in ("now", "today", "soon")
    ]


def test_a_log_that_helps_is_believed_and_finds_what_words_do_not():
    experience = _experience(*_useful_log())
    selector = _selector(experience)
    assert "billing_list" not in _names(selector, "the debt please")
    refit(experience, selector, CATALOG)
    assert _names(selector, "the debt please")[0] == "billing_list"


def test_until_it_was_fitted_a_log_changes_nothing():
    experience = _experience(*_useful_log())
    assert _names(_selector(experience), "books a studio") == _names(
        Selector(SelectionSettings(rankers=LEXICAL)), "books a studio"
    )


@pytest.mark.parametrize("entries", [5, 200])
def test_a_log_that_says_nothing_of_this_catalog_is_not_believed(entries):
    strange = [_entry(f"thing number {n} of {n * 7 % 31}", TOOLS[n * 13 % 33]) for n in range(entries)]
    experience = _experience(*strange)
    selector = _selector(experience)
    refit(experience, selector, CATALOG)
    assert experience.fit_of(CATALOG.version, frozenset()).weight == 0
    for text in ("lists what is owed", "thing number 7", "hold"):
        assert _names(selector, text) == _names(Selector(SelectionSettings(rankers=LEXICAL)), text)


WORDS = (
    "alder",
    "birch",
    "cedar",
    "dogwood",
    "elder",
    "fir",
    "gorse",
    "hazel",
    "ivy",
    "juniper",
    "larch",
    "maple",
    "oak",
    "pine",
)
HABITS = ("today", "please", "for Anna", "again")


def _named_catalog() -> Catalog:
    """Tools that requests name by a word, two for each word, so that words find half of them first."""
    return Catalog.of(
        [
            *(Tool(name=f"{word}_{verb}", description=f"{verb} {word}") for word in WORDS for verb in ("cut", "sell")),
            *(Tool(name=f"unused_{n}", description=f"Thing {n}") for n in range(30)),
        ]
    )


def test_a_small_log_has_the_usual_weight_though_it_cannot_prove_that_it_helps():
    catalog = _named_catalog()
    named = [_entry(f"cut the {word} {HABITS[n % 4]}", catalog.tools[2 * n]) for n, word in enumerate(WORDS)]
    unnamed = [_entry(f"number {n}{n} as before", catalog.tools[2 * n + 1]) for n in range(14)]
    twice = [_entry(f"number {n}{n} as ever", catalog.tools[2 * n + 1]) for n in range(4)]
    experience = _experience(*named, *unnamed, *twice)
    selector = _selector(experience)
    refit(experience, selector, catalog)
    fit = experience.fit_of(catalog.version, frozenset())
    assert fit.requests == 32
    assert fit.weight > 0
    assert _names(selector, "number 33, thanks", catalog)[0] == "dogwood_sell"


@pytest.mark.parametrize("count", [40, 100, 400])
def test_a_log_of_other_requests_has_no_weight_however_small_it_is(count):
    catalog = _named_catalog()
    dice = np.random.default_rng(7)
    pick = lambda: catalog.tools[int(dice.integers(len(catalog)))]  # noqa: E731
    strange = [_entry(f"play song {n % 17} of band {n % 23} in room {n % 5}", pick()) for n in range(count)]
    experience = _experience(*strange)
    refit(experience, _selector(experience), catalog)
    assert experience.fit_of(catalog.version, frozenset()).weight == 0


def test_a_large_log_is_searched_as_a_small_one():
    """Above 2,000 entries only requests with common words are compared, and fewer of them."""
    many = [_entry(f"request number {n} about {n % 70}", TOOLS[3 + n % 9]) for n in range(2_500)]
    small, large = (_experience(_entry("freeze my abo", FREEZE), *some) for some in (many[:100], many))
    for experience in (small, large):
        assert _score(experience, "freeze the abo now") > 0.5
        assert _score(experience, "freeze the abo now", INVOICE) == 0


def test_entries_added_while_an_index_is_made_are_kept():
    experience = _experience(*(_entry(f"what do I owe {n}", INVOICE) for n in range(20)))
    before = experience.past()
    for n in range(600):
        experience.add(_entry(f"freeze abo {n}", FREEZE))
    assert len(before) == 20
    assert experience.due
    experience.settle()
    experience.add(_entry("studio please", ROOM))
    assert len(experience.past()) == len(experience) == 621
    assert _score(experience, "studio please", ROOM) > _score(experience, "studio please", FREEZE)


def test_a_catalog_with_one_more_tool_is_believed_as_the_one_before():
    experience = _experience(*_useful_log())
    selector = _selector(experience)
    refit(experience, selector, CATALOG)
    grown = Catalog.of([*TOOLS, Tool(name="brand_new")])
    assert _names(selector, "the debt please", grown)[0] == "billing_list"


def test_a_tool_the_log_has_never_seen_keeps_its_place_by_words():
    experience = _experience(*_useful_log())
    selector = _selector(experience)
    refit(experience, selector, CATALOG)
    assert "other_17" in _names(selector, "show thing number 17 now")


def test_with_nothing_like_the_request_in_it_the_scores_of_the_others_stay_as_they_are():
    ranker = _ranker(_experience(_entry("freeze my abo", FREEZE)), weight=3.0)
    base = np.linspace(0, 1, len(TOOLS), dtype=np.float32)
    words = _asked("entirely different words")
    ranking = ranker.rank(words, None)
    assert ranking.influence.blend(base, 1.0) is base


# --- whose requests -------------------------------------------------------------------------------------------------------


def test_alone_everybody_learns_from_their_own_requests_and_the_operators():
    experience = _experience(
        _entry("freeze my abo", FREEZE, by=ANNA), _entry("what do I owe", INVOICE), scope="principal"
    )
    assert _score(experience, "freeze my abo", by=ANNA) > 0.5
    assert _score(experience, "freeze my abo", by=BORIS) == 0
    assert _score(experience, "freeze my abo") == 0
    assert _score(experience, "what do I owe", INVOICE, by=BORIS) > 0.5


def test_another_tenant_is_never_learned_from():
    experience = _experience(*(_entry("freeze my abo", FREEZE, by=who) for who in (ANNA, BORIS)))
    assert _score(experience, "freeze my abo", by=STRANGER) == 0
    assert _reason(experience, "freeze my abo", by=STRANGER) == ""


def test_reasons_name_the_askers_own_requests_and_the_operators():
    experience = _experience(
        _entry("freeze my abo", FREEZE, by=ANNA), _entry("freeze abo 17", FREEZE, by=ANNA), _entry("freeze it", FREEZE)
    )
    reason = _reason(experience, "freeze my abo", by=ANNA)
    assert reason == "called after: 'freeze my abo', 'freeze it', 'freeze abo 17' (3 requests)" or (
        reason.startswith("called after: 'freeze my abo', ") and reason.endswith("(3 requests)")
    )


@pytest.mark.parametrize("asker", [BORIS, None])
def test_nobody_reads_anothers_request_in_a_reason(asker):
    secret = [_entry("freeze the abo of Mrs Robinson", FREEZE, by=who) for who in (ANNA, MALLORY)]
    reason = _reason(_experience(*secret), "freeze the abo", by=asker)
    assert "Robinson" not in reason
    assert reason == ("called after 2 requests like this" if asker else "")


def test_an_operator_may_let_requests_be_named_to_all():
    experience = _experience(_entry("freeze the abo", FREEZE, by=ANNA), name_others=True)
    assert "freeze the abo" in _reason(experience, "freeze the abo", by=BORIS)


def test_somebodys_requests_can_be_forgotten():
    experience = _experience(_entry("freeze my abo", FREEZE, by=ANNA), _entry("freeze my abo", FREEZE, by=BORIS))
    assert experience.forget_principal(ANNA) == 1
    assert _score(experience, "freeze my abo", by=ANNA) > 0
    assert experience.forget_principal(BORIS) == 1
    assert len(experience) == 0


# --- poisoning ------------------------------------------------------------------------------------------------------------


def _raw(experience: Experience, text: str, tool: Tool, by: Principal) -> float:
    """The learned score before it is brought to 0 to 1: the length of the vector of likenesses and their weighed sum."""
    score = _score(experience, text, tool, by=by)
    return score / (1 - score)


def test_one_principal_alone_lifts_a_tool_for_others_by_three_quarters_of_one_request_however_often_they_ask():
    """The bound: a quarter of one identical request, in length and twice in sum."""
    flood = _experience(*(_entry("freeze my abo", ROOM, by=MALLORY) for _ in range(500)))
    one = _experience(_entry("freeze my abo", ROOM))
    assert _raw(flood, "freeze my abo", ROOM, BORIS) <= 0.25 * 3 + 1e-3
    assert _raw(one, "freeze my abo", ROOM, BORIS) == pytest.approx(3.0, rel=0.01)


def test_one_principal_does_not_outshout_what_two_others_say():
    honest = [_entry("freeze my abo", FREEZE, by=who) for who in (ANNA, Principal(id="clara"))]
    flood = [_entry("freeze my abo", ROOM, by=MALLORY) for _ in range(1_000)]
    experience = _experience(*honest, *flood)
    assert _score(experience, "freeze my abo", FREEZE, by=BORIS) > _score(experience, "freeze my abo", ROOM, by=BORIS)


def test_a_flood_does_not_take_from_others_what_they_said():
    honest = [_entry("freeze my abo", FREEZE, by=Principal(id=f"user{n}")) for n in range(4)]
    quiet = _experience(*honest)
    flood = [_entry("freeze my abo", ROOM, by=MALLORY) for _ in range(1_000)]
    loud = _experience(*honest, *flood)
    before, after = (_raw(each, "freeze my abo", FREEZE, BORIS) for each in (quiet, loud))
    assert after >= 0.9 * before


def test_whoever_has_most_loses_the_oldest_when_the_memory_is_full():
    flood = [_entry(f"room {n}", ROOM, by=MALLORY) for n in range(500)]
    honest = [_entry(f"freeze abo {n}", FREEZE, by=ANNA) for n in range(30)]
    experience = _experience(*honest, *flood, most_entries=100)
    assert len(experience) == 100
    assert experience.forget_principal(ANNA) == 30


def test_what_is_too_old_is_forgotten():
    day = 86_400.0
    experience = _experience(_entry("freeze my abo", FREEZE, at=9 * day), _entry("what do I owe", INVOICE, at=90 * day))
    assert len(experience) == 1


def test_hostile_entries_are_taken_or_left_never_raised_at():
    experience = _experience(
        _entry("\ud800 \0" * 5_000, FREEZE),
        _entry("", FREEZE),
        _entry("x " * 100_000, FREEZE),
        _entry("no tools"),
        _entry("too many", *TOOLS[:20]),
    )
    assert len(experience) <= 2
    assert _score(experience, "x x x \ud800") >= 0


# --- tools used together --------------------------------------------------------------------------------------------------


def test_tools_of_one_conversation_are_used_together():
    experience = _experience(
        *(
            entry
            for n in range(6)
            for entry in (_entry("freeze", FREEZE, group=f"talk {n}"), _entry("and owe", INVOICE, group=f"talk {n}"))
        ),
        _entry("room", ROOM),
    )
    pairs = CoUse(experience)(CATALOG)
    assert pairs["membership_hold", "billing_list"] == pairs["billing_list", "membership_hold"] == 6 / 8
    assert not any("room_booking" in pair for pair in pairs)


def test_one_principal_makes_no_rule_of_two_tools():
    experience = _experience(
        *(_entry("both", FREEZE, ROOM, group=f"talk {n}", by=MALLORY) for n in range(50)),
    )
    assert CoUse(experience)(CATALOG)["membership_hold", "room_booking"] <= 3 / 50


def test_of_several_tenants_nobody_teaches_another_which_tools_go_together():
    talks = [_entry("both", FREEZE, ROOM, group=f"talk {n}", by=Principal(id=f"user{n}")) for n in range(9)]
    together = ("membership_hold", "room_booking")
    assert together in CoUse(_experience(*talks))(CATALOG)
    assert not CoUse(_experience(*talks, _entry("room", ROOM, by=STRANGER)))(CATALOG)
    assert not CoUse(_experience(*talks, scope="principal"))(CATALOG)
    operators = _entry("both", FREEZE, ROOM)
    assert together in CoUse(_experience(*talks, operators, scope="principal"))(CATALOG)
