"""Every text of a page has a translation into each language of the console."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import toolcaddie.doors.console as package

_FOLDER = Path(package.__file__).parent
_TEXT = re.compile(r'_\("((?:[^"\\]|\\.)*)"\)')
_SECTIONS = ("bots", "evaluation")
_TITLES = ("Bots", "Evaluation")


@pytest.mark.parametrize("language", ["es", "pt"])
@pytest.mark.parametrize("section", _SECTIONS)
def test_every_text_of_a_section_is_translated(section: str, language: str) -> None:
    words = tomllib.loads((_FOLDER / "words" / f"{language}.toml").read_text(encoding="utf-8"))
    templates = sorted((_FOLDER / "templates" / section).glob("*.html"))
    texts = {text for template in templates for text in _TEXT.findall(template.read_text(encoding="utf-8"))}
    assert len(texts) > 20
    assert not {*texts, *_TITLES} - words.keys()
    assert not [text for text in texts if "%" in text], "a text with a percent sign is taken for a format"
