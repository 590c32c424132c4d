"""Text from outside, made safe to show: what would move a cursor, change a colour or turn the reading order is spelled out.

Names, descriptions, messages and results come from strangers, and a terminal obeys what is in them: `ESC ] 52` writes the
clipboard, a carriage return paints over what was said, U+202E makes `exe.txt` of `txt.exe`. So every edge where a person reads
passes its text through here: the command line, log lines, reports, labels of metrics.
"""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All but tab and line feed. 0x80 to 0x9f are the same orders in one byte: 0x9b is `ESC [`."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_LINES = "\u2028\u2029"
_UNSEEN = "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Marks without a shape; the last are a second alphabet that only models read."""
_SURROGATES = "\ud800-\udfff"
"""Half a character: no terminal can be sent one."""

_FORBIDDEN = re.compile(f"[{_CONTROLS}{_BIDI}{_LINES}{_UNSEEN}{_SURROGATES}]")
_FORBIDDEN_IN_A_LINE = re.compile(f"[\\t\\n{_CONTROLS}{_BIDI}{_LINES}{_UNSEEN}{_SURROGATES}]")


def visible(text: str) -> str:
    """The text with such characters spelled out (`\\x1b`, `\\u202e`); tabs and line feeds stay."""
    return _FORBIDDEN.sub(_spelled, text)


def visible_line(text: str) -> str:
    """The same for what must stay one line, such as a name: tabs and line feeds are spelled out too."""
    return _FORBIDDEN_IN_A_LINE.sub(_spelled, text)


def visible_json(document: str) -> str:
    """The same JSON, in which such characters stand as JSON's own escapes: it decodes to the same value."""
    return _FORBIDDEN.sub(_escaped, document)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] in "\t\n":
        return "\\t" if found[0] == "\t" else "\\n"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
