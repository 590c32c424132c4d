"""Every provider keeps the one contract, and any two of them can take turns in a conversation."""

from __future__ import annotations

import pytest

from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.testing import CHAT
from toolcaddie.testing.provider_contract import CHECKS, Check, Subject

pytestmark = pytest.mark.anyio


CHAT_SUBJECT = Subject(name="chat", provider=lambda base_url, key: OpenAIChat(base_url, key), wire=lambda: CHAT)
SUBJECTS = (CHAT_SUBJECT,)


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
async def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    await check(subject)
