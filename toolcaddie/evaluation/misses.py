"""Misses: tools that selection omitted and runs needed all the same, with the words that would have found them.

A tool was missed where it was called although it had not been selected: the model looked for it (`request_more_tools`,
`search_tools`), ran it by name, or remembered it. What was looked for and led to no call is told apart: no tool may be blamed.

A suggested hint is a word that the requests which missed the tool have in common, that other requests seldom say, and that the
tool's own texts do not hold yet: its document frequency among the tool's requests times the inverse of that among all requests
(Sparck Jones 1972), each request counting once.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.evaluation.recorded import RecordedRun
from toolcaddie.evaluation.usage import whole
from toolcaddie.selection.index.document import catalog_languages, document
from toolcaddie.selection.query import content_words, is_pair, stems_of
from toolcaddie.selection.stopwords import Language
from toolcaddie.util.replacing import replace

MOST_HINTS = 5

SHARE = 0.2
"""The part of the requests that missed a tool which a hint must stand in."""

RARE = 0.34
"""A word that a larger part of all other requests say tells no tool apart."""

_SHORTEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """One request that a selection did not serve."""

    run_id: str
    message: str
    asked: str = ""
    """The model's query, in its words."""
    by: str
    """The meta tool that found it, or `called`: nobody looked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A word to add to a tool's hints."""

    word: str
    requests: int
    """Of those that missed the tool: how many say it."""
    elsewhere: int
    """Of all other requests: how many say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMisses:
    """A tool that was wanted and not selected."""

    tool: str
    category: str | None
    missed: int
    """Runs."""
    served: int
    """Runs that called it and had it selected."""
    requests: tuple[Missed, ...]
    hints: tuple[Hint, ...]
    """The most telling first."""
    known: bool = True
    """The catalog has it; otherwise there is nothing to add hints to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misses:
    """Misses of a log of runs."""

    runs: int
    with_calls: int
    tools: tuple[ToolMisses, ...]
    """The most missed first."""
    unmet: tuple[Missed, ...]
    """Looked for, and nothing was called that had not been selected."""

    def patch(self) -> dict[str, tuple[str, ...]]:
        """Hints to add, by tool."""
        return {each.tool: tuple(hint.word for hint in each.hints) for each in self.tools if each.known and each.hints}


def misses_of(runs: Sequence[RecordedRun], catalog: Catalog, *, support: int = 2) -> Misses:
    """`support`: requests that a hint must stand in, at least."""
    selecting_runs = [run for run in runs if not whole(run)]
    missed: dict[str, list[Missed]] = defaultdict(list)
    unmet: list[Missed] = []
    for run in selecting_runs:
        for name in run.missed:
            missed[name].append(_missed(run, name))
        if not run.missed:
            unmet.extend(
                Missed(
                    run_id=run.run_id, message=run.message, asked=_words(sought.words, sought.categories), by=sought.by
                )
                for sought in run.sought
            )
    served = Counter(name for run in selecting_runs for name in set(run.used) & set(run.selected))
    finder = _Hints(selecting_runs, catalog)
    tools = [
        ToolMisses(
            tool=name,
            category=tool.category if (tool := catalog.get(name)) is not None else None,
            missed=len(requests),
            served=served[name],
            requests=tuple(requests),
            hints=finder.of(name, requests, support) if tool is not None else (),
            known=tool is not None,
        )
        for name, requests in missed.items()
    ]
    return Misses(
        runs=len(selecting_runs),
        with_calls=sum(bool(run.used) for run in selecting_runs),
        tools=tuple(sorted(tools, key=lambda each: (-each.missed, each.tool))),
        unmet=tuple(unmet),
    )


def patched(catalog: Catalog, patch: Mapping[str, Sequence[str]]) -> Catalog:
    """The catalog with these hints beside those its tools have; a tool it does not have is passed over."""
    tools = [
        replace(tool, hints=tuple(dict.fromkeys((*tool.hints, *patch[tool.name])))) if tool.name in patch else tool
        for tool in catalog
    ]
    return Catalog.of(tools, catalog.categories, check_schemas=False)


def _missed(run: RecordedRun, name: str) -> Missed:
    """With the search that brought the tool; else the last one, since `execute_tool` follows what was found."""
    by = next((sought for sought in run.sought if name in sought.added), run.sought[-1] if run.sought else None)
    if by is None:
        return Missed(run_id=run.run_id, message=run.message, by="called")
    return Missed(run_id=run.run_id, message=run.message, asked=_words(by.words, by.categories), by=by.by)


def _words(words: str, categories: Iterable[str]) -> str:
    return words or ", ".join(categories)


class _Hints:
    """Words of requests, counted once, by stem."""

    def __init__(self, runs: Iterable[RecordedRun], catalog: Catalog) -> None:
        self._catalog = catalog
        self._languages = catalog_languages(catalog)
        self._stems: dict[str, dict[str, str]] = {}
        """Of each request: stem -> the word as it was written."""
        for run in runs:
            searches = [sought.words for sought in run.sought]
            self._stems[run.run_id] = self._read("\n".join((run.message, *searches)))
        self._said = Counter(stem for stems in self._stems.values() for stem in stems)

    def of(self, name: str, requests: Sequence[Missed], support: int) -> tuple[Hint, ...]:
        tool = self._catalog.get(name)
        assert tool is not None
        held = self._document_stems([word for words in document(tool, self._catalog).values() for word in words])
        mine = [self._stems[request.run_id] for request in requests]
        counts = Counter(stem for stems in mine for stem in stems)
        least = max(support, math.ceil(SHARE * len(mine)))
        others = max(1, len(self._stems) - len(mine))
        scored: list[tuple[float, str, Hint]] = []
        for stem, count in counts.items():
            elsewhere = self._said[stem] - count
            if count < least or stem in held or elsewhere / others > RARE:
                continue
            words = Counter(stems[stem] for stems in mine if stem in stems)
            word = min(words, key=lambda each: (-words[each], each))
            if len(word) < _SHORTEST and not is_pair(word):
                continue
            rarity = math.log((1 + len(self._stems)) / (1 + elsewhere))
            scored.append((count / len(mine) * rarity, word, Hint(word=word, requests=count, elsewhere=elsewhere)))
        scored.sort(key=lambda each: (-each[0], each[1]))
        return tuple(hint for _, _, hint in scored[:MOST_HINTS])

    def _read(self, text: str) -> dict[str, str]:
        words = list(dict.fromkeys(word for word in content_words(text, self._usual) if not word.isdecimal()))
        return {stems[0]: word for word, stems in zip(words, stems_of(words, self._languages), strict=True)}

    def _document_stems(self, words: Sequence[str]) -> frozenset[str]:
        return frozenset(stem for stems in stems_of(words, self._languages) for stem in stems)

    @property
    def _usual(self) -> Language:
        return self._languages[0]
