"""Commands that people write in a chat, such as `/stop` or, in a group with several bots, `/stop@name`."""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

Name = Literal["stop", "new", "help", "start", "approve", "deny"]

_COMMAND = re.compile(rf"/(?P<name>{'|'.join(get_args(Name))})(?:@\w+)?(?:\s+(?P<argument>\S+))?\s*", re.IGNORECASE)
_LONGEST = 256


class Command(Struct, frozen=True):
    name: Name
    argument: str = ""


def read_command(text: str) -> Command | None:
    """Returns the command of a message; None: the message is none. A channel has already dropped commands for other bots."""
    match = _COMMAND.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        return None
    name = match["name"].lower()
    return Command(next(known for known in get_args(Name) if known == name), match["argument"] or "")
