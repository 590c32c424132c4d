"""Each parameter of a client before another API does what the tables of docs/wires.md say: it is translated, has no effect, or is
refused with an error that names it. Upstreams are strict: they refuse parameters that the real server does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from tests.doors.serving import gateway
from tests.doors.test_gateway_matrix import PROVIDERS
from tests.doors.test_gateway_unknown_fields import APIS, DOORS
from toolcaddie.testing import ScriptedUpstream, say

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "wires.md"
TITLES = {"chat completions": "chat", "Responses API": "responses", "Messages API": "messages"}
FORMAT = {"name": "answer", "schema": {"type": "object", "properties": {}, "additionalProperties": False}}
SCHEMA = {"type": "json_schema", **FORMAT}
EXAMPLES: dict[str, Any] = {
    "access_programs": ["early"],
    "audio": {"voice": "alloy", "format": "mp3"},
    "cache_control": {"type": "ephemeral"},
    "client_metadata": {"client": "test"},
    "container": "container_1",
    "context_management": [],
    "conversation": "conv_1",
    "diagnostics": {"level": "full"},
    "frequency_penalty": 0.5,
    "function_call": "auto",
    "functions": [{"name": "freeze", "parameters": {}}],
    "image": {"size": "auto"},
    "include": ["reasoning.encrypted_content"],
    "include with log probabilities": ["message.output_text.logprobs"],
    "inference_geo": "us",
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_completion_tokens": 50,
    "max_output_tokens": 50,
    "max_tokens": 50,
    "max_tool_calls": 3,
    "mcp_servers": [{"type": "url", "url": "http://127.0.0.1:1", "name": "other"}],
    "metadata": {"team": "gym"},
    "metadata with a user": {"user_id": "u1"},
    "modalities": ["text", "audio"],
    "moderation": {"model": "omni"},
    "n": 2,
    "output_config with a format": {"format": {"type": "json_schema", "schema": FORMAT["schema"]}},
    "output_config with an effort": {"effort": "low"},
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "Frozen."},
    "presence_penalty": 0.5,
    "prompt": {"id": "pmpt_1"},
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "reasoning": {"effort": "low", "summary": "auto"},
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": FORMAT},
    "safety_identifier": "u1",
    "seed": 7,
    "service_tier of more": "priority",
    "speed": "fast",
    "stop": ["END"],
    "stop_sequences": ["END"],
    "store": True,
    "temperature": 0.3,
    "text with a format": {"format": SCHEMA},
    "text with a verbosity": {"verbosity": "low"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "thinking disabled or adaptive": {"type": "disabled"},
    "top_k": 5,
    "top_logprobs": 2,
    "top_p": 0.5,
    "truncation": "auto",
    "user": "u1",
    "user_profile_id": "u1",
    "verbosity": "low",
    "web_search_options": {"search_context_size": "low"},
    "workspace_id": "w1",
}
"""A value with an effect, by parameter. A parameter with two meanings has more words, as in the table."""
STORE: dict[str, dict[str, Any]] = {"chat": {}, "responses": {"store": False}, "messages": {}}
OUTCOMES = {"no effect": "", "the gateway stores": ""}
UPSTREAM_NAMES = {"stop_sequences": "stop"}
"""Names in the upstream's error that differ from the client's."""
ELSEWHERE = {"messages", "model", "input", "instructions", "system", "tools", "tool_choice", "stream", "stream_options"}
"""Parameters that other parts of the page describe."""
OTHERS = {"background", "previous_response_id", "prompt_cache_options"}


class Case(NamedTuple):
    door: str
    upstream: str
    words: str
    expected: str


def cases() -> Iterator[Case]:
    """The cells of the three tables of the page."""
    heads: list[str] = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            heads = []
        elif cells[0] in TITLES and all(cell.endswith("upstream") for cell in cells[1:]):
            heads = [TITLES[cells[0]], *(cell.split()[0].lower() for cell in cells[1:])]
        elif heads and not cells[0].startswith("-"):
            for words in _parameters(cells[0]):
                for upstream, cell in zip(heads[1:], cells[1:], strict=True):
                    yield from _cases(heads[0], upstream, words, cell)


def _parameters(cell: str) -> Iterator[str]:
    names = re.findall(r"`(\w+)`", cell)
    if len(names) > 1:
        yield from names
        return
    words = cell.replace("`", "")
    yield words if words in EXAMPLES else names[0]


def _cases(door: str, upstream: str, words: str, cell: str) -> Iterator[Case]:
    usual, _, other = cell.partition(";")
    expected = words if usual == "same name" else usual.split(":")[0].split(" of ")[0].strip("`")
    yield Case(door, upstream, words, expected)
    if other:
        assert other.endswith("400")
        more = {"include": "include with log probabilities", "service_tier": "service_tier of more"}
        yield Case(door, upstream, more[words], "400")


CASES = list(cases())
PAIRS = [
    pytest.param(door, upstream, id=f"{door}-{upstream}") for door in APIS for upstream in PROVIDERS if door != upstream
]


@pytest.mark.parametrize(("door", "upstream"), PAIRS)
async def test_parameters_before_another_api_do_what_the_table_says(door: str, upstream: str, tmp_path: Path) -> None:
    make_wire, make_provider = PROVIDERS[upstream]
    wire = make_wire()
    async with (
        ScriptedUpstream(lambda _: say("Frozen."), **({} if wire is None else {"wire": wire})) as server,
        gateway(tmp_path, make_provider(server.base_url), doors=DOORS) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):

        async def sent(**more: Any) -> tuple[httpx.Response, dict[str, Any]]:
            answer = await http.post(
                APIS[door].path, json={"model": "gpt-5", **APIS[door].request, **STORE[door], **more}
            )
            return answer, msgspec.json.decode(server.requests[-1].raw)

        answer, usual = await sent()
        assert answer.status_code == 200
        differences = []
        for case in (case for case in CASES if (case.door, case.upstream) == (door, upstream)):
            name = case.words.split()[0]
            value = _example(case)
            answer, body = await sent(**{name: value})
            outcome = _outcome(answer, name) if answer.status_code != 200 else _changes(usual, body)
            if outcome not in (case.expected, OUTCOMES.get(case.expected)):
                differences.append((case.words, case.expected, outcome))
        assert differences == []


def _example(case: Case) -> Any:
    if case.words != "service_tier":
        return EXAMPLES[case.words]
    return "standard_only" if case.door == "messages" else "flex" if case.upstream == "gemini" else "default"


def _outcome(answer: httpx.Response, name: str) -> str:
    message = answer.json()["error"]["message"]
    return "400" if answer.status_code == 400 and UPSTREAM_NAMES.get(name, name) in message else answer.text


def _changes(usual: dict[str, Any], body: dict[str, Any]) -> str:
    """Returns the fields that differ from those of a request without the parameter."""
    return ", ".join(sorted(field for field in usual.keys() | body.keys() if usual.get(field) != body.get(field)))


@pytest.mark.parametrize(
    ("door", "params"),
    [
        ("chat", CompletionCreateParamsBase),
        ("responses", ResponseCreateParamsBase),
        ("messages", MessageCreateParamsBase),
    ],
    ids=TITLES.values(),
)
def test_the_tables_hold_every_parameter_of_the_official_packages(door: str, params: Any) -> None:
    described = {case.words.split()[0] for case in cases() if case.door == door}
    assert params.__annotations__.keys() - described - ELSEWHERE - OTHERS == set()


@pytest.mark.parametrize("door", ["responses", "messages"])
@pytest.mark.parametrize(
    ("model", "name"),
    [("openai/gpt-5", "max_completion_tokens"), ("gpt-oss:20b", "max_tokens"), ("qwen4", "max_tokens")],
)
async def test_the_limit_of_an_answer_has_the_name_that_the_models_server_knows(
    door: str, model: str, name: str, tmp_path: Path
) -> None:
    limit = {"responses": "max_output_tokens", "messages": "max_tokens"}[door]
    _, make_provider = PROVIDERS["chat"]
    async with (
        ScriptedUpstream([say("Frozen.")]) as server,
        gateway(tmp_path, make_provider(server.base_url), doors=DOORS) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        await http.post(APIS[door].path, json={**APIS[door].request, "model": model, **STORE[door], limit: 60})
        assert {
            field: value
            for field, value in msgspec.json.decode(server.requests[0].raw).items()
            if field.startswith("max")
        } == {name: 60}
