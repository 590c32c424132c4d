"""Claims: sentences of an answer which say that something was done, although no call that could have done it succeeded."""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["destroy", "send", "create", "change", "pay", "book", "run", "any"]
"""The class of what was done; `any`: the sentence only says that the task is done."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of an answer which says that something was done."""

    text: str
    """The sentence, at most 300 characters of it."""
    action: Action
