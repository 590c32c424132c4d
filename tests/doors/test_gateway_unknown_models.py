"""The promise of docs/gateway.md that the tool array only grows, for models that no table knows."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

TURNS = (
    "freeze John's membership",
    "which salaries are pending this month?",
    "print a badge for Maria",
    "what did we spend on electricity?",
    "assign Maria the diet plan",
)
LONG = "word " * 2_000


def arrays(upstream: ScriptedUpstream) -> list[bytes]:
    """The tool arrays as they were sent, byte by byte, without the closing bracket."""
    found = []
    for request in upstream.requests:
        start = request.raw.index(b'"tools":[')
        text = request.raw[start + len(b'"tools":') :]
        _, end = json.JSONDecoder().raw_decode(text.decode())
        found.append(text.decode()[: end - 1].encode())
    return found


@pytest.mark.parametrize("model", ["house-model-1", "openai/gpt-5-mini", "meta-llama/llama-7-70b", "claude-sonnet-5-5"])
@pytest.mark.parametrize("answer", ["Done.", LONG])
async def test_over_the_turns_of_a_conversation_the_array_of_an_unknown_model_only_grows(
    tmp_path: Path, model: str, answer: str
) -> None:
    script: list[Any] = [say(answer) for _ in TURNS]
    script.insert(2, call("request_more_tools", {"query": "diet plans"}))
    async with ScriptedUpstream(script) as upstream:
        async with gateway(tmp_path, upstream.base_url, sources=[gym.source()]) as served:
            messages: list[Any] = []
            for text in TURNS:
                messages.append({"role": "user", "content": text})
                reply = await served.client.chat.completions.create(model=model, messages=messages)
                messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        sent = arrays(upstream)
    assert len(sent) == len(TURNS) + 1
    for before, after in pairwise(sent):
        assert after.startswith(before)
