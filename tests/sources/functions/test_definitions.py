"""What a function looks like as a tool: name, words, schema; and what cannot be one."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import io
import logging
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
import structlog
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import argument_errors, wire_definition
from toolcaddie.core.tool import Tool
from toolcaddie.sources.functions import FunctionSource, tool

Define = Callable[[Any], Tool]


class Plan(enum.Enum):
    BASIC = "basic"
    GOLD = "gold"


class Address(BaseModel):
    street: str
    number: int = Field(ge=1, description="House number")


@dataclasses.dataclass
class Period:
    start: datetime.date
    days: int = 30


class Filter(TypedDict, total=False):
    title: str
    active: bool


class Node(BaseModel):
    name: str
    children: list[Node] = []


def freeze_membership(member: str, days: int = 30) -> str:
    """Freeze a membership for some days.

    Nothing is charged meanwhile.

    Args:
        member: Name or id
            of the member.
        days: How long it stays frozen.

    Returns:
        What was done.
    """
    return f"{member} {days}"


def numpy_style(member: str, days: int = 30) -> str:
    """Freeze a membership for some days.

    Parameters
    ----------
    member : str
        Name or id of the member.
    days : int, optional
        How long it stays frozen.
    """
    return f"{member} {days}"


def sphinx_style(member: str, days: int = 30) -> str:
    """Freeze a membership for some days.

    :param member: Name or id of the member.
    :param int days: How long it stays frozen.
    :returns: What was done.
    """
    return f"{member} {days}"


@pytest.mark.proves("R002-1")
def test_a_plain_function_becomes_a_definition_in_openais_format(definition: Define) -> None:
    assert wire_definition(definition(freeze_membership)) == {
        "type": "function",
        "function": {
            "name": "freeze_membership",
            "description": "Freeze a membership for some days.\n\nNothing is charged meanwhile.",
            "parameters": {
                "type": "object",
                "properties": {
                    "member": {"type": "string", "description": "Name or id of the member."},
                    "days": {"type": "integer", "description": "How long it stays frozen.", "default": 30},
                },
                "required": ["member"],
                "additionalProperties": False,
            },
        },
    }


@pytest.mark.parametrize("function", [numpy_style, sphinx_style])
def test_every_docstring_style_describes_the_parameters(definition: Define, function: Any) -> None:
    made = definition(function)
    assert made.description == "Freeze a membership for some days."
    assert made.input_schema["properties"]["member"]["description"] == "Name or id of the member."
    assert made.input_schema["properties"]["days"]["description"] == "How long it stays frozen."


def test_a_function_without_a_docstring_has_no_description(definition: Define) -> None:
    def ping() -> None: ...

    made = definition(ping)
    assert made.description == ""
    assert made.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_the_schema_carries_enums_unions_literals_and_nested_types(definition: Define) -> None:
    def join(
        plan: Plan,
        at: Address,
        period: Period,
        wanted: Filter,
        colour: Literal["red", "blue"] = "red",
        note: Optional[str] = None,  # noqa: UP045 - the old spelling must do too
        key: int | str = 0,
        tags: set[str] | None = None,
        place: tuple[float, float] = (0.0, 0.0),
    ) -> None: ...

    schema = definition(join).input_schema
    good = {
        "plan": "gold",
        "at": {"street": "High Street", "number": 3},
        "period": {"start": "2026-01-31"},
        "wanted": {"title": "x"},
        "colour": "blue",
        "note": None,
        "key": "k",
        "tags": ["a"],
        "place": [1, 2.5],
    }
    assert argument_errors(schema, good) == []
    for field, wrong in [
        ("plan", "silver"),
        ("at", {"street": "x", "number": 0}),
        ("period", {"days": 3}),
        ("wanted", {"active": "yes"}),
        ("colour", "green"),
        ("note", 3),
        ("key", 1.5),
        ("tags", ["a", "a"]),
        ("place", [1]),
    ]:
        (error,) = argument_errors(schema, {**good, field: wrong})
        assert error.startswith(field), error
    assert schema["required"] == ["plan", "at", "period", "wanted"]
    assert schema["properties"]["colour"]["default"] == "red"


def test_generated_titles_cost_nothing_but_a_property_called_title_stays(definition: Define) -> None:
    def search(title: str, wanted: Filter, at: Address) -> None: ...

    schema = definition(search).input_schema
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["$defs"]["Filter"]["properties"]["title"] == {"type": "string"}
    assert "title" not in schema["$defs"]["Address"]
    assert "title" not in schema


def test_a_recursive_model_is_kept_as_a_reference(definition: Define) -> None:
    def plant(tree: Node) -> None: ...

    schema = definition(plant).input_schema
    assert argument_errors(schema, {"tree": {"name": "a", "children": [{"name": "b"}]}}) == []
    (error,) = argument_errors(schema, {"tree": {"name": "a", "children": [{"name": 3}]}})
    assert error.startswith("tree.children.0.name")


def test_field_and_annotated_describe_and_constrain(definition: Define) -> None:
    def book(
        seats: Annotated[int, Field(description="How many", ge=1, le=8)],
        where: Annotated[str, "The room"],
        row: int = Field(5, ge=1, description="Which row"),
        start: Annotated[str, Field(alias="from")] = "now",
    ) -> None:
        """Book seats.

        Args:
            seats: not this one
        """

    properties = definition(book).input_schema["properties"]
    assert properties["seats"] == {"type": "integer", "description": "How many", "minimum": 1, "maximum": 8}
    assert properties["where"]["description"] == "The room"
    assert properties["row"] == {"type": "integer", "description": "Which row", "minimum": 1, "default": 5}
    assert properties["from"] == {"type": "string", "default": "now"}
    assert definition(book).input_schema["required"] == ["seats", "where"]


def test_names_that_pydantic_reserves_are_fine(definition: Define) -> None:
    def odd(schema: str, copy: bool, model_config: int, json: str, validate: str) -> None: ...

    assert set(definition(odd).input_schema["properties"]) == {"schema", "copy", "model_config", "json", "validate"}


def test_defaults_that_json_cannot_show_are_left_to_python(definition: Define) -> None:
    missing = object()

    def update(
        name: Any = missing, plan: Plan = Plan.GOLD, price: Decimal = Decimal("1.5"), note: str | None = None
    ) -> None: ...

    properties = definition(update).input_schema["properties"]
    assert "default" not in properties["name"]
    assert properties["plan"]["default"] == "gold"
    assert properties["price"]["default"] == "1.5"
    assert "default" not in properties["note"]


def test_what_the_application_hands_in_is_not_in_the_schema(definition: Define) -> None:
    def save(
        fact: str,
        _botId: str,
        _chat_id: str | None,
        context: RunContext,
        maybe: RunContext | None,
        log: logging.Logger,
        bound: structlog.stdlib.BoundLogger,
        logger,  # type: ignore[no-untyped-def]
        **more: Any,
    ) -> None: ...

    assert set(definition(save).input_schema["properties"]) == {"fact"}


def test_a_parameter_called_logger_may_be_an_argument_like_any_other(definition: Define) -> None:
    def rotate(logger: str) -> None: ...

    assert set(definition(rotate).input_schema["properties"]) == {"logger"}


def test_a_partial_keeps_its_fixed_arguments_to_itself(definition: Define) -> None:
    @tool(category="mail", read_only=True)
    def send(key: str, to: str, server: str = "a") -> None: ...

    made = definition(functools.partial(send, "secret", server="b"))
    assert made.name == "send"
    assert made.category == "mail"
    assert set(made.input_schema["properties"]) == {"to"}


def test_decorated_functions_keep_their_signature(definition: Define) -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return run

    assert set(definition(twice(freeze_membership)).input_schema["properties"]) == {"member", "days"}
    assert set(definition(functools.cache(freeze_membership)).input_schema["properties"]) == {"member", "days"}


def test_tool_without_options_is_a_write_that_destroys_nothing(definition: Define) -> None:
    @tool
    def touch() -> None: ...

    made = definition(touch)
    assert made.annotations.read_only is None
    assert made.annotations.destructive is False
    assert not made.may_destroy
    assert not definition(freeze_membership).may_destroy


def test_every_option_reaches_the_tool(definition: Define) -> None:
    @tool(
        name="wipe",
        description="Wipe it.",
        title="Wipe",
        category="danger",
        hints=["erase", "clear"],
        core=True,
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=True,
        concurrent=True,
        polling=True,
        idempotency_key="key",
        scope="bot7",
        roles=["admin"],
        tags=["collab_safe"],
        timeout=2.5,
        cache_ttl=60,
    )
    def anything(key: str) -> None:
        """Not this."""

    made = definition(anything)
    assert (made.name, made.description, made.category, made.hints) == (
        "wipe",
        "Wipe it.",
        "danger",
        ("erase", "clear"),
    )
    assert (made.core, made.concurrent, made.polling, made.idempotency_key) == (True, True, True, "key")
    assert (made.scope, made.roles, made.tags, made.timeout, made.cache_ttl) == (
        "bot7",
        ("admin",),
        ("collab_safe",),
        2.5,
        60,
    )
    hints = made.annotations
    assert (hints.title, hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == (
        "Wipe",
        False,
        True,
        True,
        True,
    )
    assert made.may_destroy


def test_tool_returns_the_function_itself_and_other_callables_wrapped() -> None:
    decorated = tool(category="x")(freeze_membership)
    try:
        assert decorated is freeze_membership
        again = tool(freeze_membership, name="pause")
        names = [(made.name, made.category) for made in FunctionSource("s", [freeze_membership, again]).tools()]
        assert names == [("freeze_membership", "x"), ("pause", "x")]
    finally:
        del freeze_membership.__toolcaddie__  # type: ignore[attr-defined]
    renamed = tool(io.StringIO("text").getvalue, name="read_text", read_only=True)
    (made,) = FunctionSource("s", [renamed]).tools()
    assert (made.name, made.annotations.read_only) == ("read_text", True)


def test_output_schemas_come_from_the_return_annotation(definition: Define) -> None:
    @tool(output_schema=True)
    def where() -> Address: ...

    @tool(output_schema=True)
    def names() -> list[str]: ...

    @tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    def given() -> dict[str, int]: ...

    assert definition(freeze_membership).output_schema is None
    assert set(definition(where).output_schema["properties"]) == {"street", "number"}  # type: ignore[index]
    assert definition(names).output_schema == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"type": "string"}}},
        "required": ["result"],
    }
    assert definition(given).output_schema == {"type": "object", "properties": {"n": {"type": "integer"}}}


def test_the_methods_of_an_object_become_tools_in_their_order() -> None:
    class Base:
        @tool
        def lookup(self, key: str) -> str:
            """Look it up."""
            return key

        def helper(self) -> None: ...

    class Desk(Base):
        @tool(name="open_desk")
        def open(self) -> None: ...

        @staticmethod
        @tool
        def hours() -> str: ...

        @tool
        @classmethod
        def kind(cls) -> str: ...

        @property
        def broken(self) -> str:
            raise RuntimeError("never looked at")

    made = FunctionSource("desk", [Desk()]).tools()
    assert [each.name for each in made] == ["lookup", "open_desk", "hours", "kind"]
    assert made[0].input_schema["required"] == ["key"]


def test_an_object_without_marks_gives_all_its_public_methods() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def up(self, by: int = 1) -> int: ...

        def reset(self) -> None: ...

        def _secret(self) -> None: ...

    assert [each.name for each in FunctionSource("c", [Counter()]).tools()] == ["up", "reset"]


def test_a_callable_object_is_one_tool_named_after_its_class(definition: Define) -> None:
    class FindMember:
        """Not this."""

        def __call__(self, name: str) -> str:
            """Find a member."""
            return name

    made = definition(FindMember())
    assert (made.name, made.description) == ("find_member", "Find a member.")


def test_a_module_gives_its_marked_functions() -> None:
    module = types.ModuleType("mine")
    module.marked = tool(name="marked")(lambda: None)  # type: ignore[attr-defined]
    module.alias = module.marked  # type: ignore[attr-defined]
    module.plain = freeze_membership  # type: ignore[attr-defined]
    assert [each.name for each in FunctionSource("m", [module]).tools()] == ["marked"]
    with pytest.raises(CatalogError, match="module 'empty' has no function marked @tool"):
        FunctionSource("m", [types.ModuleType("empty")])


def star(*names: str) -> None: ...


def numbers() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def impossible(file: str, handle: io.StringIO) -> None: ...


def uncallable(a: Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (star, r"star \(.*test_definitions\.py:\d+\): \*names has no names .* list parameter"),
        (numbers, r"numbers \(.*:\d+\) is a generator; .* return a list"),
        (stream, r"stream \(.*:\d+\) is a generator"),
        (unknown, r"unknown \(.*:\d+\): the annotation 'Nowhere' cannot be found"),
        (impossible, r"impossible \(.*:\d+\): parameter 'handle': no JSON Schema can be made of its type"),
        (uncallable, r"uncallable \(.*:\d+\): parameter 'a': no JSON Schema"),
        (lambda: 1, r"<lambda>.*\(.*:\d+\): tool '<lambda>' of source 'local': a name is 1 to 64"),
        (Address, r"Address is a class; hand over an instance of it, Address\(\.\.\.\)"),
        ("text", r"'text' is a str: neither callable nor an object with methods"),
        (tool(name="a b")(lambda: 1), r"'a b' of source 'local': a name is"),
        (tool(name="x", idempotency_key="nope")(lambda a: a), r"idempotency_key 'nope' is not one of its parameters"),
        (
            tool(name="x", output_schema={"type": "array"})(lambda: [1]),
            r"output: .* must have type 'object', not 'array'",
        ),
        (max, r"max: its signature cannot be read .* wrap it in a function of your own"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_name_and_place(function: Any, words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        FunctionSource("local", [function])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"catgory": "x"}, r"freeze_membership \(.*:\d+\): @tool has no option 'catgory'; did you mean 'category'\?"),
        ({"zzz": 1}, r"has no option 'zzz'; there are name, description"),
        ({"hints": "pause"}, r"hints must be a list of strings, not 'pause'"),
        ({"roles": [1]}, r"roles must be a list of strings, not \[1\]"),
        ({"read_only": True, "destructive": True}, r"cannot be read_only and destructive"),
        ({"timeout": 0}, r"timeout must be more than 0 seconds, not 0"),
        ({"cache_ttl": -1}, r"cache_ttl must be 0 seconds or more, not -1"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_stand(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tool(**options)(freeze_membership)


def test_marking_a_class_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"Address is a class; mark its methods with @tool"):
        tool(Address)


def test_uuids_dates_and_decimals_have_a_schema(definition: Define) -> None:
    def pay(id: uuid.UUID, at: datetime.datetime, amount: Decimal, every: datetime.timedelta, raw: bytes) -> None: ...  # noqa: A002

    properties = definition(pay).input_schema["properties"]
    assert properties["id"]["format"] == "uuid"
    assert properties["at"]["format"] == "date-time"
