"""Tools for tests: scripted models and contract suites. Nothing in production imports this package.

A scripted model answers from a list of replies. One runs in the process of the test (`ScriptedProvider`), the other behind a real
socket (`ScriptedUpstream`), where it refuses what the real provider would refuse. A contract suite is a list of checks for a part
of your own, such as a provider or a store. All of it ships with Toolcaddie, because applications and plugins test the same
things.

Each name is imported when it is first used: a test that needs only a script does not wait until an HTTP server is imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcaddie.testing.anthropic import AnthropicWire
    from toolcaddie.testing.brave import ScriptedBrave
    from toolcaddie.testing.chat import CHAT
    from toolcaddie.testing.faults import altered, dripped, flood, hang_up, noisy
    from toolcaddie.testing.gemini import GeminiWire
    from toolcaddie.testing.provider import ScriptedProvider
    from toolcaddie.testing.provider_contract import (
        CHECKS,
        BrokenPromises,
        Check,
        ContractError,
        Subject,
        check_all,
        check_conversation,
        check_switch,
    )
    from toolcaddie.testing.responses import ResponsesWire
    from toolcaddie.testing.script import Reply, ScriptError, call, calls, say
    from toolcaddie.testing.twilio import ScriptedTwilio
    from toolcaddie.testing.upstream import (
        Exchange,
        RecordedRequest,
        ScriptedUpstream,
        cut,
        empty_choices,
        endless,
        garbage,
        paced,
        refuse,
    )
    from toolcaddie.testing.wire import Wire
    from toolcaddie.wires.chat.strict import complaint as refusal_of

_HOMES = {
    "AnthropicWire": "anthropic",
    "BrokenPromises": "provider_contract",
    "CHAT": "chat",
    "CHECKS": "provider_contract",
    "Check": "provider_contract",
    "ContractError": "provider_contract",
    "Exchange": "upstream",
    "GeminiWire": "gemini",
    "RecordedRequest": "upstream",
    "Reply": "script",
    "ResponsesWire": "responses",
    "ScriptError": "script",
    "ScriptedBrave": "brave",
    "ScriptedProvider": "provider",
    "ScriptedTwilio": "twilio",
    "ScriptedUpstream": "upstream",
    "Subject": "provider_contract",
    "Wire": "wire",
    "altered": "faults",
    "call": "script",
    "calls": "script",
    "check_all": "provider_contract",
    "check_conversation": "provider_contract",
    "check_switch": "provider_contract",
    "cut": "upstream",
    "dripped": "faults",
    "empty_choices": "upstream",
    "endless": "upstream",
    "flood": "faults",
    "garbage": "upstream",
    "hang_up": "faults",
    "noisy": "faults",
    "paced": "upstream",
    "refusal_of": "chat",
    "refuse": "upstream",
    "say": "script",
}

__all__ = [
    "CHAT",
    "CHECKS",
    "AnthropicWire",
    "BrokenPromises",
    "Check",
    "ContractError",
    "Exchange",
    "GeminiWire",
    "RecordedRequest",
    "Reply",
    "ResponsesWire",
    "ScriptError",
    "ScriptedBrave",
    "ScriptedProvider",
    "ScriptedTwilio",
    "ScriptedUpstream",
    "Subject",
    "Wire",
    "altered",
    "call",
    "calls",
    "check_all",
    "check_conversation",
    "check_switch",
    "cut",
    "dripped",
    "empty_choices",
    "endless",
    "flood",
    "garbage",
    "hang_up",
    "noisy",
    "paced",
    "refusal_of",
    "refuse",
    "say",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolcaddie.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
