"""Tables of a settings file, derived from the fields of a dataclass: a new field of the class is a new key of the table."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType

Off = Literal["off"]
"""TOML has no null."""

_NO_TYPES: Mapping[str, Any] = {}


def partial_table(
    kind: type[Any],
    *,
    required: Collection[str] = (),
    without: Collection[str] = (),
    types: Mapping[str, Any] = _NO_TYPES,
) -> type[Struct]:
    """Returns the fields of a dataclass as a table in which each may be absent, unless it is `required`.

    Where the class has None, the table has "off". Fields in `without` are no keys of the table. `types` has the types of
    fields that have another type in the table.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [item.name for item in dataclasses.fields(kind) if item.name not in without]
    columns = {name: types[name] if name in types else _of_file(hints[name]) for name in names}
    return msgspec.defstruct(
        kind.__name__,
        [(name, column) if name in required else (name, column | UnsetType, UNSET) for name, column in columns.items()],
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def set_values(table: Struct) -> dict[str, Any]:
    """Returns the keys of a table that are set, with "off" as None."""
    values = {name: getattr(table, name) for name in table.__struct_fields__}
    return {name: None if value == "off" else value for name, value in values.items() if value is not UNSET}


def arms(kind: Any) -> Sequence[Any]:
    """Returns the members of a union; a type that is no union is its only member."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _of_file(kind: Any) -> Any:
    """Returns a field's type as a file can hold it: "off" for None, a table for any mapping."""
    return reduce(or_, [Off if arm is NoneType else _plain(arm) for arm in arms(kind)])


def _plain(arm: Any) -> Any:
    return dict[get_args(arm)] if get_origin(arm) in (dict, typing.get_origin(Mapping[str, int])) else arm  # type: ignore[misc]
