"""`[embedding]` on the command line: what is refused at start, and what a command keeps for the next one."""

from __future__ import annotations

import json

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.doors.commandline import CommandLine
from tests.embedders.models import Meanings

ASKED = "I am away in August, pause everything please"
KEY = "sk-secret-0123456789"


@pytest.fixture
def server(httpserver: HTTPServer) -> HTTPServer:
    """An endpoint that knows a few words."""

    def handle(request: Request) -> Response:
        vectors = Meanings().embed(json.loads(request.data)["input"]).tolist()
        data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return Response(json.dumps({"data": data}), content_type="application/json")

    httpserver.expect_request("/v1/embeddings", method="POST").respond_with_handler(handle)
    return httpserver


def settings(toolcaddie: CommandLine, **values: object) -> None:
    """Tools enough that some must be left out, and what is set under `embedding`."""
    tools = [{"name": "stop_membership", "description": "Freeze a membership.", "parameters": {"type": "object"}}]
    tools += [{"name": f"report_{n}", "description": f"Area {n}.", "parameters": {"type": "object"}} for n in range(60)]
    (toolcaddie.home / "tools.jsonl").write_text("\n".join(json.dumps(tool) for tool in tools))
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    (toolcaddie.home / "toolcaddie.toml").write_text("\n".join(['catalogs = ["tools.jsonl"]', "[embedding]", *lines]))


def test_a_command_finds_by_meaning_and_the_next_one_embeds_the_request_alone(
    toolcaddie: CommandLine, server: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(toolcaddie, embedder="endpoint", url=server.url_for("/v1"), model="m", key_env="EMBEDDING_KEY")
    monkeypatch.setenv("EMBEDDING_KEY", KEY)
    first = toolcaddie.json("select", ASKED)
    assert first["tools"][0]["name"] == "stop_membership"
    assert {request.headers["authorization"] for request, _ in server.log} == {f"Bearer {KEY}"}
    server.clear_log()
    assert toolcaddie.json("select", ASKED) == first
    assert [json.loads(request.data)["input"] for request, _ in server.log] == [[ASKED]]


def test_why_says_that_a_tool_is_near_in_meaning(toolcaddie: CommandLine, server: HTTPServer) -> None:
    settings(toolcaddie, embedder="endpoint", url=server.url_for("/v1"), model="m")
    found = toolcaddie.json("why", "stop_membership", ASKED)
    assert found["chosen"]
    assert found["signals"]["embedding"] > 0


def test_where_the_endpoint_refuses_a_command_finds_what_it_finds_without_one(
    toolcaddie: CommandLine, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/v1/embeddings").respond_with_data("no such model", 404)
    settings(toolcaddie, embedder="endpoint", url=httpserver.url_for("/v1"), model="m")
    found = toolcaddie.json("select", "figures of area 7")
    settings(toolcaddie)
    without = toolcaddie.json("select", "figures of area 7")
    assert [tool["name"] for tool in found["tools"]] == [tool["name"] for tool in without["tools"]] != []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"embedder": "miniln"}, "did you mean 'minilm'?"),
        ({"runtime": "onnx"}, "no embedding.embedder"),
        ({"embedder": "endpoint", "url": "http://localhost/v1"}, "embedding.model"),
        ({"embedder": "endpoint", "url": "http://localhost/v1", "model": "m", "runtime": "onnx"}, "'runtime'"),
        ({"embedder": "minilm", "key_env": "NOT_SET_AT_ALL"}, "NOT_SET_AT_ALL is not set"),
        ({"embedder": "minilm", "patience": 0}, "embedding.patience"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(
    toolcaddie: CommandLine, values: dict[str, object], said: str
) -> None:
    settings(toolcaddie, **values)
    assert said in toolcaddie.refused("select", ASKED)


def test_our_embedders_are_listed_with_the_plugins(toolcaddie: CommandLine) -> None:
    listed = toolcaddie.json("plugins")["plugins"]
    ours = {plugin["name"]: plugin["error"] for plugin in listed if plugin["group"] == "toolcaddie.embedders"}
    assert ours == {"e5": None, "endpoint": None, "fastembed": None, "minilm": None}
