"""Makes text from outside safe to display: characters that control a terminal or the reading order are spelled out.

Names, descriptions, messages and results come from strangers, and a terminal obeys their control characters: `ESC ] 52`
writes the clipboard, a carriage return overwrites the line, U+202E turns `txt.exe` into `exe.txt`. So all text for people
passes through here: the command line, log lines, reports, labels of metrics.
"""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All control characters but tab and line feed. 0x80 to 0x9f are escape sequences in one byte: 0x9b is `ESC [`."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_LINES = "\u2028\u2029"
_INVISIBLE = "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Characters without a glyph; the last range is a second alphabet that only models read."""
_SURROGATES = "\ud800-\udfff"
"""Halves of surrogate pairs, which cannot be sent to a terminal."""

_FORBIDDEN = re.compile(f"[{_CONTROLS}{_BIDI}{_LINES}{_INVISIBLE}{_SURROGATES}]")
_FORBIDDEN_IN_A_LINE = re.compile(f"[\\t\\n{_CONTROLS}{_BIDI}{_LINES}{_INVISIBLE}{_SURROGATES}]")


def visible(text: str) -> str:
    """Returns the text with such characters spelled out (`\\x1b`, `\\u202e`); tabs and line feeds stay."""
    return _FORBIDDEN.sub(_spelled, text)


def visible_line(text: str) -> str:
    """Returns a text that must stay one line, such as a name, with tabs and line feeds spelled out too."""
    return _FORBIDDEN_IN_A_LINE.sub(_spelled, text)


def visible_json(document: str) -> str:
    """Returns the same JSON with such characters as JSON escapes: it decodes to the same value."""
    return _FORBIDDEN.sub(_escaped, document)


def valid_text(text: str) -> str:
    """Returns the text as UTF-8 can hold it: surrogates that pair up become the character they mean, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in "\t\n":
        return "\\t" if match[0] == "\t" else "\\n"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
