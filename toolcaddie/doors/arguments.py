"""The arguments of a call as a person reads them who is asked about it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from toolcaddie.core.approval import Approval
from toolcaddie.util.text import visible_json, visible_line


def argument_texts(approval: Approval) -> Iterator[tuple[str, str]]:
    """Yields name and value of each argument. A value is JSON on one line, so that a person sees exactly what the call gets:
    texts in quotes, and every line break and control character."""
    for name, value in approval.arguments.items():
        yield visible_line(name), visible_json(msgspec.json.encode(value).decode())
