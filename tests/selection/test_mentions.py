"""Tools by their names, seen through search."""

from __future__ import annotations

import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.tool import Tool
from toolcaddie.selection.selector import Selector


def _found(names, text, rankers=("mentions",)):
    view = View(catalog=Catalog.of(Tool(name=name) for name in names))
    return Selector(SelectionSettings(rankers=rankers)).search(view, text, 5)


@pytest.mark.parametrize("text", ["use get_invoice_total", "the total of the invoice I get", "getInvoiceTotal"])
def test_a_name_said_in_full_has_the_full_score(text):
    best, second = _found(["get_invoice_lines", "get_invoice_total", "list_rooms"], text)
    assert (best.tool.name, best.reasons) == ("get_invoice_total", ("named",))
    assert second.score < best.score


def test_half_a_name_counts_less_than_half():
    assert _found(["freeze_membership", "send_parcel"], "parcel")[0].score < 0.5


def test_a_name_of_stop_words_is_found_by_them():
    names = ["where_are_you_from", "how_old_are_you", "order_status"]
    for rankers in (("mentions",), ("bm25", "characters", "mentions")):
        assert _found(names, "where are you from?", rankers)[0].tool.name == "where_are_you_from"
