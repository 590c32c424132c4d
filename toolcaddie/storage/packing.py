"""Packs the largest row of the trail, `tools_selected`, to half its size. Readers of the trail see the original.

A selection of thirty tools repeats the same few reasons, and the names of its fields with each tool. So tools become
lists, and each repeated text is stored once, in `texts`, and referred to by its index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from operator import itemgetter
from typing import Any

import msgspec

from toolcaddie.core.storage import SharedRows

PACKED = "tools_selected"
"""Kind of the records that are packed."""

_TEXTS = "texts"
"""Name of the field that contains the texts."""
_FIELDS = 4
"""Number of fields that every tool has."""
_FLAGS = ("slim", "core")
"""Flags that a tool may have in addition to its four fields."""
_tool_fields = itemgetter("name", "category", "score", "reasons")
_dropped_fields = itemgetter("name", "stage", "detail", "score")
_encode = msgspec.json.Encoder().encode


def packed(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the data of a selection in its stored form, or data of another shape unchanged."""
    tools = data.get("tools")
    if not isinstance(tools, SharedRows) or data.get("dropped"):
        return _packed(data)
    if tools.stored is None:
        first = _packed({"tools": list(tools), "dropped": []})
        tools.stored = {name: msgspec.Raw(_encode(value)) for name, value in first.items() if name != "dropped"}
    return {**data, **tools.stored}


def _packed(data: Mapping[str, Any]) -> Mapping[str, Any]:
    places: defaultdict[str | None, int] = defaultdict(count().__next__)
    place = places.__getitem__
    try:
        tools = []
        for tool in data["tools"]:
            name, category, score, reasons = _tool_fields(tool)
            row = [name, place(category), score, list(map(place, reasons))]
            if len(tool) > _FIELDS:
                row += [flag for flag in _FLAGS if tool.get(flag) is True]
                if len(tool) != len(row):
                    return data
            tools.append(row)
        dropped = [
            [name, place(stage), place(detail), score]
            for name, stage, detail, score in map(_dropped_fields, data["dropped"])
        ]
        if not set(map(len, data["dropped"])) <= {_FIELDS}:
            return data
    except (AttributeError, KeyError, TypeError):
        return data
    return {**data, "tools": tools, "dropped": dropped, _TEXTS: list(places)}


def unpacked(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the data as it was before `packed`."""
    if _TEXTS not in data:
        return data
    texts = data.pop(_TEXTS)
    data["tools"] = [
        {"name": name, "category": texts[category], "score": score, "reasons": [texts[place] for place in reasons]}
        | dict.fromkeys(flags, True)
        for name, category, score, reasons, *flags in data["tools"]
    ]
    data["dropped"] = [
        {"name": name, "stage": texts[stage], "detail": texts[detail], "score": score}
        for name, stage, detail, score in data["dropped"]
    ]
    return data
