"""The texts of a tool that are searched, by field (name, description, parameters ...), and the weight of a word in each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.selection.query import language_of, split_words
from toolcaddie.selection.stopwords import LANGUAGES, Language

_MOST_NODES = 500
"""The largest number of nodes of a tool's schema that are read, so that a huge generated schema does not slow down the index."""
_MOST_TEXT = 8_000
"""The largest number of characters of a field that are read."""
_SAMPLE = 400
"""The number of tools by which the languages of a catalog are recognised."""
_MOST_CATALOGS = 64
"""The number of catalogs whose languages are cached."""
_SHARE = 0.15
"""Share of the descriptions that must be in a language for it to be one of the catalog's languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The weight of a field (BM25F). `pivot` is the usual length of the field in words; the longer a field is than that, the less
    each of its words weighs. `slope` says by how much, 0 to 1.

    The pivot is a constant instead of the mean of the catalog, because a mean would reveal something about tools that a caller
    may not see, and would change every score when a tool is added.
    """

    name: str
    weight: float
    pivot: float
    slope: float


FIELDS: tuple[Field, ...] = (
    Field(name="name", weight=2.5, pivot=3.0, slope=0.4),
    Field(name="hints", weight=1.0, pivot=8.0, slope=0.4),
    Field(name="description", weight=1.0, pivot=15.0, slope=0.6),
    Field(name="category", weight=0.5, pivot=8.0, slope=0.5),
    Field(name="parameters", weight=0.5, pivot=6.0, slope=0.6),
    Field(name="details", weight=0.3, pivot=30.0, slope=0.6),
)


def document(tool: Tool, catalog: Catalog) -> dict[str, list[str]]:
    """Returns the words of a tool by field."""
    category = catalog.category(tool.category) if tool.category is not None else None
    category_texts = [category.name, category.description, *category.keywords] if category is not None else []
    if (
        tool.source not in ("local", CLIENT_SOURCE) and "." not in tool.source
    ):  # the name of a file says nothing about its tools
        category_texts.append(tool.source)
    names, details = _schema_texts(tool.input_schema)
    texts: dict[str, Sequence[str]] = {
        "name": (tool.name,),
        "hints": tool.hints,
        "description": (tool.description,),
        "category": category_texts,
        "parameters": names,
        "details": details,
    }
    return {field: split_words("\n".join(parts)[:_MOST_TEXT]) for field, parts in texts.items()}


def catalog_languages(catalog: Catalog) -> tuple[Language, ...]:
    """Returns the languages of a catalog's descriptions, the most frequent first; English if none is recognised."""
    return _languages_of(tuple([tool.description for tool in catalog.tools[:_SAMPLE]]))


@lru_cache(maxsize=_MOST_CATALOGS)
def _languages_of(descriptions: tuple[str, ...]) -> tuple[Language, ...]:
    """Returns the languages of some descriptions. Cached, because most changes of a large catalog leave them as they are."""
    counts = dict.fromkeys(LANGUAGES, 0)
    for description in descriptions:
        language = _language_of(description[:_MOST_TEXT])
        if language is not None:
            counts[language] += 1
    enough = max(1.0, _SHARE * sum(counts.values()))
    ordered = sorted(LANGUAGES, key=lambda language: -counts[language])
    return tuple(language for language in ordered if counts[language] >= enough) or ("english",)


@lru_cache(maxsize=4 * _SAMPLE)
def _language_of(text: str) -> Language | None:
    """Returns the language of a text. It is cached, because the languages of a catalog are counted again when the catalog
    changes."""
    return language_of(split_words(text))


def _schema_texts(schema: Any) -> tuple[list[str], list[str]]:
    """Returns the names of the parameters at every depth, and the texts about them: descriptions, titles, enum values."""
    names: list[str] = []
    details: list[str] = []
    for seen, node in enumerate(_nodes(schema)):
        if seen == _MOST_NODES:
            break
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            names.extend(str(name) for name in properties)
        details.extend(text for key in ("title", "description") if isinstance(text := node.get(key), str))
        choices = node.get("enum")
        if isinstance(choices, list | tuple):
            details.extend(choice for choice in choices[:50] if isinstance(choice, str))
    return names, details


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yields every object of a schema, outer objects before inner ones, otherwise in the order of the schema."""
    level: list[Any] = [schema]
    while level:
        deeper: list[Any] = []
        for node in level:
            if isinstance(node, Mapping):
                yield node
                deeper.extend(node.values())
            elif isinstance(node, list | tuple):
                deeper.extend(node)
        level = deeper
