"""The headers and settings of the gateway mean the same at all three doors: pins, idempotency keys, conversations, other names of
models. One running `toolcaddie serve` in front of an upstream that takes 128 tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.clients.errands import NAMES, request_for
from tests.clients.server import Stage, names_of, serving
from tests.doors.wire_clients import CLIENTS
from toolcaddie.testing import call, say

pytestmark = pytest.mark.anyio

SETTINGS = """
[gateway]
pinned = ["merge_camera_*", "tag_flight_home"]
aliases = { fast = "gpt-test" }
"""
BY_SETTINGS = {"merge_camera_home", "merge_camera_office", "merge_camera_cloud", "tag_flight_home"}
doors = pytest.mark.parametrize("door", CLIENTS)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "toolcaddie.toml").write_text(SETTINGS)
    with serving(folder) as stage:
        yield stage


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    running.begin()
    yield running
    assert running.upstream.refusals == []


class Answer:
    def __init__(self, response: aiohttp.ClientResponse, raw: bytes) -> None:
        self.status, self.headers, self.raw = response.status, response.headers, raw

    def error(self, door: str) -> Any:
        """The error, in the shape of its door."""
        body = msgspec.json.decode(self.raw)
        assert door != "messages" or body["type"] == "error"
        return body["error"]


def body_of(door: str, *texts: str, **more: Any) -> dict[str, Any]:
    """A request with 300 tools: what the user wrote first, what the model answered, what the user wrote then."""
    client = CLIENTS[door]
    roles = ("user", "assistant", "user")
    history = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    tools = client.tools(client, NAMES)  # type: ignore[arg-type]  they need no connection
    if door == "responses":
        return {"model": "fast", "input": history, "tools": tools, "store": False, **more}
    tokens = {"max_tokens": 100} if door == "messages" else {}
    return {"model": "fast", "messages": history, "tools": tools, **tokens, **more}


async def post(stage: Stage, door: str, body: Any, **headers: str) -> Answer:
    url = f"{stage.address}{CLIENTS[door].path}"
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=sent) as response:
        return Answer(response, await response.read())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@doors
async def test_what_settings_and_header_pin_is_sent_and_the_model_is_asked_by_its_own_name(
    stage: Stage, door: str, stream: bool
) -> None:
    stage.plays(say("ok"))
    body = body_of(door, request_for("print_recipe_home"), stream=stream)
    answer = await post(stage, door, body, x_toolcaddie_pin="share_contract_*, no_such_tool")
    assert answer.status == 200
    assert answer.headers["x-toolcaddie-unpinned"] == "no_such_tool"
    by_client = {"share_contract_home", "share_contract_office", "share_contract_cloud"}
    assert by_client | BY_SETTINGS | {"print_recipe_home"} <= set(stage.offered)
    assert len(stage.offered) < 40
    assert stage.bodies[0]["model"] == "gpt-test"
    assert answer.headers["x-toolcaddie-tools"] == f"300->{len(stage.offered)}"


async def test_tools_of_a_namespace_and_custom_tools_are_pinned_by_the_names_that_the_model_gets(stage: Stage) -> None:
    stage.plays(say("ok"))
    body = body_of("responses", request_for("print_recipe_home"))
    custom = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
    body["tools"] = [
        {"type": "namespace", "name": "mcp__desk", "description": "A desk.", "tools": body["tools"]},
        custom,
    ]
    pins = "mcp__desk__share_contract_*, mcp__desk__tag_flight_home, apply_patch"
    answer = await post(stage, "responses", body, x_toolcaddie_pin=pins)
    assert answer.status == 200
    assert "x-toolcaddie-unpinned" not in answer.headers
    pinned = ("share_contract_home", "share_contract_office", "share_contract_cloud", "tag_flight_home")
    assert {f"mcp__desk__{name}" for name in pinned} | {"apply_patch"} <= set(stage.offered)


@doors
async def test_a_pin_that_cannot_be_a_name_is_refused_in_the_shape_of_the_door(stage: Stage, door: str) -> None:
    answer = await post(stage, door, body_of(door, "hello"), x_toolcaddie_pin="lookup policy")
    assert answer.status == 400
    assert "'lookup policy'" in answer.error(door)["message"]
    assert stage.bodies == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@doors
async def test_a_request_with_its_key_runs_once(stage: Stage, door: str, stream: bool) -> None:
    stage.plays(call("print_recipe_home", {"member": "7"}))
    key, body = f"{door} {stream}", body_of(door, request_for("print_recipe_home"), stream=stream)
    first = await post(stage, door, body, idempotency_key=key)
    again = await post(stage, door, body, idempotency_key=key)
    assert (first.status, again.status) == (200, 200)
    assert b"print_recipe_home" in first.raw
    assert again.raw == first.raw
    assert again.headers["x-toolcaddie-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"]
    assert len(stage.bodies) == 1
    other = await post(stage, door, {**body, "temperature": 0.5}, idempotency_key=key)
    assert other.status == 422
    assert "this idempotency key was used with another request" in other.error(door)["message"]
    assert other.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("key", ["", "é", "x" * 256], ids=["empty", "not ASCII", "long"])
@doors
async def test_a_wrong_key_is_refused_in_the_shape_of_the_door(stage: Stage, door: str, key: str) -> None:
    answer = await post(stage, door, body_of(door, "hi"), idempotency_key=key)
    assert answer.status == 400
    assert "idempotency-key" in answer.error(door)["message"]


def grows(stage: Stage) -> bool:
    """True if the second request to the upstream has the tools of the first one in front, and more behind them."""
    before, after = (names_of(body) for body in stage.bodies)
    return len(after) > len(before) and after[: len(before)] == before


@doors
async def test_a_conversation_is_known_by_its_header_and_its_tools_only_grow(stage: Stage, door: str) -> None:
    stage.plays(say("ok"), say("ok"))
    for name in ("print_recipe_home", "export_playlist_office"):
        await post(stage, door, body_of(door, request_for(name)), x_toolcaddie_conversation=f"talk {door}")
    assert grows(stage)
    assert "export_playlist_office" in stage.offered


@doors
async def test_a_conversation_is_known_by_its_messages(stage: Stage, door: str) -> None:
    stage.plays(say("It is printed."), say("ok"))
    asked, then = request_for("print_recipe_home"), request_for("export_playlist_office")
    await post(stage, door, body_of(door, asked))
    await post(stage, door, body_of(door, asked, "It is printed.", then))
    assert grows(stage)
    assert "export_playlist_office" in stage.offered


@pytest.mark.parametrize("door", ["chat", "responses"])
async def test_a_conversation_is_known_by_its_cache_key_and_first_words(stage: Stage, door: str) -> None:
    """A client that shortens its history keeps both."""
    stage.plays(say("It is printed."), say("ok"))
    asked, then = request_for("print_recipe_home"), request_for("export_playlist_office")
    await post(stage, door, body_of(door, asked, prompt_cache_key=f"app {door}"))
    await post(stage, door, body_of(door, asked, "(shortened)", then, prompt_cache_key=f"app {door}"))
    assert grows(stage)
    assert "export_playlist_office" in stage.offered
