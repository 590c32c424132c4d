"""Bots of the settings as the gateway's clients and the command line meet them."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.doors.commandline import CommandLine
from tests.doors.serving import gateway
from toolcaddie import Bot
from toolcaddie.app.settings import load_settings
from toolcaddie.core.control import Decision, Principal
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say

SETTINGS = """
catalogs = ["gym"]
model = "practice"

[bots.front-desk]
categories = ["clients"]

[bots.boss]
"""


@tool(category="rooms", description="Open a room.")
def open_room() -> str:
    return "open"


@tool(category="rooms", roles=["admin"], description="Close the house.")
def close_house() -> str:
    raise AssertionError("only for admins")


@pytest.fixture
def house(toolcaddie: CommandLine) -> CommandLine:
    Path("toolcaddie.toml").write_text(SETTINGS)
    return toolcaddie


@pytest.mark.anyio
async def test_a_key_of_an_unknown_bot_is_refused_with_400_also_where_nothing_runs(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("hello")]) as upstream:
        bots = {"front-desk": Bot(), "boss": Bot()}
        async with gateway(tmp_path, upstream.base_url, sources=[open_room], bots=bots) as door:
            secrets = [
                (await door.database.keys.add(name, Principal(id=name, bot=bot)))[1]
                for name, bot in (("old", "frontdesk"), ("plain", None), ("right", "front-desk"))
            ]
            old, plain, right = (door.client.with_options(api_key=secret) for secret in secrets)
            hi = [{"role": "user", "content": "hi"}]
            for headers in ({}, {"x-toolcaddie-catalog": "none"}):
                with pytest.raises(openai.BadRequestError, match="no bot 'frontdesk'; did you mean 'front-desk'") as no:
                    await old.chat.completions.create(model="m", messages=hi, extra_headers=headers)
                assert (no.value.param, no.value.code) == ("bot", "unknown_bot")
            with pytest.raises(openai.BadRequestError, match="names no bot"):
                await plain.chat.completions.create(model="m", messages=hi)
            answer = await right.chat.completions.create(model="m", messages=hi)
            assert answer.choices[0].message.content == "hello"
        assert len(upstream.bodies) == 1


@pytest.mark.anyio
async def test_a_guests_key_neither_shows_nor_runs_an_admins_tool_under_a_policy_that_allows_all(
    tmp_path: Path,
) -> None:
    class Stranger:
        version = "stranger"

        def visible(self, catalog: object, principal: object) -> None:
            return None

        async def decide(self, *about: object) -> Decision:
            return Decision(verdict="allow")

    provider = ScriptedProvider([call("close_house"), say("done")])
    async with gateway(tmp_path, provider, sources=[open_room, close_house], policy=Stranger()) as door:
        _, secret = await door.database.keys.add("gus", Principal(id="gus", role="guest"))
        client = door.client.with_options(api_key=secret)
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "close the house"}])
    assert [sent["function"]["name"] for sent in provider.requests[0].tools] == ["open_room"]
    assert "There is no tool 'close_house'" in provider.requests[1].messages[-1].text


def test_a_command_asks_as_the_bot_it_names_or_the_default_one(house: CommandLine) -> None:
    assert "--bot on the command line" in house.refused("select", "freeze John's membership")
    chosen = house.json("select", "freeze John's membership", "--bot", "front-desk")["tools"]
    assert chosen
    assert {picked["category"] for picked in chosen} == {"clients"}
    assert "freeze_membership is in" in house.ok("why", "freeze_membership", "freeze John", "--bot", "boss")
    assert "freeze_membership is out: hidden" in house.ok("why", "freeze_membership", "freeze", "--bot", "front-desk")
    assert "no tool 'get_revenue_stats'" in house.refused("call", "get_revenue_stats", "--bot", "front-desk")
    Path("toolcaddie.toml").write_text('default_bot = "front-desk"\n' + SETTINGS)
    assert house.json("select", "freeze John's membership")["tools"] == chosen
    assert house.ok("run", "find the client John")


def test_a_bot_that_is_not_there_is_refused_by_every_command(house: CommandLine) -> None:
    for words in (("select", "hi"), ("why", "x", "hi"), ("run", "hi"), ("chat",), ("call", "x"), ("keys", "add", "k")):
        assert "--bot: there is no bot 'bos'; did you mean 'boss'?" in house.refused(*words, "--bot", "bos")
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]')
    assert "--bot: there are no bots" in house.refused("select", "hi", "--bot", "boss")


def test_a_key_without_a_bot_is_made_with_a_word_of_warning(house: CommandLine) -> None:
    assert "its requests are refused" in house("keys", "add", "laptop").stderr
    assert "refused" not in house("keys", "add", "desk", "--bot", "front-desk").stderr
    Path("toolcaddie.toml").write_text('default_bot = "boss"\n' + SETTINGS)
    assert "refused" not in house("keys", "add", "tablet").stderr


def test_a_wrong_name_in_the_settings_is_told_at_start(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]\n[bots.desk]\ndisabled_tools = ["delete_cleint"]\n')
    said = toolcaddie.refused("select", "hi")
    assert "bots.desk.disabled_tools: there is no tool 'delete_cleint'; did you mean 'delete_client'" in said
    Path("toolcaddie.toml").write_text('default_bot = "desc"\n[bots.desk]\n')
    assert "toolcaddie.toml:1: default_bot: there is no bot 'desc'; did you mean 'desk'?" in toolcaddie.refused("tools")


def test_the_default_bot_may_come_from_the_environment(house: CommandLine) -> None:
    assert load_settings(environ={"TOOLCADDIE_DEFAULT_BOT": "boss"}).default_bot == "boss"
    with pytest.raises(
        Exception, match="variable TOOLCADDIE_DEFAULT_BOT: default_bot: there is no bot 'bos'; did you mean 'boss'"
    ):
        load_settings(environ={"TOOLCADDIE_DEFAULT_BOT": "bos"})


def test_tools_of_categories_that_are_not_enabled_are_not_listed(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]\n[catalog]\ncategories = ["photos"]\n')
    assert {listed["category"] for listed in toolcaddie.json("tools")["tools"]} == {"photos"}
    assert {picked["category"] for picked in toolcaddie.json("select", "show the photos of John")["tools"]} == {
        "photos"
    }
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]\n[catalog]\ncategories = ["photo"]\n')
    for command in (("tools",), ("select", "hi")):
        said = toolcaddie.refused(*command)
        assert "catalog.categories: there is no category 'photo'; did you mean 'photos'" in said


def test_a_key_with_a_bot_that_the_settings_do_not_know_is_told_what_the_bot_counts_for(
    toolcaddie: CommandLine,
) -> None:
    made = toolcaddie("keys", "add", "laptop", "--bot", "nobot")
    assert made.exit_code == 0
    assert "no table [bots], so 'nobot' counts only for rules of the policy and the scope of tools" in made.stderr


def test_a_bots_model_of_another_provider_is_refused_at_start(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('model = "practice"\n[bots.desk]\nmodel = "anthropic:claude-sonnet-5-5"\n')
    said = toolcaddie.refused("run", "hi", "--bot", "desk")
    assert (
        "bots.desk.model: 'anthropic:claude-sonnet-5-5' is a model of anthropic, but this server asks practice" in said
    )


def test_a_conversation_in_the_terminal_is_with_the_bot_that_is_named(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    with ScriptedUpstream([say("hello")] * 4) as upstream:
        settings = f'[upstream]\nurl = "{upstream.base_url}"\n[bots.desk]\nmodel = "small"\n[bots.boss]\n'
        Path("toolcaddie.toml").write_text(settings)
        toolcaddie.ok("chat", "--bot", "desk", stdin="hi\n")
        toolcaddie.ok("run", "hi", "--bot", "desk")
        toolcaddie.ok("run", "hi", "--bot", "desk", "--model", "large")
        toolcaddie.ok("run", "hi", "--bot", "boss", "--model", "large")
        assert "name the model to ask" in toolcaddie("run", "hi", "--bot", "boss").stderr
    assert [body["model"] for body in upstream.bodies] == ["small", "small", "large", "large"]
    assert '"bot": "boss"' in toolcaddie.ok("trail", "last", "--json")
