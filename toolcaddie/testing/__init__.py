"""Models that say what a test tells them to: one in process, one behind a real socket that is as strict as the provider.

Shipped, because whoever builds on Toolcaddie needs the same two.
"""

from toolcaddie.testing.chat import CHAT
from toolcaddie.testing.provider import ScriptedProvider
from toolcaddie.testing.script import Reply, ScriptError, call, calls, say
from toolcaddie.testing.strict import refusal_of
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

__all__ = [
    "CHAT",
    "Exchange",
    "RecordedRequest",
    "Reply",
    "ScriptError",
    "ScriptedProvider",
    "ScriptedUpstream",
    "Wire",
    "call",
    "calls",
    "cut",
    "empty_choices",
    "endless",
    "garbage",
    "paced",
    "refusal_of",
    "refuse",
    "say",
]
