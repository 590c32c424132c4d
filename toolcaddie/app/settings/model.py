"""What an operator sets, as values. Every table of `toolcaddie.toml` is a class here, or one of the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from toolcaddie.control.bots import Bot, Role
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.learning import LearningSettings
from toolcaddie.core.numbers import Count, Seconds
from toolcaddie.core.presets import CacheMode, DeliveryMode
from toolcaddie.parts import Variable

DEFAULT_DATABASE = "sqlite:///toolcaddie-data/toolcaddie.sqlite"
"""Under the folder the process stands in."""

Age = Annotated[
    str, Meta(pattern=r"^(off|[1-9][0-9]{0,5}[mhdw])\Z", description='such as "12h", "90d" or "8w", or "off"')
]
"""A length of time as people write it."""

HttpUrl = Annotated[str, Meta(pattern=r"^https?://[^\s/]+")]


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

    type: str | None = None
    """A classifier of the registry in place of a model; `options` are its settings."""
    options: dict[str, Any] = {}
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
    """Numbers of a vector, requested of an endpoint; None: as many as its model gives."""
    patience: Seconds = 1.0
    """What a request waits for vectors at most; then words alone find its tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning(LearningSettings):
    """Search by the tools that were called after similar requests. If it is off, nothing is remembered, and the same request
    always gets the same tools."""

    enabled: bool = False
    from_trail: Count = 5_000
    """Recorded runs that are learned from at start; 0: none."""
    log: str | None = None
    """A file of labelled requests that teaches everybody."""


class DeliverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`presets.Preset.delivery`."""

    mode: DeliveryMode | UnsetType = UNSET


class CacheSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results of tools that are given again."""

    mode: CacheMode | UnsetType = UNSET
    """`presets.Preset.cache`."""
    keep: Annotated[str, Meta(min_length=1)] = "memory"
    """A cache of the registry. `database`: what one process found serves all, also after a restart."""


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is on disk when, and for how long."""

    durable: Literal["intent", "answer"] = "intent"
    """What waits for the disk: a call that may act, or also the end of each answer."""
    keep: Age = "off"
    """Runs that ended longer ago are removed by `serve`; off: never."""
    lease: Annotated[float, Meta(gt=0, le=3_600)] = 3.0
    """Seconds without a sign of life after which a process counts as gone and others settle its runs."""


class CatalogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of the catalogs is there, and how it is looked through."""

    categories: tuple[str, ...] | None = None
    """The enabled ones; None: all. Tools of others are not loaded, listed, searched or run."""
    page_size: Annotated[int, Meta(ge=1, le=500)] | UnsetType = UNSET
    """`presets.Preset.page_size`."""
    replace_reserved: tuple[str, ...] = ()
    """Reserved names that the catalogs' own tools may have."""


class PartSettings(Struct, frozen=True, kw_only=True):
    """A part by the name of its factory in the registry: a table `[[source]]`, `[[sink]]`, `[policy]` and so on."""

    type: str
    config: Mapping[str, Any] = {}
    """The keyword parameters of the factory."""
    required: bool = True
    """False, of a source: where it cannot be opened, the rest starts without its tools."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. `replace` makes a changed copy (a command's options)."""

    preset: str = "default"
    model: str | None = None
    """`provider:model`, or a model of the configured provider. None: the provider's own choice."""
    catalogs: tuple[str, ...] = ()
    """Sources in short, as `--catalog` takes them: names, .jsonl files, python:module."""
    source: tuple[PartSettings, ...] = ()
    """Sources with settings of their own, beside `catalogs`."""
    sink: tuple[PartSettings, ...] = ()
    middleware: tuple[PartSettings, ...] = ()
    """Around every call; the first is the outermost."""
    meta_tool: tuple[PartSettings, ...] = ()
    """Offered beside those of the preset."""
    policy: PartSettings | None = None
    approver: PartSettings | None = None
    store: PartSettings | None = None
    """Where documents are kept: paused runs, conversations, results. None: in the database."""
    ranker: Mapping[str, Mapping[str, Any]] = {}
    """Settings of rankers, by the ranker's name; which of them rank says `selection.rankers`."""
    embedder: Mapping[str, Mapping[str, Any]] = {}
    """Settings of embedders beside those of `embedding`, by the embedder's name."""
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
    selection: Mapping[str, Any] = {}
    """Fields of `presets.SelectionSettings` that take the place of the preset's."""
    budget: Mapping[str, Any] = {}
    """Fields of `selection.Budget` that take the place of the preset's."""
    limits: Mapping[str, Any] = {}
    """Fields of `run.Limits` that take the place of the preset's."""
    delivery: DeliverySettings = DeliverySettings()
    cache: CacheSettings = CacheSettings()
    bounds: Bounds = Bounds()
    """How much of what comes from outside is accepted."""
    fallback: tuple[FallbackSettings, ...] = ()
    """The fallbacks, in the order of their requests."""
    tool_config: dict[str, Any] | None = None
    """As `ToolConfig.of` reads it, in either spelling. None: tools are called when the model wants to."""
    capabilities: tuple[Capabilities, ...] = ()
    """Laid over the rows that ship."""
    bots: dict[str, Bot] = {}
    roles: dict[str, Role] = {}
    default_bot: str | None = None
    """The bot of requests that name none. None: they are refused where there are bots."""
