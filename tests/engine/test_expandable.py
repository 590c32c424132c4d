"""Categories that a model may ask for, by preset, bot and role."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_expansion import names, source, tool_texts
from toolcaddie import Bot, Role
from toolcaddie.app.runtimes import runtime_of
from toolcaddie.app.settings import load_settings
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio


def narrowed(name: str, *categories: str) -> Any:
    base = PRESETS[name]
    return replace(base, selection=replace(base.selection, expandable_categories=categories))


def described(request: Any) -> str:
    function = next(tool["function"] for tool in request.tools if tool["function"]["name"] == REQUEST_MORE_TOOLS)
    return str(function["description"])


NARROWED = {
    "preset": ({"preset": narrowed("budget", "notes", "web")}, Principal()),
    "bot": ({"bots": {"clerk": Bot(expandable_categories=("notes", "web"))}}, Principal(bot="clerk")),
    "role": ({"roles": {"clerk": Role(expandable_categories=("notes", "web"))}}, Principal(role="clerk")),
    "all three": (
        {
            "preset": narrowed("budget", "notes", "web", "mail"),
            "bots": {"clerk": Bot(expandable_categories=("notes", "web", "github"))},
            "roles": {"clerk": Role(expandable_categories=("web", "notes"))},
        },
        Principal(bot="clerk", role="clerk"),
    ),
}


@pytest.mark.proves("R000-41", "A-6")
@pytest.mark.parametrize("by", NARROWED)
async def test_the_schema_lists_these_only_and_a_request_for_others_is_refused_with_the_list(by: str) -> None:
    options, principal = NARROWED[by]
    provider = ScriptedProvider(
        [
            call(REQUEST_MORE_TOOLS, {"categories": ["github"]}),
            call(REQUEST_MORE_TOOLS, {"categories": ["github", "web"]}),
            say("done"),
        ]
    )
    runtime = Runtime(
        provider=provider, sources=[source(notes=9, github=2, web=2, mail=2)], **{"preset": "budget", **options}
    )
    await runtime.run("notes", principal=principal)
    assert described(provider.requests[0]).endswith("Available categories: notes, web.")
    refused, partly = tool_texts(provider.requests[2])
    assert refused == "You cannot ask for 'github' here. You can ask for: notes, web."
    assert partly.startswith("Loaded 2 tools: web_0, web_1.")
    assert partly.endswith("You cannot ask for 'github' here. You can ask for: notes, web.")
    assert not any(name.startswith("github") for name in names(provider.requests[2]))


@pytest.mark.proves("R000-41", "A-6")
async def test_other_callers_of_the_same_runtime_may_ask_for_all() -> None:
    provider = ScriptedProvider([say("done")] * 3)
    runtime = Runtime(
        provider=provider,
        sources=[source(notes=9, github=2)],
        preset="budget",
        bots={"clerk": Bot(expandable_categories=("notes",)), "free": Bot()},
        roles={"guest": Role(expandable_categories=())},
    )
    for principal in (Principal(bot="free"), Principal(bot="clerk"), Principal(bot="free", role="guest")):
        await runtime.run("notes", principal=principal)
    free, clerk, guest = provider.requests
    assert "github, notes" in described(free)
    assert "github" not in described(clerk)
    assert names(guest) == [f"notes_{n}" for n in range(8)], "who may ask for nothing is not offered to ask"


@pytest.mark.proves("R000-41", "A-6")
async def test_a_request_in_words_brings_tools_of_these_categories_only() -> None:
    more = call(REQUEST_MORE_TOOLS, {"query": "works with github or with the web"})
    for preset, wanted in ((narrowed("default", "web"), {"web"}), ("default", {"web", "github"})):
        provider = ScriptedProvider([more, say("done")])
        await Runtime(provider=provider, sources=[source(notes=60, github=2, web=2)], preset=preset).run("notes please")
        (answer,) = tool_texts(provider.requests[1])
        assert answer.startswith("Loaded")
        assert {name for name in ("web", "github") if f"{name}_0" in answer} == wanted


@pytest.mark.proves("A-6")
async def test_the_settings_narrow_by_preset_bot_and_role(tmp_path: Path) -> None:
    file = tmp_path / "toolcaddie.toml"
    file.write_text(
        'preset = "budget"\ndefault_bot = "desk"\n'
        '[selection]\nexpandable_categories = ["notes", "web", "github"]\n'
        '[bots.desk]\nexpandable_categories = ["web", "github"]\n'
        '[roles.guest]\nexpandable_categories = ["web"]\n'
    )
    provider = ScriptedProvider([say("done")] * 2)
    runtime = runtime_of(load_settings(file, environ={}), [source(notes=9, github=2, web=2)], provider)
    await runtime.run("notes")
    await runtime.run("notes", principal=Principal(role="guest"))
    assert [described(request).rpartition(": ")[2] for request in provider.requests] == ["github, web.", "web."]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": narrowed("budget", "nots")}, r"selection\.expandable_categories: there is no category 'nots'; did"),
        ({"bots": {"b": Bot(expandable_categories=("wbe",))}}, r"bots\.b\.expandable_categories.*'wbe'.*'web'"),
        ({"roles": {"r": Role(expandable_categories=("wbe",))}}, r"roles\.r\.expandable_categories.*'wbe'.*'web'"),
    ],
)
def test_an_unknown_category_is_an_error_at_start(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Runtime(provider=ScriptedProvider([]), sources=[source(notes=1, web=1)], **options)


async def test_a_run_that_was_paused_keeps_the_limit() -> None:
    class Asking:
        version = "asking"

        def visible(self, catalog: Any, principal: Any) -> None:
            return None

        async def decide(self, *about: Any) -> Decision:
            return Decision(verdict="ask")

    @tool(category="notes")
    def pay() -> str:
        """Pay for the notes."""
        return "paid"

    provider = ScriptedProvider(
        [call("pay", call_id="c1"), call(REQUEST_MORE_TOOLS, {"categories": ["github"]}), say("done")]
    )
    runtime = Runtime(
        provider=provider,
        sources=[source(notes=9, github=2), pay],
        preset=narrowed("budget", "notes"),
        policy=Asking(),
    )
    paused = await runtime.run("notes")
    await runtime.resume(paused.run_id, approvals={"c1": True})
    assert provider.requests[1].tools == provider.requests[0].tools
    assert tool_texts(provider.requests[2])[-1] == "You cannot ask for 'github' here. You can ask for: notes."
