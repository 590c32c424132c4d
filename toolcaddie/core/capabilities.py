"""Capabilities and prices of model families and their APIs. The shipped data is in `capabilities.toml`; an operator overrides it
with `[[capabilities]]` in the settings.

    capabilities_of("anthropic:claude-opus-5-5").prices
    capabilities_of("openai:gpt-5-mini", [capabilities_from({"pattern": "gpt-5*", "tool_cap": 64}), *CAPABILITIES])

A row sets a few fields. Of all rows that match a model, the first one that sets a field counts, so the common fields of a
vendor are written once, below the rows of its special models. A row may be limited to one wire (the format of an API, such as
chat completions). A mechanism (mask, deferral, ...) that the wire in front of the model cannot express (`vocabulary`) is
dropped.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args, get_origin, overload

import msgspec
from msgspec import Meta, Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Count, Positive
from toolcaddie.core.vocabulary import VOCABULARY, Deferral, Mask, WireName, wire_named
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names
from toolcaddie.util.tables import partial_table, set_values

Tools = Literal["native", "text", "none"]
Choice = Literal["honoured", "ignored", "refused"]
JsonSchema = Literal["no", "alone", "with_tools"]
CacheKind = Literal["none", "automatic", "breakpoints"]
Dollars = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in US dollars per million tokens. `cached` and `written` are the prices of reading and writing the prompt cache; in
    a row of the table they default to `input`."""

    input: Dollars
    cached: Dollars
    written: Dollars
    output: Dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """Rules of a provider's prompt cache."""

    kind: CacheKind = "none"
    """`automatic`: any prefix may be cached; `breakpoints`: only prefixes marked in the request."""
    minimum: Count = 0
    """Tokens below which nothing is cached."""
    lifetime: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds since the last use after which a hit is not expected."""
    step: Positive = 1
    """Hits are rounded down to a multiple of this many tokens."""
    choice_breaks: bool = False
    """A changed `tool_choice` invalidates the cached messages, but not tools and system prompt."""


ASSUMED_CACHE = CacheRule(kind="automatic", minimum=1024, lifetime=86_400.0)
"""Rule for models without a row. It assumes a cache, because most servers cache a prefix. If a server does not, the assumption
costs little: the tool array grows and never shrinks. Without the assumption, a changed array would make a server that caches bill
the whole conversation again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """A row, or the merged rows of one model. The defaults are for unknown models."""

    pattern: Annotated[str, Meta(min_length=1)] = "*"
    """A shell pattern. With a colon it is matched against `provider:model`; without one against the model of any provider, with
    and without the name of its vendor (`openai/gpt-5-mini`)."""
    wire: WireName | None = None
    """Wire to which a row is limited; None: all wires."""
    tools: Tools = "native"
    """`text`: the provider describes tools as text and parses calls from text; `none`: no tools may be sent."""
    tool_cap: Positive | None = 128
    """Tool definitions accepted in one request; None: no known limit."""
    required: Choice = "honoured"
    """Effect of the choice `required` (any call). `ignored`: accepted without effect; `refused`: an error."""
    named: Choice = "honoured"
    """Effect of a choice that names one tool."""
    thinks: bool = False
    """True: thinking is on by default."""
    forced_with_thinking: bool = True
    """True: `required` and `named` work while the model thinks; False: the provider answers with an error."""
    forced_params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Parameters that this API needs in a forced request, for example to switch thinking off."""
    json_schema: JsonSchema = "alone"
    """Support of answers constrained to a JSON schema: none (`no`), only in requests without tools (`alone`), or also beside
    tools."""
    parallel_calls: bool = True
    programs: bool = True
    """False: the model is too weak to write programs that call tools, so it is never offered them."""
    mask: Mask = ""
    """Mechanism by which a request restricts the callable tools without changing its tool array; empty: there is none."""
    deferral: Deferral = ""
    """Mechanism by which tools join after the cached prefix: references to deferred definitions, or items among the messages;
    empty: there is none."""
    cache_key: bool = False
    """True: a request may carry a key that routes all requests of one conversation to the same cache."""
    cache: CacheRule = ASSUMED_CACHE
    prices: Prices | None = None
    """None: unknown."""
    says: frozenset[str] | None = None
    """Names of the fields that this row sets; None: it sets all fields."""


_LONG_MODEL = 200
"""Length in characters above which the result for a model's name is not cached, because a client may send any name."""


@lru_cache(maxsize=1)
def _shipped() -> tuple[Capabilities, ...]:
    text = files(__package__).joinpath("capabilities.toml").read_text(encoding="utf-8")
    return tuple(map(capabilities_from, tomllib.loads(text)["capabilities"]))


class _Shipped(Sequence[Capabilities]):
    """The rows of the shipped file, read on first use."""

    @overload
    def __getitem__(self, index: int) -> Capabilities: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Capabilities]: ...
    def __getitem__(self, index: int | slice) -> Capabilities | Sequence[Capabilities]:
        return _shipped()[index]

    def __len__(self) -> int:
        return len(_shipped())


CAPABILITIES: Sequence[Capabilities] = _Shipped()


def capabilities_of(
    model: str, table: Sequence[Capabilities] = CAPABILITIES, *, wire: WireName | None = None
) -> Capabilities:
    """Returns the capabilities of `model` (`provider:model` or a model alone) by `table`, with defaults for unset fields.

    `wire`: the provider's wire; None: derived from the provider's name. The result's `pattern` is the pattern of the first
    matching row, or empty if no row matches. Results are cached unless `table` is a list, because a list may change.
    """
    if wire is None and ":" in model:
        wire = wire_named(model.partition(":")[0])
    if len(model) <= _LONG_MODEL and not isinstance(table, list):
        return _cached(model, wire, _Same(table))
    return _merged(model, wire, table)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A cache key for an immutable table of rows: two keys are equal if they hold the same object."""

    rows: Sequence[Capabilities]

    def __hash__(self) -> int:
        return id(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.rows is self.rows


@lru_cache(maxsize=1_024)
def _cached(model: str, wire: WireName | None, table: _Same) -> Capabilities:
    """Caches `_merged`: every request needs its result, and matching a hundred patterns takes a tenth of a millisecond."""
    return _merged(model, wire, table.rows)


def _merged(model: str, wire: WireName | None, table: Sequence[Capabilities]) -> Capabilities:
    names = _names(model)
    matching = [row for row in table if row.wire in (None, wire) and _fits(row.pattern, model, names)]
    merged: dict[str, Any] = {"pattern": matching[0].pattern if matching else ""}
    for row in matching:
        for name in _FIELDS if row.says is None else row.says:
            merged.setdefault(name, getattr(row, name))
    capabilities = Capabilities(**merged)
    return capabilities if wire is None else _expressible(capabilities, wire)


def _expressible(capabilities: Capabilities, wire: WireName) -> Capabilities:
    """Returns the capabilities without the mechanisms that the wire cannot express.

    If the wire has no breakpoints, a cache that needs them is treated as automatic: the server in between must set them.
    """
    words = VOCABULARY[wire]
    unmarked = capabilities.cache.kind == "breakpoints" and not words.breakpoints
    return replace(
        capabilities,
        mask=capabilities.mask if capabilities.mask in words.masks else "",
        deferral=capabilities.deferral if capabilities.deferral in words.deferrals else "",
        cache_key=capabilities.cache_key and words.cache_key,
        cache=ASSUMED_CACHE if unmarked else capabilities.cache,
    )


def capabilities_from(mapping: Any) -> Capabilities:
    """Makes a row from plain data: a pattern and any of the fields. Raises `ConfigError` naming the key."""
    try:
        row = msgspec.convert(mapping, row_table())
    except msgspec.ValidationError as error:
        pattern = mapping.get("pattern") if isinstance(mapping, Mapping) else None
        owner = f" of {pattern!r}" if isinstance(pattern, str) else ""
        raise ConfigError(f"capabilities{owner}: {error}{_hint(str(error))}") from error
    return row_of(row)


# Parts of the messages of msgspec's errors, for example "Object contains unknown field `x` - at `$.cache`".
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r" - at `\$\.(\w+)(?:\.(\w+))?`\Z")


def _hint(error: str) -> str:
    """Returns the end of an error message: the names of the existing fields, or the allowed values of the field at fault."""
    at = _AT.search(error)
    outer, inner = (at[1], at[2]) if at else ("", None)
    types = {item.name: item.type for item in msgspec.structs.fields(_INNER_TABLES.get(outer, row_table()))}
    if unknown := _UNKNOWN.search(error):
        close = close_names(unknown[1], types, limit=1)
        return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(types)}"
    name = inner or outer
    if "enum value" not in error or name not in types:
        return ""
    words = [
        word for arm in (types[name], *get_args(types[name])) if get_origin(arm) is Literal for word in get_args(arm)
    ]
    return f"; write one of {', '.join(map(repr, words))}"


@lru_cache(maxsize=1)
def row_table() -> type[Struct]:
    """Returns the type of one `[[capabilities]]` table of the settings: the fields of `Capabilities`, of which only `pattern` is
    required. Omitted fields come from later matching rows."""
    types: dict[str, Any] = {"wire": WireName, **_INNER_TABLES}
    return partial_table(Capabilities, required=("pattern",), without=("says",), types=types)


def row_of(row: Struct) -> Capabilities:
    """Turns a decoded `[[capabilities]]` table into a row. Omitted prices of the cache are the price of `input`."""
    values = set_values(row)
    if "prices" in values:
        prices = set_values(values["prices"])
        values["prices"] = Prices(**{"cached": prices["input"], "written": prices["input"], **prices})
    if "cache" in values:
        values["cache"] = CacheRule(**set_values(values["cache"]))
    return Capabilities(**values, says=frozenset(values) - _NO_CAPABILITIES)


def _names(model: str) -> tuple[str, ...]:
    """Returns the names that a pattern without a provider may match: the model's name with and without the vendor's prefix.

    Routers write `anthropic/claude-sonnet-4.5` for the model that Anthropic calls `claude-sonnet-4-5`.
    """
    name = model.partition(":")[2] if ":" in model else model
    family = name.rpartition("/")[2]
    dashed = family.replace(".", "-") if family.startswith("claude-") else family
    return tuple(dict.fromkeys((model, name, family, dashed)))


def _fits(pattern: str, model: str, names: Sequence[str]) -> bool:
    if ":" in pattern:
        return fnmatchcase(model, pattern)
    return any(fnmatchcase(name, pattern) for name in names)


_NO_CAPABILITIES = frozenset({"pattern", "wire", "says"})
_FIELDS = tuple(item.name for item in fields(Capabilities) if item.name not in _NO_CAPABILITIES)
_INNER_TABLES: Mapping[str, type[Struct]] = {
    "prices": partial_table(Prices, required=("input", "output")),
    "cache": partial_table(CacheRule, required=("kind",)),
}
