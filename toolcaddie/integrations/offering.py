"""The tools that a framework sends with its next request, computed from the transcript alone. Every integration uses it.

A turn is a message of the transcript, reduced to what selection reads. Because the result depends on nothing else, a transcript
that grows gives a list that grows at its end, which keeps the provider's prompt cache valid, and nothing has to be stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject
from toolcaddie.picker import Picker
from toolcaddie.ports import Embedder
from toolcaddie.util.bounded import Bounded

FIND_TOOLS = "find_tools"
FIND_DESCRIPTION = (
    "Finds more tools. If no tool that you have does what is needed, describe the missing action in a few words, such as "
    "'cancel a shipment'. The tools of the answer can be called from then on."
)
FIND_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "The missing action, in a few words."}},
    "required": ["query"],
    "additionalProperties": False,
}

_PER_SEARCH = 8
"""The largest number of tools that one search adds."""
_MAX_QUERY = 2_000
"""The largest number of characters of a query that are read."""
_PICKERS, _PREFIXES = 8, 4_096
"""The numbers of cached pickers, and of cached beginnings of transcripts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool of the framework, reduced to what selection reads."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the transcript. `calls` are the names of called tools with their arguments, as a dict or as JSON text."""

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()


class Offering:
    """Chooses tools for the transcripts of one agent. Several threads may use it.

    `max_tools`: the number of tools that a message of the user adds at most. `always`: names that are always sent.
    `provider_cap`: the largest number of tools of one request; beyond it, the first tools that
    do not fit the newest message are left out.
    """

    def __init__(
        self,
        *,
        max_tools: int = 12,
        always: Iterable[str] = (),
        provider_cap: int = 128,
        embedder: Embedder | str | None = None,
    ) -> None:
        if isinstance(always, str):
            raise ConfigError(f"always takes names in a list: [{always!r}]")
        for name, number in (("max_tools", max_tools), ("provider_cap", provider_cap)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ConfigError(f"{name} is {number!r}; give a whole number of 1 or more")
        self._always = tuple(dict.fromkeys(always))
        self._room = provider_cap - 1 - len(self._always)
        if self._room < 1:
            raise ConfigError(
                f"always names {len(self._always)} tools, and with {FIND_TOOLS} they fill provider_cap={provider_cap}"
            )
        self._max_tools = max_tools
        self._embedder = embedder
        self._pickers: Bounded[tuple[Entry, ...], Picker] = Bounded(_PICKERS)
        self._prefixes: Bounded[bytes, tuple[str, ...]] = Bounded(_PREFIXES)

    def names(self, entries: Sequence[Entry], turns: Sequence[Turn]) -> tuple[str, ...]:
        """Returns the names of the tools to send: those of `always`, then the selected ones in the order in which they joined.

        Raises `ConfigError` if a name of `always` does not exist, or if a tool is named `find_tools`.
        """
        key = tuple(entries)
        picker = self._picker(key)
        prefix = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).digest()
        sent: tuple[str, ...] = ()
        for position, turn in enumerate(turns):
            prefix = hashlib.sha256(prefix + repr(turn).encode("utf-8", "surrogatepass")).digest()
            known = self._prefixes.get(prefix)
            if known is None:
                known = self._grown(sent, self._fitting(picker, turns[: position + 1]))
                self._prefixes.put(prefix, known)
            sent = known
        return (*self._always, *sent)

    def search(self, entries: Sequence[Entry], query: Any) -> tuple[str, ...]:
        """Returns the names of the tools that fit a query of the model; none if it is not a text."""
        return _search(self._picker(tuple(entries)), query)

    def answer(self, entries: Sequence[Entry], query: Any) -> str:
        """Returns the text that the model receives as the result of `find_tools`."""
        if not isinstance(query, str) or not query.strip():
            return f"{FIND_TOOLS} needs a query: describe the missing action in a few words."
        names = self.search(entries, query)
        if not names:
            return "No tool fits this. Describe the action in other words, or say that it cannot be done."
        described = {entry.name: entry.description for entry in entries}
        lines = [f"- {name}: {described[name][:200]}" for name in names]
        return "\n".join(("You can call these tools now:", *lines))

    def _picker(self, key: tuple[Entry, ...]) -> Picker:
        picker = self._pickers.get(key)
        if picker is None:
            names = {entry.name for entry in key}
            missing = [name for name in self._always if name not in names]
            if missing:
                raise ConfigError(f"always names {missing[0]!r}, which is none of the agent's {len(key)} tools")
            if FIND_TOOLS in names:
                raise ConfigError(
                    f"a tool is named {FIND_TOOLS!r}; rename it, because the integration adds one of that name"
                )
            picker = Picker.of([_definition(entry) for entry in key], embedder=self._embedder)
            self._pickers.put(key, picker)
        return picker

    def _grown(self, sent: tuple[str, ...], fitting: Iterable[str]) -> tuple[str, ...]:
        """Returns the list with the fitting tools at its end. If it is full, the first tools that do not fit now are left out."""
        now = [name for name in fitting if name not in self._always][-self._room :]
        grown = tuple(dict.fromkeys((*sent, *now)))
        leaving = [name for name in grown if name not in now][: max(0, len(grown) - self._room)]
        return tuple(name for name in grown if name not in leaving)

    def _fitting(self, picker: Picker, turns: Sequence[Turn]) -> Sequence[str]:
        """Returns the tools that the last of these turns needs."""
        last = turns[-1]
        if last.role == "user":
            messages = [Message(role=turn.role, content=turn.text) for turn in turns if turn.text]
            return picker.pick(messages, max_tools=self._max_tools).names if last.text else ()
        fitting: list[str] = []
        for name, arguments in last.calls:
            if name == FIND_TOOLS:
                fitting += _search(picker, query_of(arguments))
            elif isinstance(name, str) and picker.catalog.get(name) is not None:
                fitting.append(name)
        return fitting


def query_of(arguments: Any) -> Any:
    """Returns the query of a call of `find_tools`; None if the arguments hold none."""
    if isinstance(arguments, str | bytes):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
    return arguments.get("query") if isinstance(arguments, dict) else None


def missing(error: ModuleNotFoundError, package: str) -> ConfigError:
    """Returns the error for a framework that is not installed. `package`: its name for pip."""
    return ConfigError(
        f"this integration needs the package {package!r}; install it with: pip install {package} ({error})"
    )


def _definition(entry: Entry) -> JsonObject:
    function = {"name": entry.name, "description": entry.description, "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


def _search(picker: Picker, query: Any) -> tuple[str, ...]:
    if not isinstance(query, str) or not query.strip():
        return ()
    picked = picker.pick(query[:_MAX_QUERY], max_tools=_PER_SEARCH)
    return () if picked.selection.no_match else picked.names
