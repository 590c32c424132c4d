"""Words spelled alike, seen through search."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.presets import LEXICAL, SelectionSettings
from toolcaddie.core.tool import Tool
from toolcaddie.selection.selector import Selector


def _view(*descriptions):
    return View(catalog=Catalog.of(Tool(name=f"x{i}", description=text) for i, text in enumerate(descriptions)))


def _found(view, text, rankers=("characters",)):
    return [hit.tool.name for hit in Selector(SelectionSettings(rankers=rankers)).search(view, text, 5)]


@pytest.mark.parametrize(
    ("description", "query"),
    [
        ("Freezes a membership", "freez my membreship"),
        ("The airquality forecast", "quality of the air"),
        ("Wettervorhersage", "wie wird das wetter"),
        ("Näyttää laskut", "laskujen"),
    ],
)
def test_slips_compounds_and_unknown_endings_are_found(description, query):
    view = _view("Sends a parcel", description, "Opens the door")
    assert _found(view, query)[:1] == ["x1"]


def test_a_stop_word_is_no_slip_of_another_word():
    assert _found(_view("Pleasant rooms", "Couldron"), "could you please") == []


def test_what_resembles_nothing_finds_nothing():
    assert _found(_view("Freezes a membership", "Sends a parcel"), "qqq zzz") == []


def test_the_reason_names_both_words():
    view = _view("Freezes a membership", "Sends a parcel")
    (hit, *_) = Selector(SelectionSettings(rankers=LEXICAL)).search(view, "membreship", 5)
    assert hit.reasons == ("spelled alike: membership for membreship",)


def test_a_very_long_word_is_looked_up_but_not_taken_apart():
    word = "a" * 3_000
    assert _found(_view("Sends a parcel", f"about {word}"), word) == ["x1"]
    assert _found(_view("Sends a parcel", "aaaa"), word) == []


def test_hidden_tools_change_nothing():
    shown = [Tool(name="a", description="Freezes a membership"), Tool(name="b", description="Lists members of a room")]
    hidden = [Tool(name=f"h{i}", description=f"membreship number{i} of the vault") for i in range(30)]
    alone = View(catalog=Catalog.of(shown))
    masked = View(catalog=Catalog.of([*shown, *hidden]), mask=np.array([True] * 2 + [False] * 30))
    for text in ("membreships in rooms", "vault number", "a memberroom"):
        one, other = (Selector().search(view, text, 50) for view in (alone, masked))
        assert [(hit.tool.name, hit.score, hit.reasons) for hit in one] == [
            (hit.tool.name, hit.score, hit.reasons) for hit in other
        ]
