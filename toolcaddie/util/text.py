"""Makes text from outside safe to display: characters that control a terminal or the reading order are spelled out.

Names, descriptions, messages and results come from strangers, and a terminal obeys the control characters in them: `ESC ] 52`
writes the clipboard, a carriage return overwrites the line, U+202E shows `txt.exe` as `exe.txt`. Text from outside therefore
passes through these functions before people see it: on the command line, in log lines, reports, and labels of metrics.
"""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All control characters except tab and line feed. Each of 0x80 to 0x9f is an escape sequence in one byte: 0x9b is `ESC [`."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of reading."""
_LINES = "\u2028\u2029"
"""Line and paragraph separators."""
_INVISIBLE = "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Characters without a glyph. The last range is a copy of ASCII that people cannot see, but models read."""
_SURROGATES = "\ud800-\udfff"
"""Halves of surrogate pairs, which cannot be sent to a terminal."""

_FORBIDDEN = re.compile(f"[{_CONTROLS}{_BIDI}{_LINES}{_INVISIBLE}{_SURROGATES}]")
_FORBIDDEN_IN_A_LINE = re.compile(f"[\\t\\n{_CONTROLS}{_BIDI}{_LINES}{_INVISIBLE}{_SURROGATES}]")


def visible(text: str) -> str:
    """Returns the text with unsafe characters spelled out (`\\x1b`, `\\u202e`); tabs and line feeds stay."""
    return _FORBIDDEN.sub(_spelled, text)


def visible_line(text: str) -> str:
    """Returns the text with unsafe characters, tabs and line feeds spelled out, so that a text such as a name stays one line."""
    return _FORBIDDEN_IN_A_LINE.sub(_spelled, text)


def visible_json(document: str) -> str:
    """Returns a JSON document with unsafe characters as JSON escapes, so that it decodes to the same value."""
    return _FORBIDDEN.sub(_escaped, document)


def valid_text(text: str) -> str:
    """Returns the text in a form that UTF-8 can encode: a pair of surrogates becomes the character that it stands for, and a
    lone surrogate becomes U+FFFD."""
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
