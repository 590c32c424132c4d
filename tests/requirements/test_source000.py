"""Source 000, budgeted selection and the way out of a wrong one: demands that were proved too weakly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doors.serving import gateway
from tests.requirements.scenes import (
    Recorder,
    catalog_names,
    function,
    names,
    names_categories,
    tool_texts,
    work,
)
from toolcaddie import PRESETS, Runtime
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.events import CallFinished, CallIntended, MetaCalled
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.meta.request_more_tools import request_more_tools_schema
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, calls, say

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PROMPT = "close issue 7 of project X"


class DenyAll:
    """A policy under which no tool runs."""

    version = "deny-all"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict="deny", reason="nothing runs today", rule="closed")


@pytest.mark.proves("R000-22")
async def test_the_meta_tool_changes_the_loops_own_list_and_belongs_to_no_source() -> None:
    """It is offered and answered although no source holds it, no policy allows it, and nobody can call it from outside."""
    recorder = Recorder()
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"categories": ["github"]}), call("github_1"), say("done")])
    runtime = Runtime(
        provider=provider,
        sources=[work(notes=10, github=3)],
        preset="budget",
        classifier=names_categories("notes"),
        policy=DenyAll(),
        sinks=[recorder],
    )
    before = [tool.name for tool in runtime.source.snapshot()]
    await runtime.run(PROMPT)
    assert REQUEST_MORE_TOOLS not in before
    assert [tool.name for tool in runtime.source.snapshot()] == before
    assert names(provider.requests[1]) == [*names(provider.requests[0]), "github_0", "github_1", "github_2"]
    loaded, refused = tool_texts(provider.requests[2])
    assert loaded.startswith("Loaded 3 tools")
    assert "nothing runs today" in refused
    assert len(recorder.of(MetaCalled)) == 1
    assert [event.call.name for event in (*recorder.of(CallIntended), *recorder.of(CallFinished))] == []
    outside = await runtime.call(REQUEST_MORE_TOOLS, {"categories": ["github"]})
    assert (outside.is_error, outside.error) == (True, "unknown_tool")


@pytest.mark.proves("R000-22")
def test_a_tool_of_the_meta_tools_name_cannot_be_registered() -> None:
    with pytest.raises(ToolcaddieError, match=REQUEST_MORE_TOOLS):
        Runtime(provider=ScriptedProvider([]), sources=[function(REQUEST_MORE_TOOLS)])


@pytest.mark.proves("R000-44")
async def test_twice_the_budget_does_not_mend_a_wrong_choice_and_one_expansion_does() -> None:
    """The budget stayed at 8, because with 16 the right tool is still missing, and twice as many wrong ones are read."""
    base, source = PRESETS["budget"], work(notes=20, github=7)
    doubled = replace(base, budget=replace(base.budget, max_tools=16))
    wide = ScriptedProvider([say("I cannot see issues.")])
    await Runtime(provider=wide, sources=[source], preset=doubled, classifier=names_categories("notes")).run(PROMPT)
    assert catalog_names(wide.requests[0]) == [f"notes_{number}" for number in range(16)]
    narrow = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"categories": ["github"]}), call("github_6"), say("Closed.")])
    runtime = Runtime(provider=narrow, sources=[source], preset="budget", classifier=names_categories("notes"))
    result = await runtime.run(PROMPT)
    assert catalog_names(narrow.requests[0]) == [f"notes_{number}" for number in range(8)]
    assert result.tool_calls == ("github_6",)
    assert max(len(names(request)) for request in narrow.requests) <= 16


@pytest.mark.proves("R000-44", "A-18")
def test_the_page_of_presets_says_why_the_budget_is_eight() -> None:
    page = (ROOT / "docs" / "presets.md").read_text()
    reasons = page.partition("## Deliberately not built")[2]
    assert "A budget of 16" in reasons
    assert "8 billion parameters" in reasons
    assert "does not repair a wrong classification" in reasons


# ---------------------------------------------------------------- the five tests that the source asks for


def sent_for(*categories: str, **sizes: int) -> list[str]:
    provider = ScriptedProvider([say("hi")])
    Runtime(
        provider=provider, sources=[work(**sizes)], preset="budget", classifier=names_categories(*categories)
    ).run_sync(PROMPT)
    return catalog_names(provider.requests[0])


@pytest.mark.proves("R000-48", "R000-5", "R000-10")
def test_two_categories_share_the_budget_in_proportion() -> None:
    assert sent_for("a", "b", a=10, b=7) == [*(f"a_{n}" for n in range(4)), *(f"b_{n}" for n in range(4))]


@pytest.mark.proves("R000-48", "R000-6")
def test_a_single_category_gets_what_it_got_without_quotas() -> None:
    assert sent_for("a", a=10, b=7) == [f"a_{n}" for n in range(10)][:8]


@pytest.mark.proves("R000-48", "R000-18")
async def test_the_schema_that_is_sent_lists_every_category() -> None:
    provider = ScriptedProvider([say("hi")])
    await Runtime(provider=provider, sources=[work(web=9, github=1, notes=1)], preset="budget").run("web")
    assert "Available categories: github, notes, web." in provider.requests[0].tools[0]["function"]["description"]


@pytest.mark.proves("R000-48", "R000-17")
async def test_the_schemas_required_parameter_is_required() -> None:
    parameters = request_more_tools_schema(["notes"])["function"]["parameters"]
    assert parameters["required"] == ["categories"]
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"reason": "no idea"}), say("hi")])
    await Runtime(provider=provider, sources=[work(web=9, notes=1)], preset="budget").run("web")
    assert "categories" in tool_texts(provider.requests[1])[0]
    assert names(provider.requests[1]) == names(provider.requests[0])


@pytest.mark.proves("R000-48", "R000-25", "R000-28")
async def test_the_set_of_tools_grows_inside_the_loop() -> None:
    both = calls((REQUEST_MORE_TOOLS, {"categories": ["notes", "web"]}), ("web_0", {"text": "x"}))
    provider = ScriptedProvider([both, call("notes_1"), say("done")])
    result = await Runtime(provider=provider, sources=[work(web=9, notes=2)], preset="budget").run("web")
    assert catalog_names(provider.requests[1]) == [*catalog_names(provider.requests[0]), "notes_0", "notes_1"]
    assert result.tool_calls == ("web_0", "notes_1")


# ---------------------------------------------------------------- the webhook around it


@pytest.mark.proves("R000-49")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_comes_in_by_http_and_the_reply_goes_back_to_the_user(tmp_path: Path, stream: bool) -> None:
    """An assistant behind a webhook: one POST, and the answer is what the model said after it had loaded and called."""
    steps = [
        call(REQUEST_MORE_TOOLS, {"categories": ["github"]}),
        call("github_1", {"text": "issue 7"}),
        say("The issue is closed."),
    ]
    async with (
        ScriptedUpstream(steps) as upstream,
        gateway(
            tmp_path,
            upstream.base_url,
            sources=[work(notes=10, github=7)],
            preset="budget",
            classifier=names_categories("notes"),
        ) as door,
    ):
        body = {"model": "gpt-test", "messages": [{"role": "user", "content": PROMPT}]}
        if stream:
            chunks = [chunk async for chunk in await door.client.chat.completions.create(**body, stream=True)]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        else:
            answer = await door.client.chat.completions.create(**body)
            text = answer.choices[0].message.content or ""
            assert answer.choices[0].message.tool_calls is None
    assert text == "The issue is closed."
    assert [len(names(body)) for body in upstream.bodies] == [9, 16, 16]
    assert upstream.bodies[2]["messages"][-1]["content"] == "github_1 ran with 'issue 7'"
