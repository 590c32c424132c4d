"""What a model family and its API can do and what they cost, as data: `capabilities.toml`, under what an operator overrides.

    capabilities_of("anthropic:claude-opus-5-5").prices
    capabilities_of("openai:gpt-5-mini", [capabilities_from({"pattern": "gpt-5*", "tool_cap": 64}), *CAPABILITIES])

A row says something of a few fields. Of all rows that fit a model, the first that says something of a field counts; so what is
common to a vendor stands once, below what is special about a model. A row may be limited to one wire; and whatever the rows say
of a means that the wire in front of the model has no words for (`wires`) does not count.
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
from msgspec import UNSET, Meta, Struct, UnsetType

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.vocabulary import VOCABULARY, Deferral, Mask, WireName, wire_named
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names

Tools = Literal["native", "text", "none"]
Choice = Literal["honoured", "ignored", "refused"]
JsonSchema = Literal["no", "alone", "with_tools"]
CacheKind = Literal["none", "automatic", "breakpoints"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars per million tokens. Where reading or writing the prompt cache has no price of its own, it is `input`."""

    input: float
    cached: float
    written: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """How a provider keeps the beginning of a prompt."""

    kind: CacheKind = "none"
    """`automatic`: whatever was sent may be found again; `breakpoints`: only up to where the request says so."""
    minimum: int = 0
    """Tokens below which nothing is kept."""
    lifetime: float = 0.0
    """Seconds since the last use after which to count on nothing."""
    step: int = 1
    """What is found is rounded down to so many tokens."""
    choice_breaks: bool = False
    """Another `tool_choice` than before costs what was kept of the messages, not of tools and system."""


ASSUMED_CACHE = CacheRule(kind="automatic", minimum=1024, lifetime=86_400.0)
"""Of models that no row speaks of. Most servers keep a prefix. Where one does not, a tool array that only grows costs little;
where one does, an array that changes re-bills the whole conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """A row, or all that is known of one model. The defaults are for models nobody has heard of."""

    pattern: str = "*"
    """A shell pattern over `provider:model`; without a colon, over the model whatever the provider, also behind the name of its
    vendor (`openai/gpt-5-mini`)."""
    wire: WireName | None = None
    """Of a row: the only wire it speaks of; None: any."""
    tools: Tools = "native"
    """`text`: the provider puts tools into words and reads calls out of them; `none`: it is not to be sent any."""
    tool_cap: int | None = 128
    """Tool definitions accepted in one request; None: no limit known."""
    required: Choice = "honoured"
    """The choice `required`: some call. `ignored`: accepted, and without effect; `refused`: an error."""
    named: Choice = "honoured"
    """A choice that names one tool."""
    thinks: bool = False
    """Thinking is on where a request does not say."""
    forced_with_thinking: bool = True
    """`required` and `named` hold while the model thinks; False: an error then."""
    forced_params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What a forced request must say besides, as this API words it (that the model shall not think)."""
    json_schema: JsonSchema = "alone"
    """An answer held to a JSON schema: not known, in requests without tools, or beside tools too."""
    parallel_calls: bool = True
    mask: Mask = ""
    """How a request says which of its tools may be called, its tool array staying as it is."""
    deferral: Deferral = ""
    """How tools join behind the cached prefix: by reference to what the array holds back, or by items among the messages."""
    cache_key: bool = False
    """A key that routes the requests of one conversation to one cache is understood."""
    cache: CacheRule = ASSUMED_CACHE
    prices: Prices | None = None
    """None: unknown."""
    says: frozenset[str] | None = None
    """Of a row: the fields it speaks of; None: all."""


_LONG_MODEL = 200
"""Longer names are not remembered: clients may send any."""


@lru_cache(maxsize=1)
def _shipped() -> tuple[Capabilities, ...]:
    text = files(__package__).joinpath("capabilities.toml").read_text(encoding="utf-8")
    return tuple(map(capabilities_from, tomllib.loads(text)["capabilities"]))


class _Shipped(Sequence[Capabilities]):
    """The rows of the file that ships, read when somebody first looks."""

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
    """Returns all that `table` says of `model`, which is `provider:model` or a model alone; of the rest, the careful defaults.

    `wire`: the one the provider speaks; None: as its name says. `pattern` is that of the first row that fits, and empty where
    none does. What was asked of a tuple is remembered; a list is looked through each time.
    """
    if wire is None and ":" in model:
        wire = wire_named(model.partition(":")[0])
    if len(model) <= _LONG_MODEL and not isinstance(table, list):
        return _remembered(model, wire, _Same(table))
    return _laid_over(model, wire, table)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A table as a key: itself, whatever it holds. Tables that cannot change only."""

    rows: Sequence[Capabilities]

    def __hash__(self) -> int:
        return id(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.rows is self.rows


@lru_cache(maxsize=1_024)
def _remembered(model: str, wire: WireName | None, table: _Same) -> Capabilities:
    """Every request asks, and a hundred patterns take a tenth of a millisecond."""
    return _laid_over(model, wire, table.rows)


def _laid_over(model: str, wire: WireName | None, table: Sequence[Capabilities]) -> Capabilities:
    names = _names(model)
    matching = [row for row in table if row.wire in (None, wire) and _fits(row.pattern, model, names)]
    known: dict[str, Any] = {"pattern": matching[0].pattern if matching else ""}
    for row in matching:
        for name in _FIELDS if row.says is None else row.says:
            known.setdefault(name, getattr(row, name))
    whole = Capabilities(**known)
    return whole if wire is None else _sayable(whole, wire)


def _sayable(known: Capabilities, wire: WireName) -> Capabilities:
    """Returns `known` without the means that the wire has no words for. A cache that keeps only what a request marks is, behind
    a wire without marks, somebody else's to mark."""
    words = VOCABULARY[wire]
    unmarked = known.cache.kind == "breakpoints" and not words.breakpoints
    return replace(
        known,
        mask=known.mask if known.mask in words.masks else "",
        deferral=known.deferral if known.deferral in words.deferrals else "",
        cache_key=known.cache_key and words.cache_key,
        cache=ASSUMED_CACHE if unmarked else known.cache,
    )


def capabilities_from(mapping: Any) -> Capabilities:
    """A row from plain data: a pattern and any of the fields. Raises `ConfigError` naming the key."""
    try:
        row = msgspec.convert(mapping, CapabilityRow)
    except msgspec.ValidationError as error:
        named = mapping.get("pattern") if isinstance(mapping, Mapping) else None
        of = f" of {named!r}" if isinstance(named, str) else ""
        raise ConfigError(f"capabilities{of}: {error}{_hint(str(error))}") from error
    return row_of(row)


_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r" - at `\$\.(\w+)(?:\.(\w+))?`\Z")


def _hint(said: str) -> str:
    """What may stand there instead: names of fields, or the words of one."""
    at = _AT.search(said)
    outer, inner = (at[1], at[2]) if at else ("", None)
    nested: dict[str, type[Struct]] = {"prices": PricesRow, "cache": CacheRow}
    kind = nested.get(outer, CapabilityRow)
    known = {item.name: item.type for item in msgspec.structs.fields(kind)}
    if unknown := _UNKNOWN.search(said):
        close = close_names(unknown[1], known, limit=1)
        return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"
    name = inner or outer
    if "enum value" not in said or name not in known:
        return ""
    words = [
        word for arm in (known[name], *get_args(known[name])) if get_origin(arm) is Literal for word in get_args(arm)
    ]
    return f"; write one of {', '.join(map(repr, words))}"


def row_of(row: CapabilityRow) -> Capabilities:
    """The row that a table `[[capabilities]]` of the settings describes."""
    given = {name: value for name in _FIELDS if (value := getattr(row, name)) is not UNSET}
    if "tool_cap" in given:
        given["tool_cap"] = None if row.tool_cap == "off" else row.tool_cap
    if isinstance(row.prices, PricesRow):
        given["prices"] = _prices(row.prices)
    if isinstance(row.cache, CacheRow):
        given["cache"] = CacheRule(**msgspec.structs.asdict(row.cache))
    wire = None if row.wire is UNSET else row.wire
    return Capabilities(pattern=row.pattern, wire=wire, says=frozenset(given), **given)


def _prices(row: PricesRow) -> Prices:
    return Prices(
        input=row.input,
        cached=row.input if row.cached is None else row.cached,
        written=row.input if row.written is None else row.written,
        output=row.output,
    )


def _names(model: str) -> tuple[str, ...]:
    """Returns the names a pattern without a provider may match: the model's own, and without its vendor's in front.

    Routers write `anthropic/claude-sonnet-4.5` for what Anthropic calls `claude-sonnet-4-5`.
    """
    own = model.partition(":")[2] if ":" in model else model
    family = own.rpartition("/")[2]
    dashed = family.replace(".", "-") if family.startswith("claude-") else family
    return tuple(dict.fromkeys((model, own, family, dashed)))


def _fits(pattern: str, model: str, names: Sequence[str]) -> bool:
    if ":" in pattern:
        return fnmatchcase(model, pattern)
    return any(fnmatchcase(name, pattern) for name in names)


_FIELDS = tuple(item.name for item in fields(Capabilities) if item.name not in ("pattern", "wire", "says"))

Dollars = Annotated[float, Meta(ge=0)]


class PricesRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `Prices`; what is not given costs as much as `input`."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    written: Dollars | None = None


class CacheRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `CacheRule`."""

    kind: CacheKind
    minimum: Annotated[int, Meta(ge=0)] = 0
    lifetime: Annotated[float, Meta(ge=0)] = 0.0
    step: Annotated[int, Meta(ge=1)] = 1
    choice_breaks: bool = False


class CapabilityRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `Capabilities`: a table `[[capabilities]]`. What it leaves out is as in the rows below it."""

    pattern: Annotated[str, Meta(min_length=1)]
    wire: WireName | UnsetType = UNSET
    tools: Tools | UnsetType = UNSET
    tool_cap: Annotated[int, Meta(ge=1)] | Literal["off"] | UnsetType = UNSET
    """TOML has no word for "no limit"."""
    required: Choice | UnsetType = UNSET
    named: Choice | UnsetType = UNSET
    thinks: bool | UnsetType = UNSET
    forced_with_thinking: bool | UnsetType = UNSET
    forced_params: dict[str, Any] | UnsetType = UNSET
    json_schema: JsonSchema | UnsetType = UNSET
    parallel_calls: bool | UnsetType = UNSET
    mask: Mask | UnsetType = UNSET
    deferral: Deferral | UnsetType = UNSET
    cache_key: bool | UnsetType = UNSET
    cache: CacheRow | UnsetType = UNSET
    prices: PricesRow | UnsetType = UNSET
