"""`toolcaddie eval`: figures on labelled requests, and what real trails say of use, misses and other configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.testing import Reply, ScriptedUpstream, call, say

KEY = "MY_TEST_KEY"

TOOLS = {
    "freeze_membership": ("Pause a membership for some weeks", "memberships"),
    "cancel_membership": ("End a membership for good", "memberships"),
    "list_invoices": ("List unpaid invoices of a client", "billing"),
    "send_invoice": ("Send an invoice to a client", "billing"),
    "book_court": ("Reserve a tennis court", "courts"),
    "list_courts": ("Show which tennis courts are free", "courts"),
}
REQUESTS: Sequence[tuple[str, list[str]]] = (
    ("freeze the membership", ["freeze_membership"]),
    ("cancel the membership", ["cancel_membership"]),
    ("list the invoices", ["list_invoices"]),
    ("send the invoice", ["send_invoice"]),
    ("book a court, then list the courts", ["book_court", "list_courts"]),
    ("qqq zzz", []),
)


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    lines = [
        {"name": name, "description": said, "parameters": {}, "category": category}
        for name, (said, category) in TOOLS.items()
    ]
    return write_lines(tmp_path / "tools.jsonl", lines)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    lines = [{"query": query, "gold": gold, "id": "more keys are allowed"} for query, gold in REQUESTS]
    return write_lines(tmp_path / "queries.jsonl", lines)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key for the scripted model, and a budget under which a tool is easily missed."""
    monkeypatch.setenv(KEY, "test-key")
    (tmp_path / "toolcaddie.toml").write_text("[budget]\nmax_tools = 2\n")


def run_scripted(toolcaddie: CommandLine, message: str, *replies: Reply) -> str:
    """A run of the real loop on the gym, with a model that answers as told; its id."""
    with ScriptedUpstream(list(replies)) as upstream:
        told = toolcaddie.json(
            "run",
            message,
            "--catalog",
            "gym",
            "--upstream",
            upstream.base_url,
            "--upstream-key-env",
            KEY,
            "--model",
            "m",
        )
    return str(told["run_id"])


# --- figures ------------------------------------------------------------------------------------------------------------


def test_eval_prints_the_figures_that_can_be_counted_by_hand(
    toolcaddie: CommandLine, catalog: Path, queries: Path
) -> None:
    told = toolcaddie.json("eval", "--catalog", catalog, "--queries", queries, "--signals", "lexical")
    assert told["configuration"] == "lexical"
    metrics = told["metrics"]
    assert metrics["recall@1"] == 0.9  # four of five requests have one tool, the fifth has two and one place
    assert metrics["recall@2"] == metrics["recall@3"] == metrics["recall@4"] == metrics["recall@5"] == 1.0
    assert (metrics["complete@1"], metrics["complete@5"], metrics["complete@10"]) == (0.8, 1.0, 1.0)
    assert metrics["ndcg@10"] == 1.0
    assert told["no_fit"] == {"auroc": 1.0, "false_nothing": 0.0, "caught": 1.0}
    assert 0 < told["latency_ms"]["p50"] <= told["latency_ms"]["p99"]
    assert 0 < told["tokens"]["sent"] <= told["tokens"]["all"]
    assert told["requests"] == {"all": 6, "fitting": 5, "nothing_fits": 1, "groups": 6, "unknown_tools": []}
    for name, (low, high) in told["intervals"]["metrics"].items():
        assert low <= metrics[name] <= high, name


def test_a_catalog_by_name_is_measured_as_it_is_served(toolcaddie: CommandLine, tmp_path: Path) -> None:
    asked = write_lines(tmp_path / "q.jsonl", [{"query": "freeze John's membership", "gold": ["freeze_membership"]}])
    told = toolcaddie.json("eval", "--catalog", "gym", "--queries", asked)
    selected = toolcaddie.json("select", "freeze John's membership", "--catalog", "gym")
    assert told["catalog"]["tools"] == 137
    assert told["metrics"]["recall@1"] == 1.0
    assert told["tokens"]["all"] == selected["tokens"]["all"]
    assert told["tokens"]["sent"] < selected["tokens"]["sent"]  # without the meta tools


def test_history_is_read_as_it_was_said(toolcaddie: CommandLine, catalog: Path, tmp_path: Path) -> None:
    line = {"query": "yes, do it", "gold": ["freeze_membership"]}
    alone = write_lines(tmp_path / "alone.jsonl", [line])
    history = ["user: can you freeze a membership?", "assistant: Yes. Shall I freeze it?"]
    later = write_lines(tmp_path / "later.jsonl", [{**line, "history": history}])
    assert toolcaddie.json("eval", "--catalog", catalog, "--queries", alone)["metrics"]["recall@1"] == 0.0
    assert toolcaddie.json("eval", "--catalog", catalog, "--queries", later)["metrics"]["recall@1"] == 1.0


def test_without_json_a_table_bars_and_sentences_are_printed(
    toolcaddie: CommandLine, catalog: Path, queries: Path
) -> None:
    done = toolcaddie("eval", "--catalog", catalog, "--queries", queries, "--signals", "lexical")
    assert done.exit_code == 0
    assert done.stdout.startswith("6 tools, 6 requests; no tool fits 1 of them\n")
    assert re.search(r"^lexical +1\.000 ±0\.000 ", done.stdout, re.MULTILINE)
    assert re.search(r"^recall@1 +█+.* 0\.900$", done.stdout, re.MULTILINE)
    assert "it rejects 100.0% of the requests that no tool fits" in done.stdout
    assert done.stderr == ""  # no progress where there is no terminal


def test_configurations_are_compared_request_by_request_and_in_words(
    toolcaddie: CommandLine, catalog: Path, queries: Path, tmp_path: Path
) -> None:
    (tmp_path / "blind.toml").write_text('[selection]\nrankers = ["characters"]\n[selection.weights]\ncharacters = 0\n')
    told = toolcaddie.json(
        "eval",
        "--catalog",
        catalog,
        "--queries",
        queries,
        "--signals",
        "lexical",
        "--signals",
        "plain",
        "--compare",
        "blind.toml",
    )
    assert [each["configuration"] for each in told["configurations"]] == ["lexical", "plain", "blind"]
    assert told["configurations"][0]["metrics"] == told["metrics"]
    recall = {each["name"]: each for each in told["comparisons"] if each["metric"] == "recall@5"}
    assert recall["blind"]["interval"][0] <= recall["blind"]["difference"] <= recall["blind"]["interval"][1] < 0
    assert recall["blind"]["verdict"] == "blind is worse than lexical"
    assert recall["plain"]["than"] == "lexical"


@pytest.mark.parametrize(("least", "code"), [(1.0, 0), (0.95, 0)])
def test_enough_recall_passes_the_gate(
    toolcaddie: CommandLine, catalog: Path, queries: Path, least: float, code: int
) -> None:
    done = toolcaddie("eval", "--catalog", catalog, "--queries", queries, "--min-recall", least)
    assert done.exit_code == code
    assert "recall@5 of default is 1.0000, at least" in done.stderr


def test_too_little_recall_exits_with_1_and_says_so_and_the_figures_are_still_printed(
    toolcaddie: CommandLine, catalog: Path, queries: Path
) -> None:
    done = toolcaddie("eval", "--catalog", catalog, "--queries", queries, "--at", 1, "--min-recall", "0.95", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["metrics"]["recall@1"] == 0.9
    error = json.loads(done.stderr)["error"]
    assert error["message"] == "recall@1 of default is 0.9000, below --min-recall 0.95"


def test_a_log_teaches_what_words_alone_do_not_say(toolcaddie: CommandLine, tmp_path: Path) -> None:
    slang = [{"query": f"show me a break till {day}", "gold": ["freeze_membership"]} for day in range(40)]
    others = [{"query": f"send me to the mountains at {hour}", "gold": ["get_surveys"]} for hour in range(40)]
    log = write_lines(tmp_path / "log.jsonl", [*slang, *others])
    asked = write_lines(
        tmp_path / "asked.jsonl",
        [
            {"query": "show me a break till monday", "gold": ["freeze_membership"]},
            {"query": "send me to the mountains tonight", "gold": ["get_surveys"]},
        ],
    )
    command = ("eval", "--catalog", "gym", "--queries", asked, "--signals", "lexical")
    assert toolcaddie.json(*command)["metrics"]["recall@5"] == 0.0
    assert toolcaddie.json(*command, "--train", log)["metrics"]["recall@5"] == 1.0


def test_a_catalog_that_could_not_be_served_is_measured_and_that_is_said(
    toolcaddie: CommandLine, queries: Path, tmp_path: Path
) -> None:
    lines = [{"name": name, "description": said, "original_name": name} for name, (said, _) in TOOLS.items()]
    done = toolcaddie("eval", "--catalog", write_lines(tmp_path / "odd.jsonl", lines), "--queries", queries, "--json")
    assert json.loads(done.stdout)["metrics"]["recall@5"] == 1.0
    assert "odd.jsonl:1" in done.stderr
    assert "original_name" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give labelled requests: --queries FILE, or --log"),
        (("--queries", "queries.jsonl", "--log"), "give labelled requests"),
        (("--queries", "queries.jsonl", "--write", "w.toml"), "--write goes with --fit"),
        (("--queries", "queries.jsonl", "--preset", "compact"), "does not select tools"),
        (("--queries", "queries.jsonl", "--compare", "nonsense"), "neither a preset"),
        (("--queries", "queries.jsonl", "--compare", "default"), "compared with itself"),
        (("--queries", "empty.jsonl"), "empty.jsonl holds no requests"),
        (("--queries", "broken.jsonl"), "broken.jsonl, line 2"),
        (("--queries", "foreign.jsonl"), "the catalog has none of the right tools (fly_to_moon"),
        (("--queries", "unlabelled.jsonl"), "no request has a right tool"),
        (("--queries", "queries.jsonl", "--train", "broken.jsonl"), "broken.jsonl, line 2"),
        (("--queries", "queries.jsonl", "--hints", "broken.jsonl"), "broken.jsonl, line 1"),
        (("--log",), "holds no run that selected tools"),
        (("--queries", "few.jsonl", "--fit"), "1 independent requests are too few"),
    ],
)
def test_wrong_use_is_refused_in_one_line(
    toolcaddie: CommandLine, catalog: Path, queries: Path, tmp_path: Path, words: Sequence[str], said: str
) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "broken.jsonl").write_text('{"query": "a", "gold": []}\n{"query": "a", "gold"\n')
    write_lines(tmp_path / "foreign.jsonl", [{"query": "a", "gold": ["fly_to_moon"]}])
    write_lines(tmp_path / "unlabelled.jsonl", [{"query": "a", "gold": []}])
    write_lines(tmp_path / "few.jsonl", [{"query": "a court", "gold": ["book_court"]}])
    assert said in toolcaddie.refused("eval", "--catalog", catalog, *words)


# --- weights ------------------------------------------------------------------------------------------------------------


def test_fit_recommends_nothing_where_nothing_is_to_be_gained(
    toolcaddie: CommandLine, catalog: Path, queries: Path, tmp_path: Path
) -> None:
    done = toolcaddie("eval", "--catalog", catalog, "--queries", queries, "--fit", "--write", "w.toml")
    assert "that is no gain beyond chance: keep the present weights" in done.stdout
    assert "w.toml is not written" in done.stderr
    assert not (tmp_path / "w.toml").exists()


def test_fitted_weights_are_a_piece_of_a_settings_file_and_gain_what_was_said(
    toolcaddie: CommandLine, tmp_path: Path
) -> None:
    """Names that mislead: the right tool is the one whose description says it, the other only sounds like it."""
    things = ["lamp", "door", "car", "boat", "tree", "book", "song", "shoe", "wall", "roof", "lake", "hill"]
    tools = [
        line
        for thing in things
        for line in (
            {"name": thing, "description": "Reserved"},
            {"name": f"op_{thing[::-1]}x", "description": f"Repair a {thing} that is {thing[::-1]}y"},
        )
    ]
    asked = [
        {"query": f"the {thing} is {thing[::-1]}y {when}", "gold": [f"op_{thing[::-1]}x"]}
        for thing in things
        for when in ("today", "tomorrow", "soon")
    ]
    (tmp_path / "misled.toml").write_text("[selection.weights]\nbm25 = 1\nmentions = 8\n")
    words = (
        "--catalog",
        write_lines(tmp_path / "c.jsonl", tools),
        "--queries",
        write_lines(tmp_path / "r.jsonl", asked),
    )
    misled = ("--config", "misled.toml", "eval", *words)
    told = toolcaddie.json(*misled, "--fit", "--write", "w.toml")
    assert told["fit"]["recommended"]
    assert told["fit"]["gain"] > 0
    assert told["fit"]["weights"]["mentions"] < 8 or told["fit"]["weights"]["bm25"] > 1
    assert (tmp_path / "w.toml").read_text() == told["fit"]["toml"]
    better = toolcaddie.json("--config", "w.toml", "eval", *words)
    assert better["metrics"]["recall@1"] > told["metrics"]["recall@1"]


# --- the log --------------------------------------------------------------------------------------------------------------


def test_the_log_labels_requests_by_what_was_called(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
    toolcaddie.ok("run", "who came today?", "--catalog", "gym")
    toolcaddie.ok("run", "hello", "--catalog", "gym")
    done = toolcaddie("eval", "--catalog", "gym", "--log", "--json")
    assert json.loads(done.stdout)["requests"]["fitting"] == 2
    assert "1 run without a call omitted" in done.stderr


@pytest.mark.proves("A-1")
def test_usage_counts_categories_tools_and_tokens_of_real_runs(toolcaddie: CommandLine) -> None:
    for _ in range(2):
        toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
    toolcaddie.ok("run", "hello, how are you?", "--catalog", "gym", "--preset", "keyword")
    told = toolcaddie.json("eval", "usage", "--catalog", "gym")
    assert (told["runs"], told["with_calls"], told["no_match"]) == (3, 2, 1)
    categories = {use["name"]: use for use in told["categories"]}
    assert (categories["memberships"]["matched"], categories["memberships"]["called"]) == (2, 2)
    assert categories["memberships"]["default"] == 1
    assert (categories["clients"]["related"], categories["clients"]["called"]) == (2, 2)
    assert categories["memberships"]["missed"] == 0
    tools = {use["name"]: use for use in told["tools"]}
    assert tools["freeze_membership"]["calls"] == 2
    assert tools["freeze_membership"]["tokens"] < tools["renew_membership"]["tokens"]  # paid for, and never called
    assert len(tools) == 137
    assert "renew_membership" in told["never_called"]
    assert "get_surveys" in told["never_sent"]
    assert 0 < told["tokens"]["unused"] < told["tokens"]["sent"] < told["tokens"]["all"]
    assert told["tokens"]["exact"]
    assert told["defaults"] == told["related"] == []  # two runs prove nothing


def test_usage_proposes_what_enough_runs_show(toolcaddie: CommandLine) -> None:
    for _ in range(3):
        toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
        for _ in range(2):
            toolcaddie.ok("run", "who came today?", "--catalog", "gym")
    told = toolcaddie.json("eval", "usage", "--catalog", "gym", "--support", 3)
    advised = {each["category"]: each["advice"] for each in told["defaults"]}
    assert advised["clients"] == "keep"
    pairs = {(each["category"], each["related"]): each for each in told["related"]}
    assert pairs["memberships", "clients"]["known"]
    assert pairs["memberships", "clients"]["confidence"] == 1.0
    assert "attendance" not in {name for pair in pairs for name in pair}
    said = toolcaddie.ok("eval", "usage", "--catalog", "gym", "--support", 3)
    assert "related categories: memberships brings clients (3 runs, 100% of its runs" in said


def test_usage_without_a_catalog_tells_what_the_trail_knows(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", "who came today?", "--catalog", "gym")
    told = toolcaddie.json("eval", "usage")
    assert not told["catalog_known"]
    assert told["never_sent"] == []
    assert not told["tokens"]["exact"]
    assert "no recorded run has that role; the recorded runs have: none" in toolcaddie.refused(
        "eval", "usage", "--role", "boss"
    )


def test_misses_are_what_was_looked_for_or_called_without_having_been_selected(
    toolcaddie: CommandLine, narrow: None
) -> None:
    for place in ("Rome", "Oslo"):
        run_scripted(
            toolcaddie,
            f"vacation in {place} for Anna",
            call("request_more_tools", {"query": "freeze a membership"}),
            call("freeze_membership", {"client_id": 1}),
            say("Done."),
        )
    run_scripted(toolcaddie, "play some music", call("search_tools", {"query": "play music"}), say("I cannot."))
    told = toolcaddie.json("eval", "misses", "--catalog", "gym")
    (missed,) = told["tools"]
    assert (missed["tool"], missed["missed"], missed["served"]) == ("freeze_membership", 2, 0)
    assert {(each["by"], each["asked"]) for each in missed["requests"]} == {
        ("request_more_tools", "freeze a membership")
    }
    hints = told["patch"]["freeze_membership"]["hints"]
    assert "vacation" in hints
    assert not {"rome", "oslo", "membership", "freeze", "music"} & set(hints)
    (unmet,) = told["unmet"]
    assert (unmet["by"], unmet["asked"]) == ("search_tools", "play music")
    categories = {use["name"]: use for use in toolcaddie.json("eval", "usage", "--catalog", "gym")["categories"]}
    assert categories["memberships"]["missed"] == 2


def test_hints_that_were_missed_can_be_written_and_measured(toolcaddie: CommandLine, narrow: None) -> None:
    for place in ("Rome", "Oslo"):
        run_scripted(
            toolcaddie, f"vacation in {place} for Anna", call("freeze_membership", {"client_id": 1}), say("Done.")
        )
    table = toolcaddie.ok("eval", "misses", "--catalog", "gym", "--write", "hints.jsonl")
    assert re.search(r"^freeze_membership +2 +0 .*vacation", table, re.MULTILINE)
    told = toolcaddie.json("eval", "--catalog", "gym", "--log", "--hints", "hints.jsonl")
    plain, hinted = told["configurations"]
    assert (plain["configuration"], hinted["configuration"]) == ("default", "default+hints")
    assert plain["metrics"]["recall@sent"] == 0.0
    assert hinted["metrics"]["recall@1"] == 1.0


def test_where_nothing_was_missed_that_is_said(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
    assert "every tool that was called had been selected" in toolcaddie.ok("eval", "misses", "--catalog", "gym")


# --- replay ---------------------------------------------------------------------------------------------------------------


def test_a_replay_under_the_same_configuration_changes_nothing(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
    told = toolcaddie.json("eval", "replay", "last", "--catalog", "gym")
    assert (told["added"], told["removed"], told["notes"]) == ([], [], [])
    assert told["kept"] == 32
    assert told["tokens_before"] == told["tokens_after"]
    assert told["called"] == [
        {"name": "get_clients_list", "before": True, "after": True},
        {"name": "freeze_membership", "before": True, "after": True},
    ]


def test_a_replay_under_another_preset_says_what_would_have_changed(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", "who came today?", "--catalog", "gym")
    told = toolcaddie.json("eval", "replay", "last", "--catalog", "gym", "--preset", "keyword")
    assert told["added"]
    assert told["verdict"].startswith("the same: every tool called is in both")
    said = toolcaddie.ok("eval", "replay", "last", "--catalog", "gym", "--preset", "keyword")
    assert f"+{len(told['added'])}: " in said


def test_a_replay_reads_the_conversation_before_the_message(toolcaddie: CommandLine) -> None:
    toolcaddie("chat", "--catalog", "gym", stdin="can you freeze memberships?\nyes, please do\n")
    told = toolcaddie.json("eval", "replay", "last", "--catalog", "gym")
    assert told["message"] == "yes, please do"
    assert (told["added"], told["removed"]) == ([], [])
    assert not told["no_match_after"]


def test_a_replay_on_another_catalog_says_so_and_goes_on(toolcaddie: CommandLine, catalog: Path) -> None:
    toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
    done = toolcaddie("eval", "replay", "last", "--catalog", catalog)
    assert done.exit_code == 0
    assert "the catalog has changed: it has 6 tools, and had 137 at the time of the run" in done.stderr
    assert re.search(r"^get_clients_list +selected +missed$", done.stdout, re.MULTILINE)


def test_what_cannot_be_replayed_is_refused(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("call", "get_gym_info", "--catalog", "gym")
    assert "selected no tools" in toolcaddie.refused("eval", "replay", "last", "--catalog", "gym")
    assert "nothing is recorded" in toolcaddie.refused("eval", "replay", "run_unknown", "--catalog", "gym")


# --- the report -----------------------------------------------------------------------------------------------------------


def test_the_report_is_one_file_that_loads_nothing_and_escapes_what_is_hostile(
    toolcaddie: CommandLine, tmp_path: Path
) -> None:
    hostile = "<script>alert(1)</script>"
    tools = [
        {"name": f"{hostile}a", "description": "Freeze a membership", "category": f'"><img src=x onerror={hostile}>'},
        {"name": "list_courts", "description": "Show tennis courts", "category": "courts"},
    ]
    asked = [
        {"query": f"zzz {hostile}", "gold": [f"{hostile}a"], "history": [f"user: {hostile}", f"assistant: {hostile}"]},
        {"query": "tennis courts", "gold": ["list_courts"]},
        {"query": "nothing at all", "gold": []},
    ]
    command = (
        "eval",
        "--catalog",
        write_lines(tmp_path / "c.jsonl", tools),
        "--queries",
        write_lines(tmp_path / "<q>.jsonl", asked),
    )
    toolcaddie.ok(*command, "--signals", "lexical", "--compare", "keyword", "--report", "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"<[^>]+\b(?:src|href|on\w+)\s*=|url\(|@import", page)
    assert "http:" not in page.replace("http-equiv", "")
    assert "https:" not in page
    assert page.count("<svg") == page.count("</svg>") >= 7
    for head in ("Recall by places", "Recall by tokens", "Nothing fits", "By category", "Served worst", "In words"):
        assert head in page


def test_a_report_that_cannot_be_written_is_a_failure_with_a_reason(
    toolcaddie: CommandLine, catalog: Path, queries: Path
) -> None:
    done = toolcaddie("eval", "--catalog", catalog, "--queries", queries, "--report", "no/such/folder/r.html")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
