"""Parameters of chat completions that some other APIs do not know, with the value that has no effect. Wires omit a parameter with
that value; any other value is sent, and the provider names it in its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NEUTRAL: Mapping[str, Any] = {
    "n": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logprobs": False,
    "logit_bias": {},
    "modalities": ["text"],
    "top_logprobs": 0,
}


def is_neutral(name: str, value: Any) -> bool:
    """Returns True if the parameter has no effect with this value."""
    return value is None or (name in _NEUTRAL and value == _NEUTRAL[name])
