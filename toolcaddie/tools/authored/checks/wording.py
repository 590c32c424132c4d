"""Findings in the texts that a model reads: description and schema."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcaddie.tools.authored.values import Definition, Finding

_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Cn")


def findings(definition: Definition) -> Sequence[Finding]:
    """Returns a finding for each text with characters that its reader does not see, and a model reads."""
    texts = {"description": [definition.description], "schema": [*_texts(definition.parameters)]}
    return [
        Finding(severity="refused", line=0, text=f"The {name} has characters that nobody sees: {codes}.")
        for name, pieces in texts.items()
        if (codes := _hidden("".join(pieces)))
    ]


def _texts(value: Any) -> Iterator[str]:
    """Yields every text of a schema, keys included. Its depth is bounded, because it was checked before."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _hidden(text: str) -> str:
    codes = [f"U+{ord(each):04X}" for each in text if unicodedata.category(each) in _HIDDEN and each not in "\n\t"]
    return ", ".join(dict.fromkeys(codes[:100]))
