"""Misses: tools that selection omitted although a run needed them, with the words that would have found them.

A run missed a tool if it called the tool although it had not been selected: the model searched for it (`request_more_tools`,
`search_tools`), ran it by name, or remembered it. Searches that led to no call are listed apart: no tool can be blamed for them.

A suggested hint is a word that the requests which missed the tool have in common, that is rare in other requests, and that is
not yet in the tool's own texts: its document frequency among the tool's requests times the inverse of that among all requests
(Sparck Jones 1972), each request counted once.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.evaluation.recorded import RecordedRun
from toolcaddie.evaluation.usage import selects_nothing
from toolcaddie.selection.index.document import catalog_languages, document
from toolcaddie.selection.query import content_words, is_pair, stems_of
from toolcaddie.selection.stopwords import Language
from toolcaddie.util.replacing import replace

MOST_HINTS = 5

SHARE = 0.2
"""Least share of the requests that missed a tool which must contain a hint."""

RARE = 0.34
"""Largest share of all other requests that may contain a hint; a more frequent word does not distinguish a tool."""

_SHORTEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A request that needed a tool which was not selected."""

    run_id: str
    message: str
    asked: str = ""
    """The model's search query."""
    by: str
    """The meta tool that found it, or `called` if the model did not search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A word to add to a tool's hints."""

    word: str
    requests: int
    """Number of requests with the word among those that missed the tool."""
    elsewhere: int
    """Number of all other requests with the word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMisses:
    """A tool that was needed and not selected."""

    tool: str
    category: str | None
    missed: int
    """Runs that called it without having it selected."""
    served: int
    """Runs that called it and had it selected."""
    requests: tuple[Missed, ...]
    hints: tuple[Hint, ...]
    """Hints, the most distinctive first."""
    known: bool = True
    """False if the catalog does not have the tool, so that hints cannot be added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misses:
    """Misses of a log of runs."""

    runs: int
    with_calls: int
    tools: tuple[ToolMisses, ...]
    """Tools, the most missed first."""
    unmet: tuple[Missed, ...]
    """Searches after which only selected tools were called."""

    def patch(self) -> dict[str, tuple[str, ...]]:
        """Returns the hints to add, by tool."""
        return {tool.tool: tuple(hint.word for hint in tool.hints) for tool in self.tools if tool.known and tool.hints}


def misses_of(runs: Sequence[RecordedRun], catalog: Catalog, *, support: int = 2) -> Misses:
    """Returns the misses of the runs. `support`: least number of requests that contain a hint."""
    selecting_runs = [run for run in runs if not selects_nothing(run)]
    missed: dict[str, list[Missed]] = defaultdict(list)
    unmet: list[Missed] = []
    for run in selecting_runs:
        for name in run.missed:
            missed[name].append(_miss(run, name))
        if not run.missed:
            unmet.extend(
                Missed(
                    run_id=run.run_id, message=run.message, asked=_words(search.words, search.categories), by=search.by
                )
                for search in run.sought
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
            hints=finder.hints_for(name, requests, support) if tool is not None else (),
            known=tool is not None,
        )
        for name, requests in missed.items()
    ]
    return Misses(
        runs=len(selecting_runs),
        with_calls=sum(bool(run.used) for run in selecting_runs),
        tools=tuple(sorted(tools, key=lambda tool_misses: (-tool_misses.missed, tool_misses.tool))),
        unmet=tuple(unmet),
    )


def patched(catalog: Catalog, patch: Mapping[str, Sequence[str]]) -> Catalog:
    """Returns the catalog with these hints added to its tools; names that it does not have are ignored."""
    tools = [
        replace(tool, hints=tuple(dict.fromkeys((*tool.hints, *patch[tool.name])))) if tool.name in patch else tool
        for tool in catalog
    ]
    return Catalog.of(tools, catalog.categories, check_schemas=False)


def _miss(run: RecordedRun, name: str) -> Missed:
    """Returns the miss with the search that found the tool, else with the last search: `execute_tool` may have followed it."""
    search = next((search for search in run.sought if name in search.added), run.sought[-1] if run.sought else None)
    if search is None:
        return Missed(run_id=run.run_id, message=run.message, by="called")
    return Missed(run_id=run.run_id, message=run.message, asked=_words(search.words, search.categories), by=search.by)


def _words(words: str, categories: Iterable[str]) -> str:
    return words or ", ".join(categories)


class _Hints:
    """Words of requests by stem, each counted once per request."""

    def __init__(self, runs: Iterable[RecordedRun], catalog: Catalog) -> None:
        self._catalog = catalog
        self._languages = catalog_languages(catalog)
        self._stems: dict[str, dict[str, str]] = {}
        """Words of each run as they were written, by stem."""
        for run in runs:
            searches = [search.words for search in run.sought]
            self._stems[run.run_id] = self._words_by_stem("\n".join((run.message, *searches)))
        self._requests_with = Counter(stem for stems in self._stems.values() for stem in stems)

    def hints_for(self, name: str, requests: Sequence[Missed], support: int) -> tuple[Hint, ...]:
        tool = self._catalog.get(name)
        assert tool is not None
        own_stems = self._document_stems([word for words in document(tool, self._catalog).values() for word in words])
        stems_of_requests = [self._stems[request.run_id] for request in requests]
        counts = Counter(stem for stems in stems_of_requests for stem in stems)
        least = max(support, math.ceil(SHARE * len(stems_of_requests)))
        others = max(1, len(self._stems) - len(stems_of_requests))
        scored: list[tuple[float, str, Hint]] = []
        for stem, count in counts.items():
            elsewhere = self._requests_with[stem] - count
            if count < least or stem in own_stems or elsewhere / others > RARE:
                continue
            words = Counter(stems[stem] for stems in stems_of_requests if stem in stems)
            word = min(words, key=lambda each: (-words[each], each))
            if len(word) < _SHORTEST and not is_pair(word):
                continue
            rarity = math.log((1 + len(self._stems)) / (1 + elsewhere))
            scored.append(
                (count / len(stems_of_requests) * rarity, word, Hint(word=word, requests=count, elsewhere=elsewhere))
            )
        scored.sort(key=lambda each: (-each[0], each[1]))
        return tuple(hint for _, _, hint in scored[:MOST_HINTS])

    def _words_by_stem(self, text: str) -> dict[str, str]:
        words = list(dict.fromkeys(word for word in content_words(text, self._usual) if not word.isdecimal()))
        return {stems[0]: word for word, stems in zip(words, stems_of(words, self._languages), strict=True)}

    def _document_stems(self, words: Sequence[str]) -> frozenset[str]:
        return frozenset(stem for stems in stems_of(words, self._languages) for stem in stems)

    @property
    def _usual(self) -> Language:
        return self._languages[0]
