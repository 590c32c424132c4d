"""`toolcaddie eval costs`: conversations through the real runtime, billed under each provider's price rule."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.core.catalog import Catalog
from toolcaddie.evaluation.simulation.scripts import TUNING_SEED, generated_catalog
from toolcaddie.evaluation.simulation.simulator import Simulation, simulate

SONNET = "anthropic:claude-sonnet-5-5"
UNCACHED = "mistral:mistral-large-4"


def test_strategies_are_played_by_the_real_runtime_and_billed_under_each_rule() -> None:
    what = Simulation(
        catalogs=(30,),
        models=(SONNET, UNCACHED),
        strategies=("all", "fresh", "compact"),
        scripts=2,
        seed=TUNING_SEED,
    )
    reports = simulate(what, workers=1)
    assert [(report.model, report.tools, report.comparison) for report in reports] == [
        (SONNET, 30, None),
        (UNCACHED, 30, None),
    ]
    cached, uncached = ({each.strategy: each for each in report.strategies} for report in reports)
    assert (cached["all"].misses, cached["all"].extra, cached["all"].prefix_kept) == (0, 0, 1.0)
    assert cached["compact"].prefix_kept == 1.0
    assert cached["compact"].extra > 0
    assert cached["fresh"].prefix_kept is not None
    assert cached["fresh"].prefix_kept < 0.9
    assert cached["all"].dollars < cached["fresh"].dollars, "a changing array is dearer than a whole one"
    assert uncached["fresh"].dollars < uncached["all"].dollars, "where nothing is cached fewer tools are cheaper"
    assert uncached["all"].prefix_kept is None
    assert cached["all"].median_tokens == uncached["all"].median_tokens


def test_conversations_cost_the_same_in_one_process_and_in_two() -> None:
    ours = Catalog.of(generated_catalog(12, TUNING_SEED).tools)
    what = Simulation(catalogs=(ours,), models=(SONNET,), strategies=("all", "planned"), scripts=1, seed=TUNING_SEED)
    progress: list[tuple[int, int]] = []
    alone = simulate(what, workers=1, on_progress=lambda count, total: progress.append((count, total)))
    assert simulate(what, workers=2) == alone
    assert progress == [(0, 2), (1, 2), (2, 2)]


def test_the_table_names_strategies_prices_and_what_was_assumed(toolcaddie: CommandLine) -> None:
    done = toolcaddie("eval", "costs", "--sizes", "30", "--scripts", "1", "--rules", SONNET)
    assert done.exit_code == 0, done.output
    assert f"30 tools, {SONNET}, 1 conversation" in done.stdout
    for word in ("all", "fresh", "compact", "native", "planned", "misses", "prefix kept"):
        assert word in done.stdout
    assert "planned costs" in done.stdout
    assert "Assumed: scripted conversations of 20 turns" in done.stdout


def test_a_strategy_that_a_provider_does_not_have_is_left_out(toolcaddie: CommandLine) -> None:
    told = toolcaddie.json(
        "eval", "costs", "--sizes", "30", "--scripts", "1", "--rules", UNCACHED, "--strategies", "all,native"
    )
    assert [each["strategy"] for each in told["reports"][0]["strategies"]] == ["all"]


def test_ones_own_catalog_alone_is_measured_unless_sizes_are_named(toolcaddie: CommandLine, tmp_path: Path) -> None:
    tools = [{"name": f"{doing}_invoice", "description": f"{doing} an invoice"} for doing in ("list", "send", "delete")]
    file = tmp_path / "tools.jsonl"
    file.write_text("".join(json.dumps(tool) + "\n" for tool in tools))
    few = ("--scripts", "1", "--rules", SONNET, "--strategies", "all,planned")
    told = toolcaddie.json("eval", "costs", "--catalog", str(file), *few)
    assert [report["tools"] for report in told["reports"]] == [3]
    assert told["reports"][0]["comparison"]["median"] > 0
    told = toolcaddie.json("eval", "--json", "--catalog", str(file), "costs", "--sizes", "20", *few)
    assert [report["tools"] for report in told["reports"]] == [3, 20]


def test_the_gym_is_the_catalog_of_137_tools(toolcaddie: CommandLine) -> None:
    told = toolcaddie.json(
        "eval", "costs", "--sizes", "137", "--scripts", "1", "--rules", SONNET, "--strategies", "fresh"
    )
    assert told["reports"][0]["tools"] == 137
    assert told["reports"][0]["strategies"][0]["needs"] > 0


def test_a_model_without_a_known_price_is_refused_by_name(toolcaddie: CommandLine) -> None:
    assert "no price is known of model 'nobody:model'" in toolcaddie.refused("eval", "costs", "--rules", "nobody:model")


def test_an_unknown_strategy_is_refused_by_name(toolcaddie: CommandLine) -> None:
    assert "cheapest" in toolcaddie.refused("eval", "costs", "--strategies", "all,cheapest")


def test_many_tables_end_in_a_summary_by_size(toolcaddie: CommandLine) -> None:
    few = ("--scripts", "1", "--rules", f"{SONNET},{UNCACHED}", "--strategies", "all,fresh,planned")
    told = toolcaddie.ok("eval", "costs", "--sizes", "20,30", *few)
    tables, summary = told.split("In short: ")
    assert tables.count("$ together") == 4
    assert "Assumed: " in tables
    assert summary.splitlines()[1].split() == ["tools", "all", "fresh"]
    assert [line.split()[0] for line in summary.splitlines()[3:5]] == ["20", "30"]
    assert "Everything together: " in summary


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sizes", "abc"), "'abc' is not a number of tools; write numbers from 1 to "),
        (("--sizes", "0"), "0 is not in the range"),
        (("--sizes", ","), "name at least one"),
        (("--rules", "anthropic:claude-sonet-5-5"), "did you mean anthropic:claude-sonnet-5-5?"),
        (("--rules", "openai:gtp-5.4"), "did you mean openai:gpt-5.4?"),
        (("--rules", "zzz"), "such as "),
    ],
)
def test_a_size_or_a_model_that_there_is_not_is_refused_with_what_to_write(
    words: tuple[str, ...], said: str, toolcaddie: CommandLine
) -> None:
    assert said in toolcaddie.refused("eval", "costs", *words)


@pytest.fixture
def without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without the package `toolcaddie[programs]`."""
    monkeypatch.setitem(sys.modules, "toolcaddie.programs.monty", None)


@pytest.mark.usefixtures("without_programs")
def test_strategies_without_programs_need_no_interpreter(toolcaddie: CommandLine) -> None:
    names = ["all", "fresh", "few", "compact", "native"]
    words = ("eval", "costs", "--sizes", "30", "--scripts", "1", "--rules", SONNET, "--strategies", ",".join(names))
    told = toolcaddie.json(*words)
    assert [each["strategy"] for each in told["reports"][0]["strategies"]] == names
    assert "left_out" not in told


def test_a_model_that_is_free_is_refused_because_nothing_can_be_compared(toolcaddie: CommandLine) -> None:
    done = toolcaddie("eval", "costs", "--sizes", "30", "--scripts", "1", "--rules", "ollama:qwen3:8b")
    assert done.exit_code == 2
    assert "--rules: ollama:qwen3:8b is free, so its costs cannot be compared; name a model with a price" in done.stderr


@pytest.mark.usefixtures("without_programs")
@pytest.mark.parametrize("name", ["planned", "program"])
def test_a_strategy_with_programs_that_is_named_is_refused_without_an_interpreter(
    toolcaddie: CommandLine, name: str
) -> None:
    done = toolcaddie(
        "eval", "costs", "--sizes", "30", "--scripts", "1", "--rules", SONNET, "--strategies", f"all,{name}"
    )
    assert done.exit_code == 2
    assert f"--strategies: {name}: the interpreter 'monty' needs" in done.stderr
    assert "pip install 'toolcaddie[programs]'" in done.stderr


@pytest.mark.usefixtures("without_programs")
def test_strategies_with_programs_are_left_out_with_a_sentence_if_none_are_named(toolcaddie: CommandLine) -> None:
    words = ("eval", "costs", "--sizes", "30", "--scripts", "1", "--rules", SONNET)
    done = toolcaddie(*words)
    assert done.exit_code == 0, done.output
    assert "Left out: program and planned: the interpreter 'monty' needs the package pydantic-monty" in done.stderr
    told = toolcaddie.json(*words)
    assert {each["strategy"] for each in told["reports"][0]["strategies"]} == {
        "all",
        "fresh",
        "few",
        "compact",
        "native",
    }
    assert told["left_out"].startswith("program and planned: ")
