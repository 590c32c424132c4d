"""The types of all tables of a settings file, and the error messages for values of a wrong type.

Most tables are classes of `model`. `[limits]`, `[budget]`, `[selection]`, `[learning]` and `[[capabilities]]` are derived from
the class that their values become: a new limit is a field there and nothing else.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, UnsetType

from toolcaddie.app.settings.model import Learning, Settings
from toolcaddie.core.capabilities import row_table
from toolcaddie.core.numbers import Weight
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.run import Limits
from toolcaddie.core.selection import Budget
from toolcaddie.util.suggest import did_you_mean
from toolcaddie.util.tables import arms, partial_table

LAID_OVER: Mapping[str, type[Any]] = {"selection": SelectionSettings, "budget": Budget, "limits": Limits}
"""Tables whose keys are the fields of these classes; their values override those of the preset."""
DERIVED: Mapping[str, type[Any]] = {"learning": Learning}
"""Tables that become an instance of these classes. Their types are derived from the classes, so that a file may say "off" where
a field takes None."""

PART_LISTS = ("source", "sink", "middleware", "meta_tool", "channel")
"""Sockets (kinds of parts) with any number of parts in a file, each in a table under a header in double brackets."""
SINGLE_PARTS = ("policy", "approver", "store", "interpreter", "sandbox")
"""Sockets with at most one part in a file."""
DEFAULT_TYPES: Mapping[str, Mapping[str, str]] = {
    "policy": {"type": "cedar"},
    "interpreter": {"type": "monty"},
    "sandbox": {"type": "wall"},
}
"""The type of a part whose table names none."""
PARTS_BY_NAME = ("ranker", "embedder", "provider")
"""Sockets whose parts are named by another setting: each part has a table with its name."""
COMPLETED_ELSEWHERE = ("embedder", "provider")
"""Sockets whose parts also get settings from other tables, so that a required setting may be missing in their own table."""

NAME_ITS_VARIABLE = "name the environment variable that holds it"
LOOKS_LIKE_A_KEY = f"this looks like a key; {NAME_ITS_VARIABLE}"

Path = tuple[str, ...]


@cache
def file_schema() -> type[Struct]:
    """Returns the type of a whole settings file: `Settings`, with the types of the file for the tables that `Settings` holds in
    another form."""
    return msgspec.defstruct(
        "File",
        [(item.name, *_column(item)) for item in msgspec.structs.fields(Settings)],
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def table_fields(kind: Any) -> Mapping[str, Any]:
    """Returns the types of a table's values by key."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return {item.name: item.type for item in msgspec.structs.fields(kind)}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {item.name: hints[item.name] for item in dataclasses.fields(kind)}


def is_table(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, Struct) or dataclasses.is_dataclass(kind))


def is_list_of_tables(kind: Any) -> bool:
    return get_origin(kind) is tuple and (is_table(get_args(kind)[0]) or get_origin(get_args(kind)[0]) is dict)


def named_tables(kind: Any) -> Any:
    """Returns the type of the inner tables if `kind` is a table of tables with free names, such as `[bots.NAME]`; else None."""
    held = get_args(kind)[1] if get_origin(kind) in (dict, Mapping) else None
    return held if is_table(held) else None


def bare(kind: Any) -> Any:
    """Returns a type without None and `UNSET`."""
    members = _members(kind)
    return members[0] if len(members) == 1 else kind


def choices(name: str, names: Iterable[str]) -> str:
    """Returns the end of an error message: the closest name, or all names."""
    return did_you_mean(name, sorted(names))


def dotted(path: Sequence[str]) -> str:
    """Returns a key in the form `fallback.1.model`: tables of a list are counted from 1, as in every other error."""
    lists = {name for name, kind in table_fields(file_schema()).items() if is_list_of_tables(bare(kind))}
    second = [str(int(path[1]) + 1)] if len(path) > 1 and path[0] in lists and path[1].isdigit() else path[1:2]
    return ".".join((*path[:1], *second, *path[2:]))


_ERROR_PATH = re.compile(r" - at `\$\.?(.*)`\Z")


def complaint_and_path(error: msgspec.ValidationError) -> tuple[str, Path]:
    """Splits a message such as `Expected ... - at `$.limits.rounds`` into the complaint and the path of the key."""
    text = str(error)
    match = _ERROR_PATH.search(text)
    if match is None:
        return text, ()
    # A number counts tables of a list; `[...]` is a key of a table of any keys, which the message does not name.
    return text[: match.start()], tuple(part for part in re.split(r"\.|\[(\d+)\]|\[\.\.\.\]", match[1]) if part)


def complaint(kind: Any, path: Sequence[str], what: str) -> str:
    """Returns the error message for a value: the complaint, and the values that are valid there."""
    if path[-1:] and path[-1].endswith("_env") and "regex" in what:
        return LOOKS_LIKE_A_KEY
    if "matching regex" in what:
        what = "this text is not valid here"  # the pattern itself would help nobody
    return f"{what}{_remedy(kind, path)}"


def _column(item: msgspec.structs.FieldInfo) -> tuple[Any, Any]:
    """Returns the type that a field of `Settings` has in a file, and its default there."""
    has_default = item.default is not msgspec.NODEFAULT
    default = item.default if has_default else msgspec.field(default_factory=item.default_factory)
    if item.name in LAID_OVER or item.name in DERIVED:
        table = partial_table(LAID_OVER.get(item.name) or DERIVED[item.name])
        return table, msgspec.field(default_factory=table)
    if item.name == "capabilities":
        return tuple[row_table(), ...], ()  # type: ignore[misc]
    if item.name in PART_LISTS:
        return tuple[dict[str, Any], ...], ()
    if item.name in SINGLE_PARTS:
        return dict[str, Any] | None, None
    if item.name in PARTS_BY_NAME:
        return dict[str, dict[str, Any]], msgspec.field(default_factory=dict)
    return item.type, default


def _remedy(kind: Any, path: Sequence[str]) -> str:
    """Returns the end of an error message: the values that are valid at this path. `kind`: the type of the whole table."""
    for name in path:
        kind = bare(kind)
        if inner := named_tables(kind):
            kind = inner
            continue
        if not is_table(kind) and not is_list_of_tables(kind):
            kind = _described_item(kind) if name.isdigit() else kind
            break
        kind = get_args(kind)[0] if name.isdigit() else table_fields(kind)[name]
    kind = bare(kind)
    if is_table(kind):
        return f"; write a table with {', '.join(table_fields(kind))}"
    return f"; write {' or '.join(map(_words, _members(kind)))}"


def _described_item(kind: Any) -> Any:
    """Returns the type of the items of a list if it says more of them than that they are texts; else the type of the list."""
    item = get_args(kind)[0] if get_origin(kind) in (tuple, list, Sequence) else None
    rules = get_args(item)[1:] if get_origin(item) is Annotated else ()
    if get_origin(item) is Literal or get_args(item)[:1] == (int,):
        return item
    return item if any(isinstance(rule, Meta) and rule.description for rule in rules) else kind


def _members(kind: Any) -> Sequence[Any]:
    return [arm for arm in arms(kind) if arm not in (NoneType, UnsetType)]


def _words(arm: Any) -> str:
    """Returns a type in words, such as "a number above 0"."""
    if get_origin(arm) is Literal:
        return ", ".join(f'"{value}"' for value in get_args(arm))
    if is_list_of_tables(arm):
        return "tables under a header in double brackets, [[like this]]"
    if get_origin(arm) in (tuple, list, Sequence):
        return 'a list of texts like ["one", "two"]'
    if get_origin(arm) is dict:
        held = get_args(arm)[1]
        if held is Any:
            return "a table"
        if is_table(held) or get_origin(held) is dict:
            return "a table of tables, each under a header with its name, [like.this]"
        return f"a table of {'numbers' if held == Weight else 'texts' if held is str else 'lists'}"
    base, *rules = get_args(arm) if get_origin(arm) is Annotated else (arm,)
    bounds = [_bounds(rule) for rule in rules if isinstance(rule, Meta)]
    return " ".join([_BASES.get(base, "a value"), *filter(None, bounds)])


_BASES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}
"""Words for the types of single values."""


def _bounds(rule: Meta) -> str:
    """Returns the condition of a type in words, such as "from 1 to 20"."""
    if rule.description is not None:
        return rule.description
    if rule.pattern is not None:
        return "that begins with http:// or https://"
    if rule.min_length is not None:
        return "that is not empty"
    low = f"from {rule.ge}" if rule.ge is not None else f"above {rule.gt}" if rule.gt is not None else ""
    high = f"to {rule.le}" if rule.le is not None else f"below {rule.lt}" if rule.lt is not None else ""
    return f"{low} {high}".strip()
