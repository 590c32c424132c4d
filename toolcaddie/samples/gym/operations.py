"""Operations: the gym's tools as data, each with its parameters and with SQL that checks, writes and shows.

`database` runs an operation in one transaction. In this order, it checks that every id exists, checks that no `Refusal` finds a
row, executes the writes, and reads the parts of the answer. The functions below build the usual kinds (list, details, figures,
create, update, act, remove), so that the tables of operations in `tools/` read as a list of tools. In these functions, `requires`
are the parameters that a call must have, `takes` the optional ones, `by` is the parameter with the id of the row, and `hints` are
further words by which the tool is found. All SQL is in this file and in those tables; a caller's values are always bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from toolcaddie.core.tool import JsonObject, Tool, ToolAnnotations
from toolcaddie.util.replacing import replace

SOURCE = "gym"

_LARGEST = 1_000_000_000
_DAY = r"^(\d{4}-\d{2}-\d{2}|today|tomorrow|yesterday)$"
_TIME = r"^([01]\d|2[0-3]):[0-5]\d$"
_MONTH = r"^\d{4}-(0[1-9]|1[0-2])$"

Kind = Literal["plain", "day"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A parameter of a tool. It filters a list (`where`), is written to the column of the same name, or is used by name in the
    SQL."""

    name: str
    schema: JsonObject
    kind: Kind = "plain"
    """The form of the value. A `day` is a date, or one of the words today, tomorrow, yesterday."""
    default: Any = None
    where: str | None = None
    """The SQL condition that filters a list if the parameter has a value; None: the parameter is no filter."""
    table: str | None = None
    """The table that must contain the value as an id; None: the value is not an id."""
    finder: str | None = None
    """The tool that returns ids of that table."""


class Write(Protocol):
    """A statement that writes. Its columns may depend on which arguments have a value."""

    def sql(self, arguments: Mapping[str, Any]) -> str: ...


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that writes and is the same for all arguments."""

    text: str

    def sql(self, arguments: Mapping[str, Any]) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Inserts a row. It has the columns whose arguments have a value, and the columns of `values`, each with its SQL
    expression."""

    table: str
    columns: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict)

    def sql(self, arguments: Mapping[str, Any]) -> str:
        columns = {name: f":{name}" for name in self.columns if arguments.get(name) is not None}
        row = {**columns, **self.values}
        return f"INSERT INTO {self.table} ({', '.join(row)}) VALUES ({', '.join(row.values())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Updates the columns whose arguments have a value, in the row whose id is the argument `by`."""

    table: str
    columns: tuple[str, ...]
    by: str

    def sql(self, arguments: Mapping[str, Any]) -> str:
        # The id is set to itself, so that the statement is valid if no other column changes.
        changes = ["id = id", *(f"{name} = :{name}" for name in self.columns if arguments.get(name) is not None)]
        return f"UPDATE {self.table} SET {', '.join(changes)} WHERE id = :{self.by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Refuses the call with `message`, filled with the arguments and the row's columns, if `query` finds a row."""

    query: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """A part of the answer: the rows of a query, or its first row, under `key`. With an empty key, the columns of the first row
    become fields of the answer itself."""

    key: str
    query: str
    many: bool = True
    order: str = ""
    filters: tuple[str, ...] = ()
    """Conditions that always apply, in addition to the filters of the parameters."""
    paged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One tool of the gym with its checks, writes and answer."""

    name: str
    description: str
    params: tuple[Param, ...] = ()
    required: tuple[str, ...] = ()
    rules: JsonObject = field(default_factory=dict)
    """Further keywords of the tool's schema, for rules such as "at least one field" or "one of two fields"."""
    refusals: tuple[Refusal, ...] = ()
    writes: tuple[Write, ...] = ()
    shows: tuple[Show, ...] = ()
    destructive: bool = False
    idempotent: bool = False
    hints: tuple[str, ...] = ()

    def tool(self, category: str | None) -> Tool:
        """Returns the tool; without a category it is a core tool."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {param.name: param.schema for param in self.params},
            "additionalProperties": False,
            **self.rules,
        }
        if self.required:
            schema["required"] = list(self.required)
        reads = not self.writes
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=schema,
            category=category,
            core=category is None,
            hints=self.hints,
            source=SOURCE,
            annotations=ToolAnnotations(
                title=self.name.replace("_", " ").capitalize(),
                read_only=reads,
                destructive=self.destructive,
                idempotent=reads or self.idempotent,
                open_world=False,
            ),
        )


# Parameters


def _schema(kind: str, description: str, **rules: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **rules}


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    return schema if default is None else {**schema, "default": default}


def text(name: str, description: str, *, most: int = 200, where: str | None = None) -> Param:
    return Param(name=name, schema=_schema("string", description, minLength=1, maxLength=most), where=where)


def choice(name: str, description: str, *values: str, default: str | None = None) -> Param:
    """Returns a parameter with fixed choices. If the operation is a list, the parameter filters the column of its name."""
    schema = _schema("string", description, enum=list(values))
    return Param(name=name, schema=_with_default(schema, default), default=default, where=f"{name} = :{name}")


def whole(
    name: str,
    description: str,
    *,
    least: int = 0,
    most: int = _LARGEST,
    default: int | None = None,
    where: str | None = None,
) -> Param:
    schema = _schema("integer", description, minimum=least, maximum=most)
    return Param(name=name, schema=_with_default(schema, default), default=default, where=where)


def amount(
    name: str, description: str, *, least: float = 0, most: float = _LARGEST, default: float | None = None
) -> Param:
    schema = _schema("number", description, minimum=least, maximum=most)
    return Param(name=name, schema=_with_default(schema, default), default=default)


def day(name: str, description: str, *, default: str | None = None, where: str | None = None) -> Param:
    schema = _schema("string", f"{description} YYYY-MM-DD, or today, tomorrow, yesterday.", pattern=_DAY)
    return Param(name=name, schema=_with_default(schema, default), kind="day", default=default, where=where)


def clock(name: str, description: str, *, where: str | None = None) -> Param:
    return Param(name=name, schema=_schema("string", f"{description} HH:MM, 24 hours.", pattern=_TIME), where=where)


def month(name: str, description: str, *, where: str | None = None) -> Param:
    return Param(name=name, schema=_schema("string", f"{description} YYYY-MM.", pattern=_MONTH), where=where)


def ident(name: str, *, table: str, finder: str, noun: str | None = None) -> Param:
    """Returns a parameter that takes the id of a row in `table`. `finder` is the tool that returns such ids. If the operation is
    a list, the parameter filters the column of its name."""
    noun = noun or name.removesuffix("_id").replace("_", " ")
    schema = _schema("integer", f"Id of the {noun}, from {finder}.", minimum=1, maximum=_LARGEST)
    return Param(name=name, schema=schema, where=f"{name} = :{name}", table=table, finder=finder)


def search(*columns: str) -> Param:
    """Returns a parameter of words to search in some columns, regardless of case and accents."""
    joined = " || ' ' || ".join(f"coalesce({column}, '')" for column in columns)
    column_names = " or ".join(", ".join(column.replace("_", " ") for column in columns).rsplit(", ", 1))
    return text("search", f"Part of the {column_names} to look for.", where=f"matches({joined}, :search)")


def period(column: str, noun: str) -> tuple[Param, Param]:
    """Returns the parameters of a period, both days included."""
    return (
        day("from_date", f"Only {noun} on or after this day.", where=f"{column} >= :from_date"),
        day("to_date", f"Only {noun} on or before this day.", where=f"{column} <= :to_date"),
    )


def days_back(noun: str, *, default: int = 30) -> Param:
    return whole("days", f"How many days back to look for {noun}, today included.", least=1, most=3650, default=default)


_PAGE = (
    whole("limit", "How many to return at most.", least=1, most=100, default=20),
    whole("offset", "How many to skip, to see the next page.", default=0),
)


# Kinds of operations


def listing(
    name: str,
    description: str,
    key: str,
    view: str,
    *takes: Param,
    order: str,
    requires: Sequence[Param] = (),
    filters: Sequence[str] = (),
    hints: Sequence[str] = (),
) -> Operation:
    """Returns an operation that lists rows of a view, filtered by its parameters, with pagination and the total."""
    show = Show(key=key, query=f"SELECT * FROM {view}", order=order, filters=tuple(filters), paged=True)
    return Operation(
        name=name,
        description=description,
        params=(*requires, *takes, *_PAGE),
        required=_names(requires),
        shows=(show,),
        hints=tuple(hints),
    )


def reading(
    name: str,
    description: str,
    *shows: Show,
    requires: Sequence[Param] = (),
    takes: Sequence[Param] = (),
    refusals: Sequence[Refusal] = (),
    hints: Sequence[str] = (),
) -> Operation:
    """Returns an operation that shows one thing with its parts, or that counts and adds up."""
    return Operation(
        name=name,
        description=description,
        params=(*requires, *takes),
        required=_names(requires),
        refusals=tuple(refusals),
        shows=shows,
        hints=tuple(hints),
    )


def create(
    name: str,
    description: str,
    table: str,
    show: Show,
    *,
    requires: Sequence[Param],
    takes: Sequence[Param] = (),
    values: Mapping[str, str] | None = None,
    refusals: Sequence[Refusal] = (),
    hints: Sequence[str] = (),
) -> Operation:
    """Returns an operation that adds a row; `:new_id` is its id in `show`."""
    params = (*requires, *takes)
    insert = Insert(table=table, columns=_names(params), values=values or {})
    return Operation(
        name=name,
        description=description,
        params=params,
        required=_names(requires),
        refusals=tuple(refusals),
        writes=(insert,),
        shows=(show,),
        hints=tuple(hints),
    )


def update(
    name: str,
    description: str,
    table: str,
    show: Show,
    by: Param,
    *takes: Param,
    refusals: Sequence[Refusal] = (),
    hints: Sequence[str] = (),
) -> Operation:
    """Returns an operation that changes fields of a row; the caller must send at least one."""
    return Operation(
        name=name,
        description=description,
        params=(by, *takes),
        required=(by.name,),
        rules={"minProperties": 2},
        refusals=tuple(refusals),
        writes=(Update(table=table, columns=_names(takes), by=by.name),),
        shows=(show,),
        idempotent=True,
        hints=tuple(hints),
    )


def act(
    name: str,
    description: str,
    *writes: str,
    show: Show,
    requires: Sequence[Param] = (),
    takes: Sequence[Param] = (),
    refusals: Sequence[Refusal] = (),
    idempotent: bool = True,
    destructive: bool = False,
    hints: Sequence[str] = (),
) -> Operation:
    """Returns an operation that changes a state. It is refused if the state does not allow it, so that repeating it has no
    effect."""
    return Operation(
        name=name,
        description=description,
        params=(*requires, *takes),
        required=_names(requires),
        refusals=tuple(refusals),
        writes=tuple(map(Statement, writes)),
        shows=(show,),
        idempotent=idempotent,
        destructive=destructive,
        hints=tuple(hints),
    )


def remove(
    name: str, description: str, table: str, by: Param, *, refusals: Sequence[Refusal] = (), hints: Sequence[str] = ()
) -> Operation:
    """Returns an operation that deletes a row permanently."""
    return Operation(
        name=name,
        description=description,
        params=(by,),
        required=(by.name,),
        refusals=tuple(refusals),
        writes=(Statement(f"DELETE FROM {table} WHERE id = :{by.name}"),),
        shows=(Show(key="", query=f"SELECT :{by.name} AS {by.name}, 'deleted' AS status", many=False),),
        destructive=True,
        idempotent=True,
        hints=tuple(hints),
    )


def row(key: str, view: str, condition: str) -> Show:
    """Returns a part of the answer: one row of a view, under `key`."""
    return Show(key=key, query=f"SELECT * FROM {view} WHERE {condition}", many=False)


def rows(key: str, query: str) -> Show:
    """Returns a part of the answer: all rows of a query, under `key`."""
    return Show(key=key, query=query)


def figures(query: str) -> Show:
    """Returns a part of the answer: the columns of the query's only row, as fields of the answer itself."""
    return Show(key="", query=query, many=False)


def refuse(query: str, message: str) -> Refusal:
    return Refusal(query=query, message=message)


def free(param: Param, **changes: Any) -> Param:
    """Returns a copy of the parameter that filters no list, with these fields changed. `description` changes its schema."""
    described = {**param.schema, "description": changes.pop("description", param.schema["description"])}
    return replace(param, schema=described, **{"where": None, **changes})


def _names(params: Iterable[Param]) -> tuple[str, ...]:
    return tuple(param.name for param in params)
