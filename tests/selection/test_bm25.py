"""Ranking by words, seen through search and selection."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.presets import LEXICAL, SelectionSettings
from toolcaddie.core.tool import Tool
from toolcaddie.selection.selector import Selector

_LEXICAL = Selector(SelectionSettings(rankers=LEXICAL))


def _view(*tools, categories=()):
    return View(catalog=Catalog.of(tools, categories))


def _found(view, text, limit=10):
    return [hit.tool.name for hit in _LEXICAL.search(view, text, limit)]


def test_a_word_of_the_name_counts_more_than_one_of_the_description():
    view = _view(
        Tool(name="list_reports", description="Lists what was sent by mail"),
        Tool(name="send_mail", description="Lists reports"),
    )
    assert _found(view, "mail") == ["send_mail", "list_reports"]


def test_every_field_is_searched():
    schema = {
        "type": "object",
        "properties": {
            "iban": {"type": "string", "description": "Account of the beneficiary"},
            "speed": {"enum": ["instant", "standard"]},
            "payer": {"type": "object", "properties": {"taxCode": {"type": "string"}}},
        },
    }
    tool = Tool(
        name="transfer_funds",
        description="Moves money",
        input_schema=schema,
        category="banking",
        hints=("wire",),
        source="ledger",
    )
    category = Category(name="banking", keywords=("remittance",), description="Accounts abroad")
    view = _view(Tool(name="other"), tool, categories=[category])
    for word in [
        "funds",
        "money",
        "iban",
        "beneficiary",
        "instant",
        "tax",
        "wire",
        "banking",
        "remittance",
        "abroad",
        "ledger",
    ]:
        assert _found(view, word) == ["transfer_funds"], word


@pytest.mark.parametrize(
    ("description", "query"),
    [
        ("Freezes a membership", "freezing memberships"),
        ("Congela la membresía de un cliente", "congelar membresias"),
        ("Lista as vendas de um cliente", "listar venda"),
        ("Sperrt die Mitgliedschaften der Kunden", "sperren mitgliedschaft"),
        ("Affiche les factures du client", "afficher facture"),
        ("查询城市的天气", "今天天气怎么样"),
    ],
)
def test_words_meet_in_their_stems(description, query):
    view = _view(Tool(name="x1", description=description), Tool(name="x2", description="The other"))
    assert _found(view, query) == ["x1"]


@pytest.mark.proves("A-3")
def test_a_rare_word_counts_more_than_a_common_one():
    tools = [Tool(name=f"report_{i}", description="Report") for i in range(20)]
    view = _view(*tools, Tool(name="payroll", description="Payroll"))
    assert _found(view, "payroll report", 1) == ["payroll"]


def test_equals_come_in_catalog_order():
    view = _view(*(Tool(name=name, description="Freeze") for name in ("zebra", "ant", "mole")))
    assert _found(view, "freeze") == ["zebra", "ant", "mole"]


def test_search_gives_only_what_matches_and_never_more_than_asked():
    view = _view(*(Tool(name=f"freeze_{i}") for i in range(5)), Tool(name="thaw"))
    assert len(_found(view, "freeze", 3)) == 3
    assert _found(view, "nothing of the kind") == []
    assert _found(view, "") == []
    assert _found(view, "freeze", 0) == []


def test_a_hidden_tool_changes_no_score_of_a_visible_one():
    """Neither by how rare a word is nor by how long texts are: what is hidden is as if it were not there."""
    shown = [
        Tool(name="freeze_account", description="Freeze it"),
        Tool(name="close_account", description="Close, not freeze"),
    ]
    hidden = [Tool(name=f"freeze_{i}", description="freeze account " * 50, category="vault") for i in range(30)]
    alone = _view(*shown)
    masked = View(catalog=Catalog.of([*shown, *hidden]), mask=np.array([True] * 2 + [False] * 30))
    for text in ("freeze account", "freeze", "account vault close"):
        one, other = (_LEXICAL.search(view, text, 50) for view in (alone, masked))
        assert [(hit.tool.name, hit.score, hit.reasons) for hit in one] == [
            (hit.tool.name, hit.score, hit.reasons) for hit in other
        ]


def test_reasons_name_the_words_as_they_were_written():
    view = _view(Tool(name="freeze_membership"), Tool(name="list_members"))
    assert _LEXICAL.search(view, "freezing memberships", 1)[0].reasons == ("words: freezing, memberships", "named")


def test_of_a_monstrous_schema_the_beginning_is_read():
    properties = {"first": {"type": "string"}, **{f"f{i}": {"type": "string"} for i in range(5_000)}, "omega": {}}
    view = _view(Tool(name="t", input_schema={"type": "object", "properties": properties}))
    assert _found(view, "first") == ["t"]
    assert _found(view, "omega") == []
