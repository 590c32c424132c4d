"""Copies of frozen dataclasses and msgspec structs with some fields changed."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace as replace_struct

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    """Returns a copy with some fields changed. Raises `TypeError` for a field that the class does not have.

    Classes whose objects are copied at every step of a run are structs: copying a struct of thirty fields takes a tenth of the
    time of a dataclass.
    """
    if isinstance(value, Struct):
        return replace_struct(value, **changes)
    copy: T = dataclasses.replace(value, **changes)  # type: ignore[type-var]
    return copy
