"""Misses in recorded runs, for `eval misses`: tools that selection omitted although the run called them, and hints that find
them.

A run missed a tool if it called the tool although selection had omitted it: the model searched for it (`request_more_tools`,
`search_tools`), ran it by name, or remembered it. Searches that led to no such call are listed separately.

A hint is a word that is added to a tool, so that selection finds the tool by it. Suggested hints are frequent in the requests
that missed the tool, rare in other requests, and absent from the tool's own texts. They are ordered by document frequency among
the former times inverse document frequency among all requests (Sparck Jones 1972).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.recorded import RecordedRun
from toolcaddie.evaluation.usage import selects_nothing
from toolcaddie.selection.index.document import catalog_languages, document
from toolcaddie.selection.query import content_words, is_pair, stems_of
from toolcaddie.selection.stopwords import Language
from toolcaddie.util.replacing import replace

MOST_HINTS = 5
"""Largest number of hints suggested for a tool."""

SHARE = 0.2
"""Smallest share of the requests that missed a tool in which a hint must occur."""

RARE = 0.34
"""Largest share of the other requests in which a hint may occur; a more frequent word does not distinguish the tool."""

_SHORTEST = 3
"""Smallest number of characters of a hint. Pairs of Chinese or Japanese characters are hints too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A request that needed a tool which was not selected."""

    run_id: str
    message: str
    asked: str = ""
    """The model's search query; empty if it did not search."""
    by: str
    """The meta tool that the model searched with; `called` if it did not search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A word to add to a tool's hints."""

    word: str
    requests: int
    """Number of the requests that missed the tool and contain the word."""
    elsewhere: int
    """Number of the other requests that contain the word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMisses:
    """A tool that some runs called although selection had omitted it."""

    tool: str
    category: str | None
    missed: int
    """Number of runs that called it without having selected it."""
    served: int
    """Number of runs that selected it and called it."""
    requests: tuple[Missed, ...]
    """The requests of the runs that missed it."""
    hints: tuple[Hint, ...]
    """Hints, the most distinctive first."""
    known: bool = True
    """False if the catalog does not have the tool, so that hints cannot be added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misses:
    """The misses of all runs that were read, except runs whose preset selects nothing."""

    runs: int
    with_calls: int
    """Number of runs that called a tool."""
    tools: tuple[ToolMisses, ...]
    """Tools, the most missed first."""
    unmet: tuple[Missed, ...]
    """Searches of runs that missed no tool: the model searched, and then called only selected tools or none."""

    def patch(self) -> dict[str, tuple[str, ...]]:
        """Returns the hints to add, by tool."""
        return {tool.tool: tuple(hint.word for hint in tool.hints) for tool in self.tools if tool.known and tool.hints}


def misses_of(runs: Sequence[RecordedRun], catalog: Catalog, *, support: int = 2) -> Misses:
    """Returns the misses of the runs. `support`: the smallest number of requests that must contain a hint."""
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
    """Returns the catalog with these hints added to its tools. `patch`: hints by the tool's name; unknown names are ignored."""
    tools = [
        replace(tool, hints=tuple(dict.fromkeys((*tool.hints, *patch[tool.name])))) if tool.name in patch else tool
        for tool in catalog
    ]
    return Catalog.of(tools, catalog.categories, check_schemas=False)


def new_words(text: str, tool: Tool, catalog: Catalog) -> tuple[str, ...]:
    """Returns the words of a text that the tool's own texts lack, which may be hints for it."""
    languages = catalog_languages(catalog)
    words = [word for word in dict.fromkeys(content_words(text, languages[0])) if _may_hint(word)]
    own_stems = _own_stems(tool, catalog, languages)
    new = [word for word, stems in zip(words, stems_of(words, languages), strict=True) if own_stems.isdisjoint(stems)]
    return tuple(new[:MOST_HINTS])


def _may_hint(word: str) -> bool:
    return not word.isdecimal() and (len(word) >= _SHORTEST or is_pair(word))


def _own_stems(tool: Tool, catalog: Catalog, languages: Sequence[Language]) -> frozenset[str]:
    """Returns the stems of a tool's own texts."""
    words = [word for field in document(tool, catalog).values() for word in field]
    return frozenset(stem for stems in stems_of(words, languages) for stem in stems)


def _miss(run: RecordedRun, name: str) -> Missed:
    """Returns the miss of one tool, with the search that found it. If no search added the tool, the last search counts, because
    the model may have read its result and run the tool by name."""
    search = next((search for search in run.sought if name in search.added), run.sought[-1] if run.sought else None)
    if search is None:
        return Missed(run_id=run.run_id, message=run.message, by="called")
    return Missed(run_id=run.run_id, message=run.message, asked=_words(search.words, search.categories), by=search.by)


def _words(words: str, categories: Iterable[str]) -> str:
    return words or ", ".join(categories)


class _Hints:
    """Finds hints. It counts in how many requests each stem occurs; searches of the model count as part of its run's request."""

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
        """Returns the hints for a tool from the requests that missed it, the most distinctive first. `support`: the smallest
        number of requests that must contain a hint."""
        tool = self._catalog.get(name)
        assert tool is not None
        own_stems = _own_stems(tool, self._catalog, self._languages)
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
            if not _may_hint(word):
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

    @property
    def _usual(self) -> Language:
        return self._languages[0]
