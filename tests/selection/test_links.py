"""What one tool needs and another gives: a request that needs several tools gets them all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.message import Message
from toolcaddie.core.presets import PRESETS, SelectionSettings
from toolcaddie.core.selection import Budget, Selection, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.samples import gym
from toolcaddie.selection.index.change import CatalogChange
from toolcaddie.selection.index.links import Links
from toolcaddie.selection.selector import Selector
from toolcaddie.testing import ScriptedProvider


def tool(name: str, description: str = "", *, needs: tuple[str, ...] = (), gives: Any = None, **fields: Any) -> Tool:
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in needs}, "required": list(needs)}
    return Tool(name=name, description=description, input_schema=schema, output_schema=gives, **fields)


def holding(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def givers(tools: list[Tool], name: str, **options: Any) -> list[str]:
    catalog = Catalog.of(tools)
    position = catalog.position(name)
    assert position is not None
    return [catalog.tools[link.giver].name for link in Links(catalog).of(position, **options)]


def fillers(count: int) -> list[Tool]:
    """Tools that a request about stopping a contract finds too."""
    return [tool(f"print_contract_{i}", "Print a contract.") for i in range(count)]


def select(tools: list[Tool], text: str, *, max_tools: int = 8, mask: Any = None, **options: Any) -> Selection:
    selector = Selector(SelectionSettings(), **options)
    query = SelectionQuery(messages=(Message(role="user", content=text),))
    return selector.select(View(catalog=Catalog.of(tools), mask=mask), query, Budget(max_tools=max_tools))


def test_a_tool_is_linked_to_what_its_ids_come_from() -> None:
    tools = [
        tool("stop_contract", needs=("contract_id",)),
        tool("look_up", gives=holding("contract_id", "title")),
        tool("count_contracts", gives=holding("count")),
    ]
    assert givers(tools, "stop_contract") == ["look_up"]


def test_an_id_in_an_object_is_the_id_of_what_the_object_is() -> None:
    tools = [
        tool("stop", needs=("contractId",)),
        tool("seek", gives={"type": "object", "properties": {"contracts": {"type": "array", "items": holding("id")}}}),
        tool("meet", gives={"type": "object", "properties": {"person": holding("id")}}),
    ]
    assert givers(tools, "stop") == ["seek"]


@pytest.mark.parametrize(
    ("finder", "found"),
    [
        ("list_contracts", True),
        ("searchContracts", True),
        ("get_contracts_list", True),
        ("contracts.find".replace(".", "_"), True),
        ("get_contract_stats", False),
        ("delete_contracts", False),
        ("list_contract_partners", False),
    ],
)
def test_where_no_output_is_described_the_name_says_what_a_tool_finds(finder: str, found: bool) -> None:
    tools = [tool("stop_contract", needs=("contract_id",)), tool(finder)]
    assert givers(tools, "stop_contract") == ([finder] if found else [])


def test_who_needs_the_same_id_gives_it_to_nobody() -> None:
    tools = [
        tool("stop_contract", needs=("contract_id",)),
        tool("get_contract", needs=("contract_id",), gives=holding("contract_id")),
    ]
    assert givers(tools, "stop_contract") == []


def test_a_schema_is_better_evidence_than_a_name_and_that_than_what_makes_a_new_one() -> None:
    tools = [
        tool("stop_contract", needs=("contract_id",)),
        tool("create_contract", gives=holding("contract_id")),
        tool("list_contracts"),
        tool("find_by_person", gives=holding("contract_id")),
    ]
    assert givers(tools, "stop_contract") == ["find_by_person", "list_contracts"]


def test_a_pass_comes_from_whoever_logs_in() -> None:
    tools = [tool("send_post", needs=("access_token",)), tool("authenticate_user"), tool("list_posts")]
    assert givers(tools, "send_post") == ["authenticate_user"]


def test_a_tool_of_the_same_source_is_preferred_to_a_strangers() -> None:
    tools = [
        tool("stop_contract", needs=("contract_id",), source="ours"),
        tool("list_contracts", source="theirs"),
        tool("search_contracts", source="ours"),
    ]
    assert givers(tools, "stop_contract") == ["search_contracts"]


def test_a_hidden_tool_gives_nothing_and_takes_no_place() -> None:
    tools = [
        tool("stop_contract", needs=("contract_id",)),
        tool("list_contracts", gives=holding("contract_id")),
        tool("search_contracts", gives=holding("contract_id")),
        tool("find_contracts"),
    ]
    seen = np.array([True, False, False, True])
    assert (
        givers(tools, "stop_contract", mask=seen) == givers([tools[0], tools[3]], "stop_contract") == ["find_contracts"]
    )
    lent = select([*tools, *fillers(20)], "stop the contract", mask=np.array([True, False, False, True] + [True] * 20))
    assert lent.names == select([tools[0], tools[3], *fillers(20)], "stop the contract").names


def test_the_selection_brings_what_the_best_tool_needs_and_says_why() -> None:
    tools = [
        tool("stop_contract", "Stop a contract.", needs=("contract_id",)),
        tool("look_up", "By person.", gives=holding("contract_id")),
        *fillers(20),
    ]
    selection = select(tools, "stop Anna's contract")
    (lent,) = [chosen for chosen in selection.tools if chosen.tool.name == "look_up"]
    assert "returns contract_id, which stop_contract needs" in lent.reasons
    best = max(selection.tools, key=lambda chosen: chosen.score)
    assert best.tool.name == "stop_contract"
    assert 0 < lent.score <= best.score / 2 + 1e-4


def test_what_is_needed_for_what_is_needed_comes_too() -> None:
    tools = [
        tool("stop_contract", "Stop a contract.", needs=("contract_id",)),
        tool("of_person", "By person.", needs=("person_id",), gives=holding("contract_id")),
        tool("who", "By face.", gives=holding("person_id")),
        *fillers(20),
    ]
    assert {"stop_contract", "of_person", "who"} <= set(select(tools, "stop Anna's contract").names)


def test_needed_tools_take_a_quarter_of_the_places_and_none_of_the_first() -> None:
    needs = tuple(f"{thing}_id" for thing in ("contract", "person", "house", "city", "street", "country"))
    tools = [
        *(tool(f"stop_contract_{i}", "Stop a contract.") for i in range(9)),
        tool("stop_contract", "Stop a contract early, whatever its notice period.", needs=needs),
        *(tool(f"search_{need.removesuffix('_id')}", "Quite other words.") for need in needs),
    ]
    names = select(tools, "stop the contract at once", max_tools=8).names
    assert sum(name.startswith("search_") for name in names) <= 2
    assert sum(name.startswith("stop_contract") for name in names) >= 6


@pytest.mark.parametrize(
    ("name", "logs_in"), [("user_login", True), ("get_login_status", False), ("check_login_status", False)]
)
def test_a_tool_that_tells_whether_somebody_is_logged_in_gives_no_token(name: str, logs_in: bool) -> None:
    assert givers([tool("send", needs=("access_token",)), tool(name)], "send") == [name] * logs_in


def search(tools: list[Tool], text: str, limit: int = 10) -> list[str]:
    return [each.tool.name for each in Selector().search(View(catalog=Catalog.of(tools)), text, limit)]


_VERBS = ("sign", "print", "send", "renew", "archive", "draft")
_STOPS = [
    tool("stop_contract", "Stop a contract early, whatever its notice period.", needs=("contract_id",)),
    tool("look_up", "By person.", gives=holding("contract_id")),
]
_OTHERS = [tool(f"{verb}_contract", f"{verb.capitalize()} a contract.") for verb in _VERBS]
_TEXT = f"stop the contract early, whatever the notice period, do not {', '.join(_VERBS)} it"


@pytest.mark.parametrize(("text", "place"), [("", 4), (" 17", None), (" with the id abc", None)])
def test_in_a_search_the_tool_with_the_id_that_the_request_lacks_is_fifth(text: str, place: int | None) -> None:
    names = search([*_STOPS, *_OTHERS], _TEXT + text)
    assert (names.index("look_up") if "look_up" in names else None) == place


def test_the_best_tool_of_a_request_in_another_language_is_too_uncertain_to_follow_its_needs() -> None:
    text = "detener pronto el contrato, cualquiera que sea el período de aviso, no firmar, imprimir, enviar, renovar, archivar"
    names = search([*_STOPS, *_OTHERS], text)
    assert names[0] == "stop_contract"
    assert len(names) > 4
    assert "look_up" not in names


def test_a_needed_tool_says_in_a_search_what_it_returns() -> None:
    hits = Selector().search(View(catalog=Catalog.of([*_STOPS, *_OTHERS])), _TEXT, 10)
    assert hits[4].reasons == ("returns contract_id, which stop_contract needs",)


@pytest.mark.parametrize(("others", "limit"), [(2, 10), (6, 4)])
def test_a_search_of_less_than_five_results_has_no_needed_tool(others: int, limit: int) -> None:
    assert "look_up" not in search([*_STOPS, *_OTHERS[:others]], _TEXT, limit)


def test_tools_that_were_used_together_come_together() -> None:
    tools = [tool("stop_contract", "Stop a contract."), tool("say_goodbye", "Nice words."), *fillers(20)]
    alone = select(tools, "stop the contract")
    used = {("stop_contract", "say_goodbye"): 0.8, ("stop_contract", "gone_since"): 1.0, ("nobody", "say_goodbye"): 1.0}
    together = select(tools, "stop the contract", co_used=lambda catalog: used)
    assert "say_goodbye" not in alone.names
    (lent,) = [chosen for chosen in together.tools if chosen.tool.name == "say_goodbye"]
    assert "was used together with stop_contract" in lent.reasons


@pytest.mark.parametrize("preset", ["budget", "keyword"])
def test_the_exact_presets_know_nothing_of_it(preset: str) -> None:
    tools = [
        tool("stop_contract", needs=("contract_id",), category="ends"),
        tool("look_up", gives=holding("contract_id")),
    ]
    catalog = Catalog.of(tools, [Category(name="ends", keywords=("stop",))])
    query = SelectionQuery(messages=(Message(role="user", content="stop it"),))
    chosen = PRESETS[preset]
    assert Selector(chosen.selection).select(View(catalog=catalog), query, chosen.budget).names == ("stop_contract",)


@pytest.mark.parametrize(
    ("message", "needed"),
    [
        ("freeze John's membership", {"freeze_membership", "get_clients_list", "get_memberships_list"}),
        ("redeem a reward for Paul", {"redeem_reward", "get_clients_list", "get_available_rewards"}),
        ("pay the salary of Tom for May", {"pay_salary", "get_salaries_list", "get_staff_list"}),
        ("book Anna for yoga tomorrow", {"book_class_session", "get_class_schedule", "get_clients_list"}),
    ],
)
def test_find_and_act_come_together_in_the_gym(message: str, needed: set[str]) -> None:
    base = PRESETS["default"]
    runtime = Runtime(
        provider=ScriptedProvider([]),
        sources=[gym.source()],
        preset=replace(base, budget=replace(base.budget, max_tools=8)),
    )
    assert needed <= set(runtime.select(message).names)


def test_links_follow_a_changed_catalog_and_are_those_of_one_made_anew() -> None:
    base = [
        tool("stop_contract", needs=("contract_id",)),
        tool("list_contracts"),
        tool("look_up", gives=holding("contract_id")),
    ]
    more = [
        *base[:2],
        tool("search_contracts"),
        tool("seek", gives=holding("contract_id")),
        tool("meet", needs=("contract_id",)),
    ]
    before, after = Catalog.of(base), Catalog.of(more)
    first = Links(before)
    assert first.of(0) == Links(before).of(0)
    followed = first.changed(CatalogChange.between(before, after))
    anew = Links(after)
    assert [followed.of(position) for position in range(5)] == [anew.of(position) for position in range(5)]
    assert first.of(0) == Links(before).of(0)
    back = followed.changed(CatalogChange.between(after, before))
    assert back.of(0) == first.of(0)


def test_nothing_is_left_of_tools_that_come_and_go() -> None:
    stays = [tool("get_clients_list"), tool("freeze_membership", needs=("client_id",)), *fillers(20)]

    def catalog(number: int) -> Catalog:
        passing = tool(f"list_thing{number}s", gives=holding(f"thing{number}_id", f"other{number}_id"))
        return Catalog.of([*stays, passing])

    links = Links(catalog(0))
    for number in range(1, 50):
        links = links.changed(CatalogChange.between(catalog(number - 1), catalog(number)))

    def kept(of: Links) -> dict[str, int]:
        return {name: len(table) for name, table in vars(of).items() if isinstance(table, dict)}

    assert kept(links) == kept(Links(catalog(49)))


def test_a_schema_of_any_shape_does_no_harm() -> None:
    deep: Any = {"type": "object", "properties": {}}
    for _ in range(300):
        deep = {"type": "object", "properties": {"inner_id": deep}, "required": ["inner_id"]}
    odd = [
        Tool(name="deep", input_schema=deep, output_schema=deep),
        Tool(name="list_inner", input_schema={"required": "all", "properties": [1]}),
        Tool(name="ids", input_schema={"type": "object", "required": ["id", "_id", 7], "properties": {"id": True}}),
        Tool(name="get_it", output_schema={"anyOf": [{"items": True}, 3], "properties": {"id": None}}),
    ]
    catalog = Catalog.of(odd, check_schemas=False)
    links = Links(catalog)
    assert [catalog.tools[link.giver].name for link in links.of(0)] == ["list_inner"]
    assert [links.of(position) for position in (1, 3)] == [[], []]
