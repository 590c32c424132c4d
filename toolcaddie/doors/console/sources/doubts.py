"""Definitions of tools that a person should read, because a model might obey them: the texts in them come from whoever runs the
source. A definition without a doubt is not proven to be harmless."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool import Tool
from toolcaddie.guards.markers import neutral
from toolcaddie.util.text import visible

LONGEST = 4_000
"""The number of characters above which a description is unusually long."""

Kind = Literal["hidden", "marker", "instructions", "long"]

_INSTRUCTIONS = re.compile(
    r"\b(ignore|disregard|forget)\b.{0,30}\b(previous|prior|above|earlier|all)\b.{0,30}\b(instruction|prompt|rule|message)"
    r"|\b(do not|don't|never)\b.{0,20}\b(tell|mention|inform|show|reveal)\b.{0,30}\b(user|human|person|anyone)\b"
    r"|<\s*/?\s*(system|important|instructions?|secret)\s*>"
    r"|\bbefore (using|calling) (this|any|other) tools?\b"
    r"|\b(system prompt|api key|password|private key|id_rsa|\.ssh/)",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\u00[0-1]")
"""Control characters in JSON, besides tabs and line breaks, which have shorter escapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason to read a definition."""

    tool: str
    source: str
    kind: Kind
    text: str
    """The part of the definition that raises the doubt."""


@lru_cache(maxsize=1)
def doubts_in(catalog: Catalog) -> Sequence[Doubt]:
    """Returns the doubts about the tools of a catalog. It reads every definition, so call it in a thread; the next call for the
    same catalog costs nothing."""
    return [doubt for tool in catalog.tools for doubt in _doubts(tool)]


def _doubts(tool: Tool) -> Iterator[Doubt]:
    schema = msgspec.json.encode((tool.input_schema, tool.output_schema)).decode("utf-8", "replace")
    for text in (tool.name, tool.description, schema):
        if visible(text) != text or (text is schema and _ESCAPED.search(text)):
            yield _doubt(tool, "hidden", text)
            break
    for text in (tool.description, schema):
        if neutral(text) != text:
            yield _doubt(tool, "marker", text)
            break
    for text in (tool.description, schema):
        if match := _INSTRUCTIONS.search(text):
            yield _doubt(tool, "instructions", text[max(0, match.start() - 60) : match.end() + 60])
            break
    if len(tool.description) > LONGEST:
        yield _doubt(tool, "long", tool.description)


def _doubt(tool: Tool, kind: Kind, text: str) -> Doubt:
    return Doubt(tool=tool.name, source=tool.source, kind=kind, text=text[:400])
