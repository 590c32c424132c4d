"""The languages of a catalog's texts, and requests read as the catalog needs them: with English words for a request in another
language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import Tool
from toolcaddie.ports import Visible
from toolcaddie.selection.index.change import STALE, CatalogChange
from toolcaddie.selection.languages.guess import ENGLISH, OTHER
from toolcaddie.selection.languages.tables import LanguageTables, language_tables
from toolcaddie.selection.stopwords import STOP_WORDS
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.replacing import replace

_SAMPLE = 200
"""The largest number of visible tools by which the languages of a catalog are counted."""
_MOST_CACHED = 64
"""The number of sets of visible tools whose languages are cached."""
_SAME = 0.5
"""Share of the tools in the request's language from which the request is not foreign."""
_STOP = STOP_WORDS["english"]
_CHOICES = (1.0, 0.4)
"""Weights of the first and the second English word for a word."""
_ORIGINAL = 0.3
"""The least factor on the weight of a foreign message as it is: a few tools may be in its language."""
_LEAST_SHARE = 0.08
"""The least share of a second English word, by the table."""
_FEW = 3
"""A current message with fewer words is read together with the earlier ones to guess its language."""

_RELATED: tuple[frozenset[str], ...] = (
    frozenset({"da", "no", "sv"}),
    frozenset({"cs", "sk"}),
    frozenset({"ca", "es", "it", "pt"}),
    frozenset({"bg", "ru", "sr", "uk"}),
    frozenset({"ja", "zh"}),
)
"""Languages that are mistaken for each other if a text is short."""


class CatalogLanguages:
    """Counts the languages of a catalog's visible tools, and reads requests. Safe for many threads."""

    def __init__(self, catalog: Catalog, shares: Mapping[str, float] | None = None, changed: int = 0) -> None:
        """`shares`: those of an earlier catalog, which differs in `changed` tools; None: they are counted."""
        self._catalog = catalog
        self._tables = language_tables()
        self._whole = self._counted(None) if shares is None else shares
        self._changed = changed
        self._shares: Bounded[bytes, Mapping[str, float]] = Bounded(_MOST_CACHED)

    def changed(self, change: CatalogChange) -> CatalogLanguages:
        """Returns the languages of the changed catalog. A sample counts for a large one, so its languages are counted again only
        after many changes."""
        changed = self._changed + len(change.added) + len(change.removed)
        if len(change.after) <= 2 * _SAMPLE or changed > STALE * len(change.after):
            return CatalogLanguages(change.after)
        return CatalogLanguages(change.after, self._whole, changed)

    def read(self, words: QueryWords, mask: Visible | None) -> QueryWords:
        """Returns the words of a query with their language, and with `foreign` and `translations` if most visible tools are in
        another one."""
        if not words.messages:
            return words
        shares = self._of(mask)
        code = language_of_request(words)
        same = sum(share for other, share in shares.items() if other == code or _are_related(code, other))
        if same >= _SAME or not shares:
            return words if code == ENGLISH else replace(words, language=code)
        translations: tuple[tuple[str, float], ...] = ()
        if code not in (ENGLISH, OTHER) and shares.get(ENGLISH):
            translations = _translations(words, same, self._tables)
        return replace(words, language=code, foreign=1 - same, translations=translations)

    def _of(self, mask: Visible | None) -> Mapping[str, float]:
        if mask is None:
            return self._whole
        key = mask.tobytes()
        if (shares := self._shares.get(key)) is None:
            shares = self._counted(mask)
            self._shares.put(key, shares)
        return shares

    def _counted(self, mask: Visible | None) -> Mapping[str, float]:
        rows = np.arange(len(self._catalog)) if mask is None else np.flatnonzero(mask)
        some = rows[:: max(1, len(rows) // _SAMPLE)].tolist()
        counts = Counter(tool_language(self._catalog.tools[row], self._tables) for row in some)
        return {code: count / len(some) for code, count in counts.items()}


def language_of_request(words: QueryWords) -> str:
    """Returns the language of the current message of a request, which has messages."""
    current = words.messages[0][0]
    if len(current.split()) < _FEW and len(words.messages) > 1:
        current = " ".join(text for text, _ in words.messages)
    return language_tables().guess.of(current)


def tool_language(tool: Tool, tables: LanguageTables) -> str:
    """Returns the language of a tool's description; English if it has none."""
    return tables.guess.of_description(tool.description) if tool.description else ENGLISH


@lru_cache(maxsize=256)
def _are_related(one: str, other: str) -> bool:
    return any(one in group and other in group for group in _RELATED)


def _translations(words: QueryWords, same: float, tables: LanguageTables) -> tuple[tuple[str, float], ...]:
    """Returns texts of English words for each message, first and second choices apart. Words without a translation, such as
    names, stay; stop words are omitted. The
    messages stay too, with the share of the tools that are in their language (`same`) as a factor."""
    texts: list[tuple[str, float]] = []
    for text, weight in (*words.messages, *words.replies):
        code = tables.guess.of(text)
        if code in (ENGLISH, OTHER):
            texts.append((text, weight))
            continue
        choices = tables.of(code).translated(text)
        first = [english[0][0] if english else word for word, english in choices]
        second = [english[1][0] for _, english in choices if len(english) > 1 and english[1][1] >= _LEAST_SHARE]
        for chosen, factor in zip((first, second), _CHOICES, strict=True):
            if chosen:
                content = [word for word in chosen if word not in _STOP]
                texts.append((" ".join(content or chosen), factor * weight))
        texts.append((text, max(same, _ORIGINAL) * weight))
    return tuple(texts)
