"""Every provider keeps the one contract, and any two of them can take turns in a conversation."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import CHAT
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.testing.provider_contract import CHECKS, Check, Subject, check_switch
from toolcaddie.testing.responses import ResponsesWire

pytestmark = pytest.mark.anyio


def responses_error(status: int, words: str) -> bytes:
    """Its streams name no status, and have an event of their own for errors."""
    code = "rate_limit_exceeded" if status == 429 else "server_error"
    return msgspec.json.encode({"type": "error", "code": code, "message": words, "param": None, "sequence_number": 99})


SUBJECTS = (
    Subject(name="chat", provider=OpenAIChat, wire=lambda: CHAT),
    Subject(name="responses", provider=OpenAIResponses, wire=ResponsesWire, error_event=responses_error),
    Subject(name="anthropic", provider=Anthropic, wire=AnthropicWire),
    Subject(name="gemini", provider=Gemini, wire=GeminiWire),
)


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
async def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    await check(subject)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("second", SUBJECTS, ids=str)
@pytest.mark.parametrize("first", SUBJECTS, ids=str)
async def test_two_providers_take_turns_without_losing_a_call_or_a_result(
    first: Subject, second: Subject, stream: bool
) -> None:
    await check_switch(first, replace(second, model="gpt-other"), stream=stream)
