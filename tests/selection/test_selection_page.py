"""docs/selection.md is run, and says of the knobs what they are."""

from __future__ import annotations

import re
from pathlib import Path

from toolcaddie.core.presets import SelectionSettings

PAGE = (Path(__file__).parents[2] / "docs" / "selection.md").read_text(encoding="utf-8")


def test_the_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/selection.md", "exec"), {})


def test_every_setting_of_selection_is_on_the_page():
    for name in SelectionSettings.__slots__:
        assert f"`selection.{name}`" in PAGE or f"`{name}`" in PAGE, name
