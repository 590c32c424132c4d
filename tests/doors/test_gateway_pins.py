"""Tools a client cannot do without: pinned by a header, recognised, or named in its instructions. Real sockets on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.clients.server import definition, many_tools, names_of
from tests.doors.serving import gateway
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.run import RunRequest
from toolcaddie.doors.gateway.essential import NO_FACTS, ToolFacts, checked_pins, pins_of
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedUpstream, call, calls, say
from toolcaddie.wires.chat.messages import read_definition

pytestmark = pytest.mark.anyio

ASK = [{"role": "user", "content": "archive the ticket"}]
POLICY = definition("lookup_policy", "What the house rules say.")
OUTPUT = definition("final_result", "The answer.", {"text": {"type": "string"}})


async def ask(served: Any, tools: list[Any], pin: str | None = None, **more: Any) -> Any:
    """The answer with its headers."""
    headers = {} if pin is None else {"x-toolcaddie-pin": pin}
    create = served.client.chat.completions.with_raw_response.create
    return await create(**{"model": "gpt-test", "messages": ASK, "tools": tools, "extra_headers": headers, **more})


@pytest.mark.parametrize("preset", ["default", "budget", "keyword", "multibot", "compact"])
async def test_a_pinned_tool_is_sent_in_every_preset(tmp_path: Path, preset: str) -> None:
    async with (
        ScriptedUpstream([say("ok")]) as upstream,
        gateway(tmp_path, upstream.base_url, preset=preset) as served,
    ):
        await ask(served, [*many_tools(299), POLICY], "lookup_policy")
        assert "lookup_policy" in names_of(upstream.bodies[0])
        assert len(names_of(upstream.bodies[0])) <= 128
        assert not upstream.refusals


async def test_pins_stand_outside_max_tools_and_the_trail_says_why(tmp_path: Path) -> None:
    tools = many_tools(300)
    async with ScriptedUpstream(lambda body: say("ok")) as upstream, gateway(tmp_path, upstream.base_url) as served:
        plain = await ask(served, tools)
        pinned = await ask(served, tools, "share_payroll*, merge_vehicle")
        names = {"share_payroll", "share_payroll_2", "share_payroll_3", "merge_vehicle"}
        without, sent = names_of(upstream.bodies[0]), names_of(upstream.bodies[1])
        assert names <= set(sent)
        assert set(without) - names <= set(sent)
        events = await served.database.events.events(pinned.headers["x-toolcaddie-run"])
        (selected,) = [event.data for event in events if event.kind == "tools_selected"]
        reasons = {each["name"]: each["reasons"] for each in selected["tools"]}
        assert {name for name, said in reasons.items() if said == ["pinned: by the client (x-toolcaddie-pin)"]} == names
        assert "x-toolcaddie-unpinned" not in plain.headers


async def test_a_pin_that_fits_no_tool_is_told_in_a_header_and_the_request_goes_on(tmp_path: Path) -> None:
    """A client sends the same headers with every request, also with one that has other tools."""
    async with ScriptedUpstream([say("ok"), say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        answer = await ask(served, [POLICY], "lookup_policy, no_such_tool, crm_*")
        assert answer.headers["x-toolcaddie-unpinned"] == "no_such_tool,crm_*"
        await served.client.chat.completions.create(
            model="gpt-test", messages=ASK, extra_headers={"x-toolcaddie-pin": "lookup_policy"}
        )
        assert "x-toolcaddie-pin" not in upstream.requests[-1].headers


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("lookup policy", "'lookup policy', which is not the name of a tool"),
        ("a*b", "'a*b', which is not the name of a tool"),
        (",".join(f"tool_{n}" for n in range(129)), "at most 128"),
        ("*", "300 tools that are always sent"),
    ],
)
async def test_a_wrong_pin_is_refused_by_name(tmp_path: Path, pin: str, said: str) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url) as served:
        with pytest.raises(openai.BadRequestError, match="pin") as caught:
            await ask(served, many_tools(300), pin)
        assert said in str(caught.value)
        assert upstream.bodies == []


async def test_a_tool_of_our_catalog_can_be_pinned_and_a_hidden_one_is_not_confirmed(tmp_path: Path) -> None:
    @tool(roles=["admin"])
    def erase_everything() -> str:
        """Erase all that there is."""
        return "gone"

    @tool
    def polish_the_brass() -> str:
        """Polish the brass."""
        return "shiny"

    source = FunctionSource("house", [erase_everything, polish_the_brass])
    async with (
        ScriptedUpstream([say("ok")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[source]) as served,
    ):
        answer = await ask(served, many_tools(200), "polish_the_brass, erase_everything")
        sent = names_of(upstream.bodies[0])
        assert "polish_the_brass" in sent
        assert "erase_everything" not in sent
        assert answer.headers["x-toolcaddie-unpinned"] == "erase_everything"


@pytest.mark.parametrize(
    "essential",
    [
        OUTPUT,
        definition("final_result_Report"),
        definition("file_it", "A report. The final response which ends this conversation"),
        definition("transfer_to_billing", "Handoff to the billing agent to handle the request."),
        definition("ask_accountant", "Handoff to the billing agent to handle the request. Knows numbers"),
        definition("handoff_to_agent"),
        definition("final_answer"),
        definition("set_model_response"),
        definition("delegate_work_to_coworker"),
        definition("delegate_task_to_member"),
        definition("handoff", "Useful for handing off to another agent.\nAvailable agents: boss"),
        definition("finish", "Signals the completion of the current task or conversation."),
        definition("TodoWrite"),
        definition("ExitPlanMode"),
    ],
    ids=lambda one: one["function"]["name"],
)
async def test_output_tools_and_hand_offs_are_recognised(tmp_path: Path, essential: dict[str, Any]) -> None:
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, [*many_tools(200), essential])
        assert essential["function"]["name"] in names_of(upstream.bodies[0])


async def test_an_ordinary_name_alone_is_no_output_tool(tmp_path: Path) -> None:
    tools = [definition("finish", "Sand and varnish a table."), definition("handoff", "Give the keys to a guest.")]
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, [*many_tools(200), *tools])
        assert not {"finish", "handoff"} & set(names_of(upstream.bodies[0]))


async def test_a_habit_of_naming_is_no_hand_off(tmp_path: Path) -> None:
    banking = [definition(f"transfer_to_account_{n}", f"Pay into account {n}.") for n in range(60)]
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, [*many_tools(200), *banking])
        sent = names_of(upstream.bodies[0])
        assert sum(name.startswith("transfer_to_") for name in sent) < 20


@pytest.mark.parametrize("text", ["First call lookup_policy.", "Use the `lookup_policy` tool.", "call lookup_policy()"])
async def test_a_tool_that_the_instructions_name_is_sent(tmp_path: Path, text: str) -> None:
    messages = [{"role": "system", "content": text}, *ASK]
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, [*many_tools(200), POLICY], messages=messages)
        assert "lookup_policy" in names_of(upstream.bodies[0])


async def test_instructions_that_list_every_tool_pin_none_and_common_words_are_no_names(tmp_path: Path) -> None:
    tools = [*many_tools(200), definition("search", "Look into the attic.")]
    listed = ", ".join(each["function"]["name"] for each in tools[:60])
    async with ScriptedUpstream(lambda body: say("ok")) as upstream, gateway(tmp_path, upstream.base_url) as served:
        for text in (f"You have these tools: {listed}.", "Search well, and search again."):
            await ask(served, tools, messages=[{"role": "system", "content": text}, *ASK])
        plain = await ask(served, tools)
        assert plain.headers["x-toolcaddie-tools"]
        first, second, third = map(names_of, upstream.bodies)
        assert len(first) == len(second) == len(third)
        assert "search" not in second


@pytest.mark.parametrize("name", ["ContactInfo", "file_it"])
async def test_where_a_tool_must_be_called_that_of_the_answer_is_sent(tmp_path: Path, name: str) -> None:
    """Known by a type's name wherever it stands, and else by its place: frameworks put it last."""
    tools = many_tools(200)
    tools.insert(100 if name == "ContactInfo" else 200, definition(name, "Name and address."))
    async with ScriptedUpstream(lambda body: say("ok")) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, tools)
        await ask(served, tools, tool_choice="required")
        assert [name in names_of(body) for body in upstream.bodies] == [False, True]


async def test_a_small_set_with_an_output_tool_goes_through_whole_and_in_the_clients_order(tmp_path: Path) -> None:
    tools = [*many_tools(23), OUTPUT, POLICY]
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, tools)
        assert upstream.bodies[0]["tools"] == tools


@pytest.mark.parametrize("stream", [False, True])
async def test_the_output_tool_can_be_called_in_the_last_round(tmp_path: Path, stream: bool) -> None:
    """After five rounds of our own tools a client whose answer is the call of its output tool would wait for ever."""

    @tool(read_only=True)
    def look_around(room: int) -> str:
        """Look around in a room."""
        return f"nothing in {room}"

    rounds = [call("look_around", {"room": n}) for n in range(5)]
    last = calls(("final_result", {"text": "nothing"}), ("lookup_policy", {}))
    async with (
        ScriptedUpstream([*rounds, last]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[look_around]) as served,
    ):
        answer = await served.client.chat.completions.create(
            model="gpt-test", messages=ASK, tools=[POLICY, OUTPUT], tool_choice="required", stream=stream
        )
        if stream:
            pieces = [each async for chunk in answer for each in chunk.choices[0].delta.tool_calls or ()]
            called = [each.function.name for each in pieces if each.function.name]
        else:
            called = [each.function.name for each in answer.choices[0].message.tool_calls]
        assert called == ["final_result"]
        body = upstream.bodies[5]
        assert names_of(body) == ["final_result"]
        assert body["tool_choice"] == "required"
        assert "final_result" in body["messages"][-1]["content"]
        assert not upstream.refusals


async def test_the_essential_tools_stay_when_the_array_is_made_anew(tmp_path: Path) -> None:
    """The model asks for more until the cap is reached."""
    tools = [*many_tools(299), OUTPUT]
    more = [call(REQUEST_MORE_TOOLS, {"query": text}) for text in ("payroll", "vehicle", "campaign")]
    async with ScriptedUpstream([*more, say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, tools)
        assert all("final_result" in names_of(body) for body in upstream.bodies)


async def test_why_says_that_a_tool_was_pinned(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url, sources=[_office]) as served:
        request = RunRequest(messages=(), essential={"office_work": "an output tool of somebody"})
        found = served.runtime.explain("office_work", request)
        assert (found.chosen, found.stage) == (True, "pinned")
        assert found.reasons == ("pinned: an output tool of somebody",)


def _office(number: int) -> str:
    """Work in the office."""
    return str(number)


_office.__name__ = "office_work"


async def test_the_wrong_path_says_which_base_address_to_set(tmp_path: Path) -> None:
    wanted = {
        "/chat/completions": "with /v1 at the end",
        "/v1/v1/chat/completions": "with /v1 at the end",
        "/openai/deployments/gpt/chat/completions": "with /v1 at the end",
        "/responses": "the Responses API is at /v1/responses",
        "/v1/v1/messages": "Anthropic's API is at /v1/messages",
        "/v1beta/models/gemini:generateContent": "Gemini's API is not served here",
        "/api/chat": "Ollama's API is not served here",
        "/embeddings": "embeddings are at /v1/embeddings",
        "/v1/files": "gateway.passed",
        "/nothing": "/v1/chat/completions",
    }
    async with (
        ScriptedUpstream() as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
    ):
        for path, said in wanted.items():
            async with session.post(f"{served.base_url}{path}", json={}) as answer:
                assert answer.status == 404
                error = (await answer.json())["error"]
                assert said in error["message"], path
                assert error["code"] == "unknown_url"


OWN = ("read", "bash", "todowrite", "task", "edit", "apply_patch")


@pytest.mark.parametrize(
    "prefixes", [("office_",), ("mcp__a__", "mcp__b__", "mcp__c__", "mcp__d__")], ids=["one", "four"]
)
async def test_a_clients_own_few_tools_stay_beside_large_groups(tmp_path: Path, prefixes: tuple[str, ...]) -> None:
    tools = [definition(f"{prefix}{tool['function']['name']}") for prefix in prefixes for tool in many_tools(50)]
    own = [definition(name) for name in OWN]
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, [*own, *tools])
        assert set(OWN) <= set(names_of(upstream.bodies[0]))
        assert len(names_of(upstream.bodies[0])) < 60


async def test_verbs_are_not_taken_for_the_groups_of_servers(tmp_path: Path) -> None:
    few = [definition(f"paint_{thing}") for thing in ("wall", "door", "roof")]
    async with ScriptedUpstream([say("ok")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await ask(served, [*few, *many_tools(300)])
        assert not any(name.startswith("paint_") for name in names_of(upstream.bodies[0]))


async def test_the_settings_pin_tools_for_every_client(tmp_path: Path) -> None:
    facts = ToolFacts.of([read_definition(tool, "tools") for tool in [POLICY, definition("crm_find"), *many_tools(30)]])
    pins = pins_of(b"lookup_policy", facts, None, (), lambda: (), checked_pins(["crm_*", "lookup_policy", "other"]))
    assert pins.tools == {
        "crm_find": "by the settings (gateway.pinned)",
        "lookup_policy": "by the client (x-toolcaddie-pin)",
    }
    assert pins.unknown == ()
    assert pins_of(None, NO_FACTS, None, (), lambda: ("crm_find",), ("crm_*",)).tools.keys() == {"crm_find"}
    with pytest.raises(ConfigError, match=r"gateway\.pinned holds 'a b'"):
        checked_pins(["a b"])
