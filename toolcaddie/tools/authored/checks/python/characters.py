"""Characters that a reader does not see, or takes for others."""

from __future__ import annotations

import io
import re
import tokenize
import unicodedata
from collections.abc import Iterator

from toolcaddie.tools.authored.values import Finding

_ENCODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_HIDDEN = ("Cc", "Cf", "Co", "Cs")
_ORDINARY = "\t\n\r"


def characters(source: str) -> Iterator[Finding]:
    """Yields a finding for hidden characters, for names in other letters than ASCII, and for a declared encoding."""
    for number, line in enumerate(source.split("\n"), start=1):
        if hidden := [each for each in line if unicodedata.category(each) in _HIDDEN and each not in _ORDINARY]:
            codes = ", ".join(f"U+{ord(each):04X}" for each in dict.fromkeys(hidden))
            yield Finding(severity="refused", line=number, text=f"The line has characters that nobody sees: {codes}.")
        declared = _ENCODING.match(line) if number < 3 else None
        if declared and declared[1].lower().replace("_", "-") != "utf-8":
            text = (
                f"The source declares the encoding {declared[1]}, so that it may be read as other text than it shows."
            )
            yield Finding(severity="refused", line=number, text=text)
    yield from _names(source)


def _names(source: str) -> Iterator[Finding]:
    """Yields a finding for each name in other letters, because Python reads some of them as ASCII."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME and not token.string.isascii():
                read = unicodedata.normalize("NFKC", token.string)
                text = f"The name {token.string} is not in plain letters; Python reads it as {read}."
                yield Finding(severity="refused" if read.isascii() else "warning", line=token.start[0], text=text)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return  # the parser says what is wrong
