"""The next steps that the authors of the five sources named, and those that they discarded."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import left_out
from benchmarks.__main__ import BENCHMARKS
from tests.databases import database_url
from tests.embedders.models import Meanings
from tests.requirements.scenes import (
    Recorder,
    catalog_names,
    function,
    names,
    names_categories,
    tool_texts,
    user_messages,
    work,
)
from tests.test_tool_config_agents import DONE, FORCED, FOUND, agent
from toolcaddie import PRESETS, Runtime, tool
from toolcaddie.control.policy.cedar import CedarPolicy, Restrictions
from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.events import CallFinished, ClaimsUnsupported
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.run import Limits, RunRequest
from toolcaddie.core.selection import QueryWords, Selection
from toolcaddie.learning import Experience, LogEntry, called
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def runtime(source: Any, preset: Any = "default", **options: Any) -> Runtime:
    return Runtime(provider=ScriptedProvider(lambda request: say("hi")), sources=[source], preset=preset, **options)


def request_of(*texts: str, **options: Any) -> RunRequest:
    return RunRequest(messages=user_messages(*texts), **options)


# ---------------------------------------------------------------- by role


def gym_desk() -> FunctionSource:
    made = [
        function("refund_members", category="members", roles=["admin"]),
        function("plan_training", category="members", roles=["admin", "trainer"]),
        function("show_members", category="members"),
    ]
    return FunctionSource("desk", made, categories=[Category(name="members", keywords=("members",))])


@pytest.mark.proves("A-2")
@pytest.mark.parametrize(
    ("role", "seen"),
    [
        ("admin", ["refund_members", "plan_training", "show_members"]),
        ("trainer", ["plan_training", "show_members"]),
        ("client", ["show_members"]),
        (None, ["show_members"]),
    ],
)
@pytest.mark.parametrize("preset", ["default", "budget", "keyword", "multibot"])
async def test_what_is_selected_depends_on_the_role(preset: str, role: str | None, seen: list[str]) -> None:
    made = runtime(gym_desk(), preset)
    await made.run("all members", principal=Principal(role=role))
    assert catalog_names(made.provider.requests[0]) == seen


@pytest.mark.proves("A-2")
async def test_a_role_protects_listing_searching_looking_and_running_too() -> None:
    looks = [("list_tools", {}), ("search_tools", {"query": "refund members"})]
    runs = [
        ("get_tool_schema", {"tool_name": "refund_members"}),
        ("execute_tool", {"tool_name": "refund_members", "arguments": {}}),
        ("refund_members", {}),
    ]
    provider, recorder = ScriptedProvider([calls(*looks, *runs), say("done")]), Recorder()
    made = Runtime(provider=provider, sources=[gym_desk()], preset="compact", sinks=[recorder])
    trainer = Principal(role="trainer")
    await made.run("refund", principal=trainer)
    listed, results, *refused = tool_texts(provider.requests[1])
    assert [each["name"] for each in msgspec.json.decode(listed)["tools"]] == ["plan_training", "show_members"]
    assert "refund_members" not in results
    assert all("no tool 'refund_members'" in text for text in refused)
    direct = await made.call("refund_members", {}, principal=trainer)
    assert (direct.success, direct.error) == (False, "unknown_tool")
    assert (await made.call("refund_members", {}, principal=Principal(role="admin"))).success
    assert [event.call.name for event in recorder.of(CallFinished) if not event.result.is_error] == ["refund_members"]


# ---------------------------------------------------------------- scores


def lessons() -> FunctionSource:
    """Two categories that share a word, one of them with a phrase, and one that shares nothing."""
    made = [function(f"{name}_{n}", category=name) for name in ("alpha", "beta", "gamma") for n in range(6)]
    categories = [
        Category(name="alpha", keywords=("group class",)),
        Category(name="beta", keywords=("class",)),
        Category(name="gamma", keywords=("pool",)),
    ]
    return FunctionSource("lessons", made, categories=categories)


def six_places(**options: Any) -> Runtime:
    base = PRESETS["default"]
    ranked = replace(base, budget=replace(base.budget, max_tools=6, policy="ranked"))
    return runtime(lessons(), ranked, **options)


def score(made: Runtime, name: str, *texts: str) -> float:
    value: float = made.explain(name, request_of(*texts)).score
    return value


@pytest.mark.proves("A-3")
def test_a_phrase_counts_more_than_a_word_and_the_best_categories_are_taken() -> None:
    """Both match; a yes or no would give each of them half of the places."""
    made = six_places()
    selection = made.select(request_of("a group class please"))
    assert selection.matched == ("alpha", "beta")
    assert score(made, "alpha_0", "a group class please") > score(made, "beta_0", "a group class please") > 0
    assert {name.split("_")[0] for name in selection.names} == {"alpha"}
    assert selection.starved == ("beta",)


@pytest.mark.proves("A-3")
def test_what_was_said_just_now_counts_more_than_what_was_said_before() -> None:
    made = six_places()
    now, before = score(made, "gamma_0", "the pool"), score(made, "gamma_0", "the pool", "and a group class")
    assert now > before > 0
    selection = made.select(request_of("a group class", "the pool"))
    assert selection.matched == ("alpha", "beta", "gamma")
    assert {name.split("_")[0] for name in selection.names} == {"gamma"}


@pytest.mark.proves("A-3")
async def test_what_was_called_after_requests_like_this_one_counts_too() -> None:
    taught = six_places(experience=Experience())
    gamma = taught.source.snapshot().get("gamma_3")
    assert gamma is not None
    await taught.learn(
        LogEntry(words=QueryWords(messages=((f"{verb} my {thing}", 1.0),)), tools=(called(gamma),))
        for verb in ("freeze", "pause", "interrupt", "stop")
        for thing in ("abo", "pass", "card", "plan", "ticket", "subscription", "season", "fees")
    )
    assert "gamma_3" in taught.select(request_of("freeze the abo of John")).names
    assert score(taught, "gamma_3", "freeze the abo of John") > 0
    assert score(six_places(), "gamma_3", "freeze the abo of John") < score(taught, "gamma_3", "freeze the abo of John")


@pytest.mark.proves("A-3")
def test_every_tool_sent_says_its_score_and_why() -> None:
    selection: Selection = six_places().select(request_of("a group class please"))
    assert all(0 < each.score <= 1 and each.reasons for each in selection.tools)
    assert len({each.score for each in selection.tools}) > 1


# ---------------------------------------------------------------- by meaning

ASKED = "I am away in August, pause everything please"
"""Shares no word with the tool that does it."""


def office(count: int = 60) -> FunctionSource:
    @tool
    def stop_membership() -> str:
        """Freeze a membership."""
        return "stopped"

    return FunctionSource("office", [stop_membership, *(function(f"report_{n}") for n in range(count))])


@pytest.mark.proves("A-4")
async def test_an_embedder_finds_by_meaning_and_what_it_misses_can_be_asked_for() -> None:
    more = call(REQUEST_MORE_TOOLS, {"query": "report 59"})
    provider = ScriptedProvider([more, call("report_59"), say("done")])
    made = Runtime(provider=provider, sources=[office()], embedder=Meanings())
    result = await made.run(ASKED)
    first, second, _ = map(names, provider.requests)
    assert "stop_membership" in first
    assert REQUEST_MORE_TOOLS in first
    assert "report_59" not in first
    assert second[: len(first)] == first
    assert result.tool_calls == ("report_59",)


@pytest.mark.proves("A-4")
@pytest.mark.parametrize("most", [1, 3])
def test_the_nearest_so_many_are_taken(most: int) -> None:
    base = PRESETS["default"]
    preset = replace(base, budget=replace(base.budget, max_tools=most))
    selection = runtime(office(), preset, embedder=Meanings()).select(request_of(ASKED))
    assert "stop_membership" in selection.names
    assert len(selection.names) <= most


@pytest.mark.proves("A-4")
async def test_vectors_stand_in_a_table_and_a_tool_is_embedded_when_it_is_registered(tmp_path: Path) -> None:
    """Not with every request, and not again after a restart."""
    async with Database(database_url(tmp_path / "vectors.sqlite")) as database:
        first, source = Meanings(), office()
        made = Runtime(
            provider=ScriptedProvider(lambda request: say("hi")),
            sources=[source],
            embedder=first,
            documents=database.store,
        )
        await made.prepare()
        assert any("Freeze a membership" in text for text in first.asked)
        before = len(first.asked)
        source.add(function("holiday_form"))
        await made.prepare()
        assert {text.split(":")[0] for text in first.asked[before:]} == {"holiday form"}
        await made.close()
    async with Database(database_url(tmp_path / "vectors.sqlite")) as database:
        again = Meanings()
        made = Runtime(
            provider=ScriptedProvider(lambda request: say("hi")),
            sources=[source],
            embedder=again,
            documents=database.store,
        )
        await made.run(ASKED)
        assert again.asked == [ASKED]
        assert "stop_membership" in names(made.provider.requests[0])
        await made.close()


@pytest.mark.proves("A-4")
def test_the_embedder_for_tests_is_local_and_always_says_the_same() -> None:
    """The table of words that every install brings: no network, no model, the same vectors each time."""
    selections = [runtime(office()).select(request_of("halt my subscription")) for _ in range(2)]
    assert [(each.tool.name, each.score) for each in selections[0].tools] == [
        (each.tool.name, each.score) for each in selections[1].tools
    ]


# ---------------------------------------------------------------- redistribution


CATEGORIES = [f"c{number}" for number in range(6)]
WHOLE = 12


@lru_cache
def redistributing(budget: int) -> Runtime:
    base = PRESETS["budget"]
    preset = replace(base, budget=replace(base.budget, max_tools=budget, redistribute=True))
    return runtime(work(**dict.fromkeys(CATEGORIES, WHOLE)), preset)


@pytest.mark.proves("A-5")
@given(
    sizes=st.lists(st.integers(0, WHOLE), min_size=1, max_size=len(CATEGORIES)), budget=st.sampled_from((1, 2, 8, 17))
)
@settings(deadline=None)
def test_redistribution_gives_out_the_whole_budget_or_all_there_is(sizes: list[int], budget: int) -> None:
    """The sizes come of hiding the last tools of each category from the caller."""
    categories = CATEGORIES[: len(sizes)]
    hidden = [f"{name}_{n}" for name, size in zip(categories, sizes, strict=True) for n in range(size, WHOLE)]
    selection = redistributing(budget).select(request_of("go", categories=categories, disabled_tools=hidden))
    assert len(selection.names) == len(set(selection.names)) == min(budget, sum(sizes))
    assert not set(selection.names) & set(hidden)


# ---------------------------------------------------------------- the switch


@pytest.mark.proves("A-7")
@pytest.mark.parametrize("preset", ["budget", "default"])
async def test_the_meta_tool_is_a_setting_of_the_preset_and_everything_else_goes_on_without_it(preset: str) -> None:
    base = PRESETS[preset]
    off = replace(base, meta=tuple(name for name in base.meta if name != REQUEST_MORE_TOOLS))
    script = [call("notes_0", {"text": "x"}), call(REQUEST_MORE_TOOLS, {"categories": ["web"]}), say("done")]
    on_off = {}
    for name, variant in (("on", base), ("off", off)):
        provider = ScriptedProvider(list(script))
        made = Runtime(provider=provider, sources=[work(notes=40, web=40)], preset=variant)
        result = await made.run("notes")
        assert (result.text, result.tool_calls) == ("done", ("notes_0",))
        on_off[name] = provider.requests
    assert REQUEST_MORE_TOOLS in names(on_off["on"][0])
    assert [REQUEST_MORE_TOOLS in names(request) for request in on_off["off"]] == [False] * 3
    assert len(names(on_off["on"][2])) > len(names(on_off["on"][0]))
    assert names(on_off["off"][2]) == names(on_off["off"][0])
    assert "no tool" in tool_texts(on_off["off"][2])[1]
    assert not any(REQUEST_MORE_TOOLS in m.text for m in on_off["off"][0].messages if m.role == "system")


# ---------------------------------------------------------------- reading and writing apart


@pytest.mark.proves("A-8")
async def test_a_large_category_split_in_two_shows_writes_to_those_who_ask_to_write() -> None:
    """As data: writing brings reading along, reading brings nothing; the other half is one request away."""
    reads = [function(f"show_client_{n}", category="clients_read", read_only=True) for n in range(6)]
    writes = [function(f"update_client_{n}", category="clients_write") for n in range(6)]
    categories = [
        Category(name="clients_read", keywords=("show client", "client")),
        Category(name="clients_write", keywords=("update client", "change client"), related=("clients_read",)),
    ]
    source = FunctionSource("clients", [*reads, *writes], categories=categories)
    read = runtime(source, "keyword").select(request_of("who is this client?"))
    assert {each.tool.category for each in read.tools} == {"clients_read"}
    assert all(each.tool.annotations.read_only for each in read.tools)
    write = runtime(source, "keyword").select(request_of("please update client 7"))
    assert [each.tool.category for each in write.tools] == ["clients_read"] * 6 + ["clients_write"] * 6
    more = call(REQUEST_MORE_TOOLS, {"categories": ["clients_write"]})
    provider = ScriptedProvider([more, call("update_client_0"), say("done")])
    made = Runtime(provider=provider, sources=[source], preset="budget", classifier=names_categories("clients_read"))
    result = await made.run("who is this client?")
    assert not any(name.startswith("update") for name in names(provider.requests[0]))
    assert result.tool_calls == ("update_client_0",)


# ---------------------------------------------------------------- cache keys and policies of one's own


@pytest.mark.proves("A-11")
async def test_a_key_of_ones_own_and_each_tools_own_ttl_say_what_is_kept_and_how_long() -> None:
    ran: list[str] = []

    @tool(read_only=True)
    def find(title: str, page: int = 0) -> str:
        """Find a title; of the page the key knows nothing."""
        ran.append(f"find {title}")
        return title

    @tool(read_only=True, cache_ttl=0)
    def stock() -> str:
        """Counts them; the result is never cached."""
        ran.append("stock")
        return "3"

    def key(name: str, params: Mapping[str, Any]) -> str:
        return f"{name}:{str(params.get('title', '')).lower()}"

    rounds = [
        calls(("find", {"title": "Bees"}), ("stock", {})),
        calls(("find", {"title": "bees", "page": 2}), ("stock", {})),
    ]
    config = {**FORCED, "cacheResults": {"key": key}}
    script = [step for each in rounds for step in (each, DONE)]
    async with agent(script, config, sources=[find, stock]) as mine:
        await mine.chat()
        await mine.chat()
    assert sorted(ran) == ["find Bees", "stock", "stock"]  # those of one turn run side by side


# ---------------------------------------------------------------- what was left out on purpose

DECISIONS = (
    "A budget of 16",
    "Proportional shares without the minimum of two tools per category.",
    "The meta tool as a tool of a source.",
    "Policy and audit for the meta tool.",
    "A separate prompt with the categories.",
)


@pytest.mark.proves("A-18")
def test_each_decision_is_written_down_beside_the_benchmark_that_may_re_open_it() -> None:
    page = (ROOT / "docs" / "presets.md").read_text().partition("## Deliberately not built")[2]
    assert "python -m benchmarks left_out" in page
    for decision in DECISIONS:
        assert f"**{decision}**" in page
    assert "left_out" in BENCHMARKS


@pytest.mark.proves("A-18")
def test_the_figures_still_say_what_was_decided() -> None:
    small, large, *shares, listed = left_out.run()
    assert isinstance(small, left_out.Reach)
    assert isinstance(large, left_out.Reach)
    assert isinstance(listed, left_out.Listed)
    assert small.wrong == large.wrong == 0, "a bigger budget does not mend a wrong first stage"
    assert small.mended == small.right > 0.9, "one expansion does"
    assert [(share.minimum, share.fair) for share in shares if isinstance(share, left_out.Shares)] == [
        (2, 2),
        (4, 4),
        (4, 5),
        (4, 8),
    ]
    assert listed.in_schema <= listed.in_prompt


# ---------------------------------------------------------------- the guides


def _section(page: str, title: str) -> str:
    text = (ROOT / "docs" / page).read_text()
    assert f"\n## {title}\n" in text
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.proves("A-10")
def test_the_guide_from_a_static_list_ends_with_a_selection_of_the_same_definitions() -> None:
    section = _section("moving-over.md", "From a static list to a selection")
    before, after = re.findall(r"```(?:text|python)\n(.*?)```", section, re.DOTALL)[:2]
    assert "tools=ALL_TOOLS" in before
    made: dict[str, Any] = {}
    exec(compile(after, "moving-over.md", "exec"), made)
    listed = {tool["function"]["name"]: tool["function"]["description"] for tool in made["ALL_TOOLS"]}
    picked = {tool["function"]["name"]: tool["function"]["description"] for tool in made["tools"]}
    assert "send_invoice" in picked
    assert picked.items() < listed.items()


@pytest.mark.proves("A-10")
async def test_the_guide_from_a_plain_agent_begins_with_one_setting_that_changes_no_request() -> None:
    section = _section("forcing.md", "From a plain agent")
    assert '`tool_config={"forceToolUse": True}` and change nothing else' in section
    assert "(forcing.md#from-a-plain-agent)" in (ROOT / "docs" / "moving-over.md").read_text()
    async with agent([FOUND, DONE]) as plain, agent([FOUND, DONE], {"forceToolUse": True}) as configured:
        assert (await plain.chat()).text == (await configured.chat()).text
    assert len(plain.upstream.bodies) == 2
    assert plain.upstream.bodies == configured.upstream.bodies


@pytest.mark.proves("A-10")
def test_a_guide_for_every_way_of_moving_over_is_linked_from_the_first_page() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "(docs/moving-over.md)" in readme
    assert "(docs/forcing.md)" in readme


# ---------------------------------------------------------------- hundreds of tools


@pytest.mark.proves("A-13")
@pytest.mark.parametrize("count", [500, 1_000])
async def test_memory_does_not_grow_from_request_to_request(count: int) -> None:
    """Every request loads all tools and calls three of them; between requests none of that is left."""

    def script(request: Any) -> Any:
        if any(message.role == "tool" for message in request.messages):
            return call("respond", {"message": "done"})
        places = (0, count // 2, count - 1)
        return calls(*(("execute_tool", {"tool_name": f"work_{n}", "arguments": {}}) for n in places))

    provider = ScriptedProvider(script)
    made = Runtime(provider=provider, sources=[work(work=count)], preset="compact")

    async def requests(number: int) -> None:
        for _ in range(number):
            assert (await made.run("go")).text == "done"
        provider.requests.clear()
        gc.collect()

    await requests(5)
    tracemalloc.start()
    try:
        await requests(5)
        before = tracemalloc.get_traced_memory()[0]
        await requests(25)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 8 * 1024, "25 requests left something behind"


# ---------------------------------------------------------------- the later steps


def a_gym() -> FunctionSource:
    """Two categories with a reading and a changing tool each."""
    made = [
        function("show_members", category="members", read_only=True),
        function("delete_member", category="members", destructive=True),
        function("show_invoices", category="invoices", read_only=True),
        function("send_invoice", category="invoices"),
    ]
    return FunctionSource(
        "gym", made, categories=[Category(name=name, keywords=(name,)) for name in ("members", "invoices")]
    )


MATRIX = {
    "admin": Restrictions(),
    "trainer": Restrictions(categories=("members",), ask=("delete_*",)),
    "clerk": Restrictions(deny=("delete_*",)),
    "guest": Restrictions(categories=("invoices",), deny=("*_invoice*",)),
}


@pytest.mark.proves("A-21")
@pytest.mark.parametrize(
    ("role", "permitted"),
    [
        ("admin", {"show_members": "ok", "delete_member": "asked", "show_invoices": "ok", "send_invoice": "ok"}),
        ("trainer", {"show_members": "ok", "delete_member": "asked", "show_invoices": "none", "send_invoice": "none"}),
        ("clerk", {"show_members": "ok", "delete_member": "none", "show_invoices": "ok", "send_invoice": "ok"}),
        ("guest", dict.fromkeys(("show_members", "delete_member", "show_invoices", "send_invoice"), "none")),
    ],
)
async def test_permissions_are_a_matrix_of_roles_categories_and_tools(role: str, permitted: dict[str, str]) -> None:
    """`none`: such callers neither see the tool nor run it. `asked`: a person must approve its calls."""
    made = runtime(a_gym(), policy=CedarPolicy(roles=MATRIX))
    principal = Principal(role=role)
    await made.run("members and invoices", principal=principal)
    seen = {name for name, outcome in permitted.items() if outcome != "none"}
    assert set(catalog_names(made.provider.requests[0])) == seen
    for name, outcome in permitted.items():
        result = await made.call(name, {"text": "x"}, principal=principal)
        assert (result.success, result.error) == {
            "ok": (True, None),
            "none": (False, "unknown_tool"),
            "asked": (False, "denied"),
        }[outcome]


@pytest.mark.proves("A-21")
async def test_one_call_of_a_program_makes_several_calls_and_each_passes_the_policy() -> None:
    code = "for n in [1, 2]:\n  print(await show_members(text=str(n)))\ntry:\n  await delete_member(text='3')\n"
    code += "except RuntimeError as error:\n  print(error)"
    provider = ScriptedProvider([call("run_program", {"code": code}), say("That is all.")])
    rules = 'forbid (principal, action == Action::"call", resource == Tool::"delete_member");'
    preset = replace(PRESETS["default"], programs="always")
    options: dict[str, Any] = {"policy": CedarPolicy(text=rules), "preset": preset, "programs": "monty"}
    async with Runtime(provider=provider, sources=[a_gym()], **options) as made:
        result = await made.run("all members")
    assert result.tool_calls == ("show_members", "show_members")
    (read,) = tool_texts(provider.requests[1])
    assert read.startswith("show_members ran with '1'\nshow_members ran with '2'\n")
    assert "Not allowed" in read
    assert len(provider.requests) == 2


@pytest.mark.proves("A-21")
async def test_the_model_asks_for_more_tools_by_a_query_and_the_scores_decide_which_join() -> None:
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"query": "report 59"}), call("report_59"), say("done")])
    made = Runtime(provider=provider, sources=[office()])
    result = await made.run("freeze a membership")
    first, second, _ = map(names, provider.requests)
    assert "report_59" in set(second) - set(first)
    assert result.tool_calls == ("report_59",)
    found = [each.name for each in await made.desk().search("report 59")]
    scores = [score(made, name, "report 59") for name in found]
    assert found[0] == "report_59"
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]


@pytest.mark.proves("A-21")
async def test_a_model_that_goes_round_in_circles_is_warned_and_then_loses_its_tools() -> None:
    def script(request: Any) -> Any:
        return call("show_members", {"text": "x"}) if request.tools else say("I give up.")

    preset = replace(PRESETS["default"], limits=Limits(rounds=10, repeats_warn=2, repeats_stop=3))
    provider = ScriptedProvider(script)
    result = await Runtime(provider=provider, sources=[a_gym()], preset=preset).run("all members")
    assert (result.text, result.tool_calls) == ("I give up.", ("show_members",) * 3)
    assert ["in a row" in text for text in tool_texts(provider.requests[-1])] == [False, True, True]


@pytest.mark.proves("A-21")
@pytest.mark.parametrize("preset", ["default", "budget", "keyword", "multibot"])
@pytest.mark.parametrize("approved", [True, False])
async def test_what_an_answer_says_was_done_is_compared_with_the_calls(preset: str, approved: bool) -> None:
    """The text is never changed; it is marked for the caller, for the person and in the trail."""
    text = "The member has been deleted, as you asked."
    provider, recorder = ScriptedProvider([call("delete_member", {"text": "John"}), say(text)]), Recorder()
    made = Runtime(provider=provider, sources=[a_gym()], preset=preset, sinks=[recorder])
    paused = await made.run("delete the member John; look at all members")
    (asked,) = await made.approvals.list("default", status="open")
    await made.approvals.answer("default", asked.id, approved=approved, by=Principal(id="boss"))
    result = await made.resume(paused.run_id)
    assert result.text == text
    marked = [claim for event in recorder.of(ClaimsUnsupported) for claim in event.claims]
    assert list(result.unsupported_claims) == marked
    assert [(claim.action, claim.text) for claim in marked] == ([] if approved else [("destroy", text)])
