"""`toolcaddie why --delivery`: what the planner weighed, as a person and as a script sees it."""

from __future__ import annotations

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, say

FREEZE = "freeze John's membership"
CLAUDE = "anthropic:claude-sonnet-5-5"
KEY = "MY_TEST_KEY"


def test_a_message_shows_every_way_that_was_weighed_the_cheapest_first(toolcaddie: CommandLine) -> None:
    told = toolcaddie.json("why", "--delivery", FREEZE, "--catalog", "gym", "--model", CLAUDE)
    assert (told["provider"], told["model"], told["preset"]) == ("anthropic", "claude-sonnet-5-5", "default")
    options = told["options"]
    assert len(options) >= 2
    assert [option["expected"] for option in options] == sorted(option["expected"] for option in options)
    assert told["strategy"] == options[0]["strategy"]
    assert told["tokens"]["sent"] == options[0]["tokens"]
    assert all(option["dollars"] > 0 for option in options)
    assert told["note"]


def test_the_expected_bill_is_of_the_whole_request_and_in_dollars_where_prices_are_known(
    toolcaddie: CommandLine,
) -> None:
    told = toolcaddie.json("why", "--delivery", FREEZE, "--catalog", "gym", "--model", CLAUDE)
    bill = told["bill"]
    assert (bill["read"], bill["plain"]) == (0, 0)  # nothing is cached yet, and all of it will be
    assert bill["written"] > told["tokens"]["sent"]
    assert bill["dollars"] > 0
    unknown = toolcaddie.json("why", "--delivery", FREEZE, "--catalog", "gym", "--model", "vllm:somebodys-own")
    assert unknown["bill"]["dollars"] is None
    assert all(option["dollars"] is None for option in unknown["options"])


def test_prices_of_the_settings_decide_what_is_expected(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(
        "catalogs = ['gym']\nmodel = 'vllm:mine'\n"
        "[[capabilities]]\npattern = 'mine'\n"
        "[capabilities.prices]\ninput = 1000\noutput = 1000\n"
    )
    told = toolcaddie.json("why", "--delivery", FREEZE)
    bill = told["bill"]
    assert bill["dollars"] == pytest.approx((bill["read"] + bill["written"] + bill["plain"]) / 1000)


def test_the_text_is_a_table_with_the_choice_its_reason_and_the_bill(toolcaddie: CommandLine) -> None:
    told = toolcaddie.ok("why", "--delivery", FREEZE, "--catalog", "gym", "--model", CLAUDE)
    lines = told.splitlines()
    assert lines[0].startswith(f"{CLAUDE}, preset default: 32 of 137 tools selected, ")
    assert lines[2].split() == ["way", "tools", "tokens", "rebilled", "expected", "dollars"]
    assert " *  " in lines[4]
    assert all(len(line) <= 80 for line in lines[2:6])
    assert "chosen: " in told
    assert "the next request is expected to bill " in told
    assert "read from the cache" in told
    assert "; $0.0" in told


def test_what_was_said_before_is_part_of_the_bill(toolcaddie: CommandLine) -> None:
    history = toolcaddie.home / "history.jsonl"
    history.write_text(
        '{"role": "user", "content": "' + "word " * 4_000 + '"}\n{"role": "assistant", "content": "ok"}\n'
    )
    ask = ("why", "--delivery", FREEZE, "--catalog", "gym", "--model", CLAUDE)
    alone, after = toolcaddie.json(*ask), toolcaddie.json(*ask, "--history", history)
    assert after["bill"]["written"] - alone["bill"]["written"] > 4_000


@pytest.mark.parametrize(("preset", "strategy"), [("budget", "direct"), ("compact", "compact")])
def test_a_preset_that_sends_to_the_letter_weighs_nothing_and_says_so(
    preset: str, strategy: str, toolcaddie: CommandLine
) -> None:
    ask = ("why", "--delivery", FREEZE, "--catalog", "gym", "--preset", preset)
    told = toolcaddie.json(*ask)
    assert (told["strategy"], told["options"], told["bill"]) == (strategy, [], None)
    assert "nothing was compared" in toolcaddie.ok(*ask)


def test_no_key_is_needed_and_nothing_is_written(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (toolcaddie.home / "toolcaddie.toml").write_text(
        "[[fallback]]\nmodel = 'gemini:gemini-3-pro'\n"
        "[tool_config]\nforce_tool_use = true\nfallback_provider = {provider = 'openai', model = 'm'}\n"
    )
    before = sorted(path.name for path in toolcaddie.home.iterdir())
    toolcaddie.ok("why", "--delivery", FREEZE, "--catalog", "gym", "--model", CLAUDE)
    assert sorted(path.name for path in toolcaddie.home.iterdir()) == before


def test_a_recorded_run_shows_what_was_weighed_then_and_what_the_provider_counted(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "test-key")
    with ScriptedUpstream([say("Done.")]) as upstream:
        at = ("--upstream", upstream.base_url, "--upstream-key-env", KEY, "--model", "gpt-5-mini")
        toolcaddie.ok("run", FREEZE, "--catalog", "gym", *at)
    told = toolcaddie.json("why", "--run", "last", "--delivery")
    assert (told["provider"], told["model"], told["message"]) == ("openai", "gpt-5-mini", FREEZE)
    assert told["strategy"] == told["options"][0]["strategy"]
    assert told["tokens"]["sent"] == told["options"][0]["tokens"]
    assert told["billed"] == {"read": 0, "written": 0, "plain": 100}
    assert told["counts"]["sent"] == len(upstream.bodies[0]["tools"])
    assert told["later"] == []
    text = toolcaddie.ok("why", "--run", "last", "--delivery")
    assert " *  " in text
    assert "the first request was expected to bill " in text
    assert "the provider counted 100 input tokens" in text


def test_it_takes_a_message_alone_or_a_run_alone(toolcaddie: CommandLine) -> None:
    assert "--delivery takes a message alone" in toolcaddie.refused("why", "--delivery", "--catalog", "gym")
    assert "--delivery takes a message alone" in toolcaddie.refused("why", "--delivery", "a", "b", "--catalog", "gym")
    assert "not both" in toolcaddie.refused("why", "--delivery", "hello", "--run", "last")


def test_a_call_without_a_model_has_no_delivery_to_show(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("call", "convert_currency", "amount=20", "from_currency=EUR", "to_currency=USD", "--catalog", "gym")
    assert "sent no tools" in toolcaddie.refused("why", "--delivery", "--run", "last")


def test_a_lone_request_is_previewed_as_run_sends_it(toolcaddie: CommandLine) -> None:
    ask = ("why", "--delivery", FREEZE, "--catalog", "gym", "--model", CLAUDE)
    assert "--once shows the plan of `run`" in toolcaddie.ok(*ask)
    once = toolcaddie.json(*ask, "--once")
    assert once["counts"]["sent"] > toolcaddie.json(*ask)["counts"]["sent"]
    assert "no later request follows" in toolcaddie.ok(*ask, "--once")
    ran = toolcaddie.json("run", FREEZE, "--catalog", "gym", "--model", "practice")
    asked = ("why", "--delivery", FREEZE, "--catalog", "gym", "--model", "practice")
    assert toolcaddie.json(*asked, "--once")["counts"] == ran["selection"]["counts"]


def test_once_goes_with_a_message_only(toolcaddie: CommandLine) -> None:
    assert "--once goes with --delivery" in toolcaddie.refused("why", "--delivery", "--run", "last", "--once")
    assert "--once goes with --delivery" in toolcaddie.refused("why", "freeze_membership", FREEZE, "--once")
