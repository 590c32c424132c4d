"""Text from outside is shown with every character in sight."""

from __future__ import annotations

import pytest

from toolcaddie.util.text import visible_code


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("return 'ü 字 🙂'", "return 'ü 字 🙂'"),
        ("\tx", "    x"),
        ("a\u200bb\u00a0c\u3164d\ufe0f", r"a\u200bb\xa0c\u3164d\ufe0f"),
        ("\x1b[2J\r\u202e\U000e0041", r"\x1b[2J\x0d\u202e\U000e0041"),
        ("\ud800\ue000\u2028", r"\ud800\ue000\u2028"),
    ],
)
def test_a_line_of_source_has_every_character_in_sight(text: str, shown: str) -> None:
    assert visible_code(text) == shown
