"""The largest row of the trail, `tools_selected`, in a form of half the size. Whoever reads the trail sees it as it was.

A selection of thirty tools says the same few reasons again and again, and the names of its fields with each tool. So tools
become lists, and each text that repeats stands once, in `texts`, and is named by its place there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from operator import itemgetter
from typing import Any

PACKED = "tools_selected"
"""The kind of the rows that are packed."""

_TEXTS = "texts"
_FIELDS = 4
_FLAGS = ("slim", "core")
"""What a tool has beside its four fields, where it is so."""
_tool_fields = itemgetter("name", "category", "score", "reasons")
_dropped_fields = itemgetter("name", "stage", "detail", "score")


def packed(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a selection as it is stored; data of another shape as it is."""
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
    """The data as it was before `packed`."""
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
