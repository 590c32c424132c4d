"""Makes text from outside safe to display: characters that control a terminal or the reading order are spelled out.

Names, descriptions, messages and results come from strangers, and a terminal obeys the control characters in them: `ESC ] 52`
writes the clipboard, a carriage return overwrites the line, U+202E shows `txt.exe` as `exe.txt`. Text from outside therefore
passes through these functions before people see it: on the command line, in log lines, reports, and labels of metrics.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

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

_WITHOUT_GLYPH = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
"""Unicode categories of characters that a reader of source does not see, or takes for a blank."""
_EMPTY_LETTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters, marks and signs without a glyph; some of them may stand in names."""


def visible(text: str) -> str:
    """Returns the text with unsafe characters spelled out (`\\x1b`, `\\u202e`); tabs and line feeds stay."""
    return _FORBIDDEN.sub(_spelled, text)


def visible_line(text: str) -> str:
    """Returns the text with unsafe characters, tabs and line feeds spelled out, so that a text such as a name stays one line."""
    return _FORBIDDEN_IN_A_LINE.sub(_spelled, text)


def visible_code(text: str) -> str:
    """Returns a line of source with every character spelled out that has no glyph, or looks like a blank and is none. A tab
    becomes four blanks."""
    return "".join(piece for piece, _ in code_pieces(text))


def code_pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the pieces of `visible_code(text)`. True: the piece stands for characters that are spelled out."""
    for is_hidden, characters in groupby(text.replace("\t", "    "), key=_is_hidden):
        piece = "".join(characters)
        yield "".join(map(_code_of, piece)) if is_hidden else piece, is_hidden


def visible_json(document: str) -> str:
    """Returns a JSON document with unsafe characters as JSON escapes, so that it decodes to the same value."""
    return _FORBIDDEN.sub(_escaped, document)


def sentence(text: str) -> str:
    """Returns the text with a full stop, unless it ends with a mark of its own."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def valid_text(text: str) -> str:
    """Returns the text in a form that UTF-8 can encode: a pair of surrogates becomes the character that it stands for, and a
    lone surrogate becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _is_hidden(character: str) -> bool:
    if character == " ":
        return False
    return unicodedata.category(character) in _WITHOUT_GLYPH or _EMPTY_LETTERS.match(character) is not None


def _spelled(match: re.Match[str]) -> str:
    return _code_of(match[0])


def _code_of(character: str) -> str:
    code = ord(character)
    if character in "\t\n":
        return "\\t" if character == "\t" else "\\n"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
