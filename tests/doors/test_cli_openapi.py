"""APIs with an OpenAPI document as a person has them: in the settings and on the command line."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.doors.commandline import CommandLine
from tests.sources.openapi.recording import document, serving
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

PETS = document(
    {
        "/pets": {
            "get": {"operationId": "list_pets", "summary": "List the pets", "tags": ["pets"]},
            "post": {"operationId": "add_pet", "summary": "Add a pet", "tags": ["pets"]},
        },
        "/pets/{id}": {"delete": {"operationId": "remove_pet", "summary": "Remove a pet", "tags": ["admin"]}},
    }
)


def test_the_tools_command_lists_the_operations_of_a_file(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "pets.json").write_text(json.dumps(PETS))
    tools = {tool["name"]: tool for tool in toolcaddie.json("tools", "--catalog", "openapi:pets.json")["tools"]}
    assert tools.keys() == {"list_pets", "add_pet", "remove_pet"}
    assert (tools["list_pets"]["category"], tools["list_pets"]["source"]) == ("pets.pets", "pets")
    assert tools["list_pets"]["annotations"]["read_only"]
    assert tools["remove_pet"]["annotations"]["destructive"]


def test_settings_filter_and_prefix_the_operations(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "pets.json").write_text(json.dumps(PETS))
    (toolcaddie.home / "toolcaddie.toml").write_text(
        '[[source]]\ntype = "openapi"\nname = "zoo"\ndocument = "pets.json"\nservers = ["https://pets.example.com"]\n'
        'include = ["tag:pets"]\nexclude = ["POST *"]\nprefix = "zoo"\n'
    )
    assert [tool["name"] for tool in toolcaddie.json("tools")["tools"]] == ["zoo__list_pets"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('document = "none.json"', "none.json cannot be read"),
        ('document = "pets.json"\nincldue = ["*"]', "incldue"),
        ('document = "pets.json"\ntimeout = -1', "timeout"),
        ('document = "pets.json"\n[source.auth.key]\ntoken_env = "A B"', "token_env"),
        ('document = "pets.json"\n[source.auth.key]\ntoken_env = "T"', "the document has no such security scheme"),
    ],
)
def test_wrong_settings_in_the_file_are_refused_by_name(toolcaddie: CommandLine, line: str, sentence: str) -> None:
    (toolcaddie.home / "pets.json").write_text(json.dumps(PETS))
    (toolcaddie.home / "toolcaddie.toml").write_text(f'[[source]]\ntype = "openapi"\nname = "zoo"\n{line}\n')
    result = toolcaddie("tools")
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr.splitlines()[-1]


def test_a_short_form_without_a_document_says_what_to_write(toolcaddie: CommandLine) -> None:
    assert "write openapi:FILE or openapi:URL" in toolcaddie.refused("tools", "--catalog", "openapi:")


async def test_a_run_calls_the_api(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    async with serving() as api:
        (toolcaddie.home / "pets.json").write_text(json.dumps(PETS))
        (toolcaddie.home / "toolcaddie.toml").write_text(
            f'[[source]]\ntype = "openapi"\nname = "zoo"\ndocument = "pets.json"\nservers = ["{api.url}"]\n'
        )
        async with ScriptedUpstream([call("list_pets", {}), say("There are two.")]) as upstream:
            words = ("run", "list the pets", "--model", "openai:m", "--upstream", upstream.base_url, "--json")
            answer = json.loads(await asyncio.to_thread(toolcaddie.ok, *words))
    assert answer["text"] == "There are two."
    assert [request.target for request in api.requests] == ["/pets"]
