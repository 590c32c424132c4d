"""Types of the tables in a TOML settings file, derived from dataclasses: each field of the class is a key of its table.

The settings loader decodes a table into such a type, in which absent keys are UNSET, and then sets the fields of the dataclass.
"""

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
"""Stands for None in a settings file, because TOML has no null."""

_NO_TYPES: Mapping[str, Any] = {}


def partial_table(
    kind: type[Any],
    *,
    required: Collection[str] = (),
    without: Collection[str] = (),
    types: Mapping[str, Any] = _NO_TYPES,
) -> type[Struct]:
    """Returns a struct type with the fields of the dataclass `kind`, in which every key may be absent unless it is `required`.

    A field that may be None may be "off" in the table. Fields in `without` are omitted. `types` gives the type in the table
    for fields whose type there differs from the one in the class.
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
    """Returns the keys that the file sets, and their values, with None in place of "off"."""
    values = {name: getattr(table, name) for name in table.__struct_fields__}
    return {name: None if value == "off" else value for name, value in values.items() if value is not UNSET}


def arms(kind: Any) -> Sequence[Any]:
    """Returns the members of a union type; for any other type, that type alone."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _of_file(kind: Any) -> Any:
    """Returns the type of a field's value in a file: "off" in place of None, `dict` in place of any mapping."""
    return reduce(or_, [Off if arm is NoneType else _plain(arm) for arm in arms(kind)])


def _plain(arm: Any) -> Any:
    return dict[get_args(arm)] if get_origin(arm) in (dict, typing.get_origin(Mapping[str, int])) else arm  # type: ignore[misc]
