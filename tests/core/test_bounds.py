"""The bounds as a value, as settings, and as a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolcaddie.app.settings import load_settings
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.json_counts import counts

ROOT = Path(__file__).parents[2]


def set_to(tmp_path: Path, text: str, **environ: str) -> Bounds:
    file = tmp_path / "toolcaddie.toml"
    file.write_text(text)
    return load_settings(file, environ=environ).bounds


def test_every_bound_is_a_setting_in_the_file_and_in_the_environment(tmp_path: Path) -> None:
    for field in msgspec.structs.fields(Bounds):
        twice = field.default * 2
        for bounds in (
            set_to(tmp_path, f"[bounds]\n{field.name} = {twice}"),
            set_to(tmp_path, "", **{f"TOOLCADDIE_BOUNDS_{field.name.upper()}": str(twice)}),
        ):
            assert getattr(bounds, field.name) == twice


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[bounds]\nbody = 0", r"toolcaddie\.toml:2: bounds\.body: .*write a whole number from 1"),
        ("[bounds]\nhead_seconds = 0", r"toolcaddie\.toml:2: bounds\.head_seconds: .*above 0"),
        ("[bounds]\nbodys = 1", r"unknown key 'bounds\.bodys'; did you mean 'body'"),
        ("[bounds]\nbody = 70_000_000", r"bounds\.body is 70,000,000 and bounds\.bodies only 67,108,864"),
    ],
)
def test_a_bound_that_cannot_hold_is_an_error_at_start(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        set_to(tmp_path, text)


def test_the_page_has_every_bound_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (ROOT / "docs" / "bounds.md").read_text(), re.MULTILINE))
    assert rows == {field.name: f"{field.default:,}".removesuffix(".0") for field in msgspec.structs.fields(Bounds)}


def test_every_bound_is_looked_at_somewhere() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "toolcaddie").rglob("*.py") if path.name != "bounds.py")
    for field in msgspec.structs.fields(Bounds):
        assert re.search(rf"bounds\.{field.name}\b", sources), field.name


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        {"a": [], "b": {}, "c": ""},
        {"a": 'quote " and \\ backslash, [bracket] {brace}', "b": ["\\", "\\\\", '\\"', ",,,"]},
        {"a": [[[[{"b": [1, 2, 3]}]]]], "é": ["ü" * 1_000, "\n\t"]},
        {"long": "\\" * 300_000 + '"', "after": [1, 2]},
    ],
)
def test_counting_sees_what_a_decoder_sees(value: Any) -> None:
    measured = counts(msgspec.json.encode(value), most=10**9, deepest=10**9)
    assert (measured.fields, measured.depth) == (len(value), _depth(value))
    assert measured.values == _values(value)


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (1 if isinstance(value, dict | list) else 0) + max(map(_depth, inside), default=0)


def _values(value: Any) -> int:
    """One, and one more for every object or list and for every comma in it."""
    return 1 + _within(value)


def _within(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    inside = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(inside) - 1) + sum(map(_within, inside))
