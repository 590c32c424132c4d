"""`toolcaddie select`, `why` and `tools`: what a message would be given, without a model and without a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.core.meta_names import META_TOOLS

FREEZE = "freeze John's membership"


def _write_catalog(path: Path, count: int) -> None:
    lines = [
        {
            "name": f"archive_{number}",
            "description": f"Archive number {number}.",
            "category": "archives",
            "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}},
        }
        for number in range(count)
    ]
    lines.append({"name": "print_invoice", "description": "Print an invoice on paper.", "category": "billing"})
    path.write_text("\n".join(json.dumps(line) for line in lines))


def test_select_prints_the_shape_that_scripts_read(toolcaddie: CommandLine) -> None:
    found = toolcaddie.json("select", FREEZE, "--catalog", "gym")
    freeze = next(tool for tool in found["tools"] if tool["name"] == "freeze_membership")
    assert freeze["category"] == "memberships"
    assert freeze["score"] > 0
    assert any("freeze" in reason for reason in freeze["reasons"])
    assert "memberships" in found["categories"]
    assert set(found["meta"]) <= META_TOOLS
    assert found["counts"]["catalog"] == 137
    assert found["counts"]["selected"] == len(found["tools"])
    assert found["counts"]["sent"] == len(found["tools"]) + len(found["meta"])
    assert 0 < found["tokens"]["sent"] < found["tokens"]["all"]


def test_select_names_every_tool_left_out_with_the_stage_that_dropped_it(toolcaddie: CommandLine) -> None:
    found = toolcaddie.json("select", FREEZE, "--catalog", "gym")
    names = [tool["name"] for tool in (*found["tools"], *found["dropped"])]
    assert len(names) == len(set(names)) == 137
    assert {tool["stage"] for tool in found["dropped"]} <= {"floor", "no_match", "max_tools", "quota"}


@pytest.mark.proves("R001-22")
def test_message_and_history_go_in_and_a_list_of_tools_comes_out(toolcaddie: CommandLine) -> None:
    """The message alone names nothing; what was said before does."""
    Path("earlier.jsonl").write_text(
        '{"role": "user", "content": "freeze the membership of John"}\n'
        '{"role": "assistant", "content": "From today on?"}\n'
    )
    alone = toolcaddie.json("select", "yes, do it", "--catalog", "gym")
    both = toolcaddie.json("select", "yes, do it", "--catalog", "gym", "--history", "earlier.jsonl")
    assert alone["no_match"]
    assert not both["no_match"]
    assert "freeze_membership" in [tool["name"] for tool in both["tools"]]


def test_history_may_be_one_json_array(toolcaddie: CommandLine) -> None:
    Path("earlier.json").write_text(
        json.dumps(
            [
                {"role": "user", "content": [{"type": "text", "text": "freeze the membership of John"}]},
                {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "freeze_membership"}}]},
                {"role": "tool", "tool_call_id": "1", "content": "done"},
            ]
        )
    )
    found = toolcaddie.json("select", "yes, do it", "--catalog", "gym", "--history", "earlier.json")
    assert "freeze_membership" in [tool["name"] for tool in found["tools"]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"role": "user", "content": "a"}\n{"role": "robot", "content": "b"}\n', "line 2"),
        ('{"role": "user", "content": "a"}\nnot json\n', "line 2"),
        ('[{"content": "a"}]', "role"),
        ('{"role": "user", "content": 7}', "content"),
    ],
)
def test_a_bad_history_is_refused_and_its_line_named(text: str, told: str, toolcaddie: CommandLine) -> None:
    Path("bad.jsonl").write_text(text)
    line = toolcaddie.refused("select", "x", "--catalog", "gym", "--history", "bad.jsonl")
    assert "bad.jsonl" in line
    assert told in line


def test_match_decides_whether_a_keyword_hits_inside_a_word(toolcaddie: CommandLine) -> None:
    """'payload' begins with the letters of 'pay'."""
    message = "the payload is heavy"
    word = toolcaddie.json("select", message, "--catalog", "gym", "--preset", "keyword", "--match", "word")
    inside = toolcaddie.json("select", message, "--catalog", "gym", "--preset", "keyword", "--match", "substring")
    assert "salary" not in word["categories"]
    assert "salary" in inside["categories"]


def test_a_preset_and_a_budget_bound_what_is_selected(toolcaddie: CommandLine) -> None:
    found = toolcaddie.json("select", "list the clients", "--catalog", "gym", "--preset", "budget")
    fewer = toolcaddie.json("select", FREEZE, "--catalog", "gym", "--max-tools", "2")
    compact = toolcaddie.json("select", FREEZE, "--catalog", "gym", "--preset", "compact")
    assert found["counts"]["selected"] == 8
    assert found["meta"] == ["request_more_tools"]
    assert sum(not tool["core"] for tool in fewer["tools"]) == 2
    assert compact["counts"] == {"catalog": 137, "selected": 0, "sent": 5}


def test_a_catalog_of_definitions_and_one_of_python_functions_are_chosen_from_together(toolcaddie: CommandLine) -> None:
    _write_catalog(Path("office.jsonl"), 300)
    Path("hand_tools.py").write_text(
        "from toolcaddie.sources.functions import tool\n\n\n"
        "@tool\ndef whistle(song: str) -> str:\n    '''Whistle a song.'''\n    return song\n"
    )
    found = toolcaddie.json(
        "select",
        "whistle a song, then print the invoice",
        "--catalog",
        "office.jsonl",
        "--catalog",
        "python:hand_tools",
    )
    assert found["counts"]["catalog"] == 302
    assert {"whistle", "print_invoice"} <= {tool["name"] for tool in found["tools"]}


def test_two_catalogs_with_one_tool_name_are_refused_by_name(toolcaddie: CommandLine) -> None:
    _write_catalog(Path("one.jsonl"), 2)
    _write_catalog(Path("two.jsonl"), 2)
    line = toolcaddie.refused("select", "x", "--catalog", "one.jsonl", "--catalog", "two.jsonl")
    assert "'archive_0'" in line
    assert "'one.jsonl'" in line
    assert "'two.jsonl'" in line


def test_the_text_form_is_a_table_and_a_sum(toolcaddie: CommandLine) -> None:
    told = toolcaddie.ok("select", FREEZE, "--catalog", "gym")
    assert "freeze_membership" in told
    assert "32 of 137 tools selected; 36 sent, with request_more_tools" in told
    assert "left out: " in told
    assert all(line == line.rstrip() for line in told.splitlines())


def test_selecting_writes_nothing_anywhere(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("select", FREEZE, "--catalog", "gym")
    toolcaddie.ok("why", "freeze_membership", FREEZE, "--catalog", "gym")
    toolcaddie.ok("tools", "--catalog", "gym")
    assert list(toolcaddie.home.iterdir()) == []


def test_why_tells_what_brought_a_tool_in_and_its_place(toolcaddie: CommandLine) -> None:
    found = toolcaddie.json("why", "freeze_membership", FREEZE, "--catalog", "gym")
    told = toolcaddie.ok("why", "freeze_membership", FREEZE, "--catalog", "gym")
    assert found["chosen"]
    assert found["rank"] == 1
    assert any("freeze" in reason for reason in found["reasons"])
    assert told.startswith("freeze_membership is in: selected, score 0.")
    assert "place 1 of " in told


def test_why_names_the_stage_and_the_number_that_lost(toolcaddie: CommandLine) -> None:
    no_match = toolcaddie.json("why", "create_diet", FREEZE, "--catalog", "gym")
    budget = toolcaddie.ok("why", "renew_membership", FREEZE, "--catalog", "gym", "--max-tools", "2")
    assert (no_match["chosen"], no_match["stage"]) == (False, "no_match")
    assert budget.startswith("renew_membership is out: max_tools")
    assert "max_tools is 2" in budget


def test_why_suggests_a_name_for_a_tool_that_is_not_there(toolcaddie: CommandLine) -> None:
    assert "did you mean freeze_membership" in toolcaddie.refused("why", "freeze_membrship", "x", "--catalog", "gym")


def test_why_gives_only_reasons_that_are_true_of_the_tool(toolcaddie: CommandLine) -> None:
    """Nothing in the message matches, so the default categories are sent; diets is none of them."""
    found = toolcaddie.json("select", "hello there", "--catalog", "gym")
    lost = toolcaddie.json("why", "create_diet", "hello there", "--catalog", "gym")
    chosen = next(tool for tool in found["tools"] if not tool["core"])
    kept = toolcaddie.json("why", chosen["name"], "hello there", "--catalog", "gym")
    assert found["no_match"]
    assert (lost["stage"], lost["reasons"]) == ("no_match", [])
    assert kept["reasons"] == [f"default category {chosen['category']}: nothing matched"]


def test_select_tells_in_a_sentence_that_the_provider_takes_no_more(toolcaddie: CommandLine) -> None:
    _write_catalog(Path("office.jsonl"), 300)
    done = toolcaddie("select", "the archives", "--catalog", "office.jsonl", "--preset", "keyword")
    assert done.stderr == "", "nothing is logged"
    assert "cut to the number of tools that the provider takes: 17" in done.stdout


def test_a_search_that_finds_nothing_says_so(toolcaddie: CommandLine) -> None:
    done = toolcaddie("tools", "--catalog", "gym", "--search", "zzqx")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing matches 'zzqx'" in done.stderr


def test_a_catalog_whose_categories_are_all_disabled_says_so(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]\n[catalog]\ncategories = []\n')
    done = toolcaddie("tools")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "the categories enabled by catalog.categories, contain none" in done.stderr


def test_tools_lists_by_category_and_by_words(toolcaddie: CommandLine) -> None:
    category = toolcaddie.json("tools", "--catalog", "gym", "--category", "memberships")
    search = toolcaddie.json("tools", "--catalog", "gym", "--search", "unpaid salary")
    assert category["count"] == len(category["tools"]) == 6
    assert search["tools"][0]["name"] == "get_pending_salaries"
    assert "did you mean memberships" in toolcaddie.refused("tools", "--catalog", "gym", "--category", "membership")


def test_tools_show_prints_the_schema_wherever_the_catalog_is_named(toolcaddie: CommandLine) -> None:
    before = toolcaddie.json("tools", "--catalog", "gym", "show", "freeze_membership")
    after = toolcaddie.json("tools", "show", "freeze_membership", "--catalog", "gym")
    assert before == after
    assert after["parameters"]["required"] == ["client_id"]
    assert after["definition"]["function"]["name"] == "freeze_membership"
    assert '"client_id"' in toolcaddie.ok("tools", "show", "freeze_membership", "--catalog", "gym")
    assert "did you mean freeze_membership" in toolcaddie.refused("tools", "show", "freeze_member", "--catalog", "gym")
