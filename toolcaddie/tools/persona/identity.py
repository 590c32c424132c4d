"""Changes fields of IDENTITY.md. Every line that is no changed field survives byte for byte."""

from __future__ import annotations

import re
from collections.abc import Mapping


def with_fields(text: str, fields: Mapping[str, str]) -> str:
    """Returns the file with other values of the fields `name`, `emoji` and `vibe`. A field that it lacks is added at the end."""
    for field, value in fields.items():
        line = re.compile(rf"^([ \t]*(?:[-*] )?\**{field}\**:\**[ \t]*)([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
        match = line.search(text)
        if match is None:
            text += ("" if not text or text.endswith("\n") else "\n") + f"- **{field.capitalize()}:** {value}\n"
        else:
            prefix = match[1] if match[1].endswith((" ", "\t")) else f"{match[1]} "
            text = f"{text[: match.start()]}{prefix}{value}{text[match.end() :]}"
    return text
