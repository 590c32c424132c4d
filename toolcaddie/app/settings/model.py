"""The settings of an operator, as values. Every table of `toolcaddie.toml` is a class here or in the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from toolcaddie.app.settings.console import ConsoleSettings
from toolcaddie.app.settings.jobs import JobSettings
from toolcaddie.app.settings.telemetry import TelemetrySettings
from toolcaddie.app.settings.tenants import TenantSettings
from toolcaddie.app.settings.traffic import TrafficSettings
from toolcaddie.control.bots import Bot, Role
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.breakers import BreakerSettings
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.key_limits import KeyLimits
from toolcaddie.core.learning import LearningSettings
from toolcaddie.core.numbers import Count, Seconds
from toolcaddie.core.presets import CacheMode, DeliveryMode, ProgramMode
from toolcaddie.core.programs import ProgramLimits
from toolcaddie.parts import Variable

DEFAULT_DATABASE = "sqlite:///toolcaddie-data/toolcaddie.sqlite"
"""Relative to the current folder of the process."""

Age = Annotated[
    str, Meta(pattern=r"^(off|[1-9][0-9]{0,5}[mhdw])\Z", description='such as "12h", "90d" or "8w", or "off"')
]
"""A length of time, or "off"."""

Duration = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,4}[mhdw]\Z", description='such as "12h", "30d" or "8w"')]
"""A length of time, which cannot be "off"."""

Person = Annotated[
    str,
    Meta(
        pattern=r"^(?!role:(\s|\Z))\S(.*\S)?\Z",
        description='without blanks around it: an id such as "ann", or a role such as "role:manager"',
    ),
]
"""A person or a role in a list of people."""

HttpUrl = Annotated[str, Meta(pattern=r"^https?://[^\s/]+")]


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address at which the gateway listens."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8321
    """0: any free port."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processes that serve requests behind the one port."""
    follow: bool = False
    """True: sources, policy and limits of keys are those that `toolcaddie settings push` shared through the database."""
    drain: Annotated[float, Meta(ge=0, le=3_600)] = 0
    """Seconds after SIGTERM in which the server still takes requests, and `/readyz` says that it is about to stop, so that a load
    balancer sends no more."""


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address and key of the model. The key itself is never written into a file:
    `key_env` names the variable that holds it."""

    provider: str | None = None
    """The name of an installed provider. None: the provider named in `model`, or openai."""
    url: HttpUrl | None = None
    """None: the provider's own address."""
    key_env: Variable | None = None
    """None: the provider's own variable."""
    attempts: Annotated[int, Meta(ge=1, le=20)] | None = None
    """The largest number of requests for one answer, including the first. None: 3, or 1 if the client repeats requests itself."""


class FallbackSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table `[[fallback]]`: a model that is asked if those before it fail."""

    model: Annotated[str, Meta(min_length=1)]
    """`provider:model`."""
    url: HttpUrl | None = None
    """None: the provider's own address."""
    key_env: Variable | None = None
    """None: the provider's own variable, or no key if `url` is set: a key is sent only to the address it belongs to."""


class MCPSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The MCP server door: the tools of the catalogs for MCP clients, at `path` of `serve` and with `toolcaddie mcp serve`."""

    enabled: bool = True
    """False: `serve` has no MCP door."""
    path: Annotated[str, Meta(pattern=r"^/[A-Za-z0-9_./-]*[A-Za-z0-9_-]\Z")] = "/mcp"
    mode: Literal["compact", "selected", "all"] = "compact"
    """The tools that a client sees: six tools behind which the whole catalog stands, the tools that fit its task, or all."""
    five: bool = False
    """True: mode `compact` shows the five meta tools of the preset `compact` instead of its six tools."""
    max_tools: Annotated[int, Meta(ge=1)] = 20
    """The largest number of tools that mode `selected` shows, without core tools."""
    task: str = ""
    """The task by which mode `selected` selects before the first search, for clients that declare none."""
    sessions: bool | None = None
    """False: clients of the older protocol get no session either. Then any replica may answer any request, but tools cannot ask
    such clients anything. None: False with several workers, else True."""
    tainted_for: Duration = "8h"
    """The time for which the result of an untrusted tool counts for later calls of clients without a session, and for new
    sessions of the same principal."""
    approve: Literal["inbox", "client"] = "inbox"
    """The people who are asked about a call that must be approved. `inbox`: the approvers. `client`: the person at the MCP
    client, if the client can ask one and the policy lets that person approve; otherwise the inbox."""
    origins: tuple[str, ...] = ()
    """Origins of web pages (`https://host`) that may use the door with an API key."""
    offers: Annotated[str, Meta(pattern=r"^python:")] | None = None
    """The module with the prompts and resources that clients may read (`python:module`)."""
    state_key_env: Variable | None = None
    """The variable with the secret (32 bytes or more) that seals the state of a call which waits for its client. All replicas
    need the same one. None: each process makes its own."""
    url: HttpUrl | None = None
    """The public address of the door, for its OAuth metadata. None: there is no such metadata."""
    authorization_servers: tuple[HttpUrl, ...] = ()
    """The authorization servers that the metadata names."""
    introspection_url: HttpUrl | None = None
    """The address at which OAuth tokens are checked (RFC 7662). None: only API keys are accepted."""
    client_id: str = ""
    """The id with which this server identifies itself at `introspection_url`."""
    client_secret_env: Variable | None = None
    """The variable with the secret of `client_id`."""
    scopes: tuple[str, ...] = ()
    """Scopes that a token must have."""
    role_claim: str = ""
    """The claim of a token that names the role of its principal; empty: it has no role."""


class Idempotency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stored answers to requests that carry an `idempotency-key`."""

    keep_hours: Annotated[float, Meta(gt=0, le=8_760)] = 24.0
    """Hours for which an answer is stored."""
    answer_bytes: Annotated[int, Meta(ge=0, le=64 * 1024 * 1024)] = 1024 * 1024
    """Size in bytes above which an answer is not stored. Its request is not run again even so."""


class GatewaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gateway's own answers besides runs."""

    aliases: dict[str, str] = {}
    """Names of models by other names that clients may use for them."""
    default_model: str = ""
    """The model of requests that name none; empty: they are refused."""
    pinned: tuple[str, ...] = ()
    """Names of tools that are always sent, of clients or catalogs; a `*` at the end stands for any ending."""
    untrusted_client_tools: tuple[str, ...] = ("*web*", "*fetch*", "*browse*")
    """Names of tools that clients run themselves and whose results may contain what strangers wrote. `*` stands for any
    characters, and case does not matter."""
    passed: tuple[str, ...] = ()
    """Paths below `/v1` that are passed on to the upstream with the server's key, such as `/v1/audio/*`, with
    or without a method before it (`GET /v1/files`)."""
    keep_responses: Age = "30d"
    """The age at which a stored response of the Responses API is removed; "off": responses are not stored."""
    async_hours: Annotated[float, Meta(gt=0, le=8_760)] = 24.0
    """Hours for which the answer to a request with `Prefer: respond-async` is stored."""
    background_responses: Annotated[int, Meta(ge=0)] = 16
    """The largest number of background responses that one principal may have under way in one process."""
    background_total: Annotated[int, Meta(ge=0)] = 128
    """The largest number of background responses under way in one process."""
    metrics: tuple[Person, ...] = ("role:metrics",)
    """The API keys that may read `/metrics`, which names tools that other callers may not see: ids of their principals, and roles
    as `role:NAME`. A server without keys shows it to its own machine."""


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log of the process."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    json: bool = False
    """True: each line of the log is a JSON object."""


class ClassifierSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The classifier, a model or a plugin that names the categories of a request; `selection.classify` says when it is asked. If
    neither `model` nor `type` is set, there is no classifier."""

    type: str | None = None
    """The name of an installed classifier that is used instead of a model."""
    options: dict[str, Any] = {}
    """The settings of that installed classifier."""
    model: str | None = None
    url: HttpUrl | None = None
    """None: the address of the model that answers requests."""
    key_env: Variable | None = None
    """None: the key of `upstream`, which is sent to `upstream.url` only."""
    timeout: Seconds = 10.0
    most: Annotated[int, Meta(ge=1)] = 5
    """The largest number of categories that are taken from an answer."""
    url_category: str = ""
    """The category that is added if the message contains a web address. Empty: no category is added."""
    examples: dict[str, tuple[str, ...]] = {}
    """Categories by example message."""


class EmbeddingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The embedder, which turns texts into vectors so that tools are found by meaning too. Without one, they are found by words
    alone."""

    embedder: str | None = None
    """The name of an installed embedder: e5, minilm, endpoint, fastembed, or an embedder of another package."""
    model: str | None = None
    url: HttpUrl | None = None
    """Address of an endpoint, with `/v1`."""
    key_env: Variable | None = None
    """The variable that holds the endpoint's key; None: it needs none."""
    runtime: Literal["auto", "numpy", "onnx"] | None = None
    """Runtime of minilm."""
    dimensions: Annotated[int, Meta(ge=1, le=16_384)] | None = None
    """Length of a vector, requested from an endpoint; None: the length that its model returns."""
    patience: Seconds = 1.0
    """Seconds that a request waits for its vectors; after that its tools are found by words alone."""
    most_in_memory: Count | None = None
    """The largest number of tools whose vectors each process holds in memory. Those of larger catalogs are in the database, if it
    is a PostgreSQL with the extension `vector`. If this is set, a server does not start without it. None: 30,000, and without the
    extension all are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning(LearningSettings):
    """Search by the tools that were called after similar requests. If it is off, nothing is remembered, and the same request
    always gets the same tools."""

    enabled: bool = False
    from_trail: Count = 5_000
    """The largest number of recorded runs that are learned from at start; 0: none."""
    log: str | None = None
    """A file of labelled requests that are learned from at start."""


class DeliverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Overrides of `presets.Preset.delivery`."""

    mode: DeliveryMode | UnsetType = UNSET


class CacheSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cache of tool results."""

    mode: CacheMode | UnsetType = UNSET
    """Overrides `presets.Preset.cache`."""
    keep: Annotated[str, Meta(min_length=1)] = "memory"
    """The name of an installed cache. `database` is shared by all processes, and its results are still there after a restart."""


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durability of records, and their retention."""

    durable: Literal["intent", "answer"] = "intent"
    """The moments at which a run waits until its events are on the disk. "intent": before a call that may act. "answer": also at
    the end of each answer."""
    keep: Age = "off"
    """The age at which `serve` removes runs that have ended; "off": never."""
    lease: Annotated[float, Meta(gt=0, le=3_600)] = 3.0
    """Seconds without a heartbeat after which a process counts as gone. Another process then marks its open runs as failed or
    resumable."""


class AuditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Protection of the trail, the record of all runs."""

    key_env: Variable | None = None
    """The variable with the key (32 bytes or more) that seals the trail. All processes need the same one. None: the trail is
    sealed without a key, so whoever can write the database can seal changes again."""
    redact_env: tuple[Variable, ...] = ()
    """Variables whose values are removed from all records, in addition to the secrets that other settings name."""


class ClaimSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Claims: sentences of an answer which say that something was done."""

    check: bool = True
    """True: those that no successful call supports are marked. The answer itself never changes."""


ApprovalAnswer = Literal["inbox", "run", "deny"]


class ApprovalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Questions to people about calls."""

    expiry: Duration = "30d"
    """A question without an answer expires after this time."""
    answer: ApprovalAnswer = "inbox"
    """`inbox`: a question waits for a person. `run`, `deny`: every question is answered so at once, and recorded."""
    webhook: str | None = None
    """Address to which the questions of a paused run are posted; None: nobody is told."""
    webhook_secret_env: str | None = None
    """The variable with the secret that signs these requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings(ProgramLimits):
    """Programs of the model, if there is an `interpreter`, and their limits."""

    offer: ProgramMode | None = None
    """Overrides `presets.Preset.programs`."""
    check_types: bool = True
    """True: a program runs only if its calls fit the schemas of the tools."""


class CatalogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The enabled categories of the catalogs, and the number of tools on a page of a list."""

    categories: tuple[str, ...] | None = None
    """Enabled categories; None: all. Tools of other categories are not loaded, listed, searched or run."""
    page_size: Annotated[int, Meta(ge=1, le=500)] | UnsetType = UNSET
    """Overrides `presets.Preset.page_size`."""
    replace_reserved: tuple[str, ...] = ()
    """Reserved names that tools of the catalogs may have nevertheless."""


class PartSettings(Struct, frozen=True, kw_only=True):
    """A replaceable part that the registry makes: a table `[[source]]`, `[[sink]]`, `[policy]` and so on."""

    type: str
    """The name of the factory that makes the part."""
    config: Mapping[str, Any] = {}
    """The keyword parameters of the factory."""
    required: bool | None = None
    """For a source only. False: if it cannot be opened, everything else starts without its tools. None: the source decides; an
    MCP server is not required, any other source is."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. A command applies its options with `replace`, which makes a changed copy."""

    preset: str = "default"
    model: str | None = None
    """`provider:model`, or a model of the configured provider. None: the provider's own choice."""
    catalogs: tuple[str, ...] = ()
    """Sources in the short form of `--catalog`: names, .jsonl files, python:module, openapi:FILE_OR_URL, mcp:URL,
    mcp:COMMAND ARGS."""
    source: tuple[PartSettings, ...] = ()
    """Sources with settings of their own, in addition to `catalogs`."""
    tenants: TenantSettings = TenantSettings()
    """Catalogs of tenants, in addition to `catalogs` and `source`, which all tenants share."""
    sink: tuple[PartSettings, ...] = ()
    """Sinks, which receive the events of runs, in addition to installed sinks that need no settings."""
    middleware: tuple[PartSettings, ...] = ()
    """Middleware around every call; the first is the outermost."""
    meta_tool: tuple[PartSettings, ...] = ()
    """Meta tools in addition to those of the preset."""
    channel: tuple[PartSettings, ...] = ()
    """Channels, through which people talk to bots. Their tables have the keys of `channels.ChannelSettings` too."""
    policy: PartSettings | None = None
    approver: PartSettings | None = None
    approvals: ApprovalSettings = ApprovalSettings()
    interpreter: PartSettings | None = None
    """Runs programs of the model. None: the model writes none."""
    programs: ProgramSettings = ProgramSettings()
    sandbox: PartSettings | None = None
    """Runs commands that nobody trusts. None: the wall, made when a tool asks for it."""
    store: PartSettings | None = None
    """The store of documents: paused runs, conversations, results. None: the database."""
    ranker: Mapping[str, Mapping[str, Any]] = {}
    """Settings of rankers by name; `selection.rankers` says which rankers are used."""
    embedder: Mapping[str, Mapping[str, Any]] = {}
    """Settings of embedders by name, in addition to those of `embedding`."""
    provider: Mapping[str, Mapping[str, Any]] = {}
    """Settings of providers by name; `model`, `upstream` and `fallback` say which providers are used."""
    catalog: CatalogSettings = CatalogSettings()
    database_url: str = DEFAULT_DATABASE
    storage: StorageSettings = StorageSettings()
    audit: AuditSettings = AuditSettings()
    claims: ClaimSettings = ClaimSettings()
    server: Server = Server()
    upstream: Upstream = Upstream()
    idempotency: Idempotency = Idempotency()
    gateway: GatewaySettings = GatewaySettings()
    console: ConsoleSettings = ConsoleSettings()
    key_limits: KeyLimits = KeyLimits()
    """Limits of each API key that has none of its own."""
    mcp: MCPSettings = MCPSettings()
    log: Log = Log()
    telemetry: TelemetrySettings = TelemetrySettings()
    classifier: ClassifierSettings = ClassifierSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    learning: Learning = Learning()
    selection: Mapping[str, Any] = {}
    """Fields of `presets.SelectionSettings` that override the preset."""
    budget: Mapping[str, Any] = {}
    """Fields of `selection.Budget` that override the preset."""
    limits: Mapping[str, Any] = {}
    """Fields of `run.Limits` that override the preset."""
    delivery: DeliverySettings = DeliverySettings()
    cache: CacheSettings = CacheSettings()
    bounds: Bounds = Bounds()
    """Limits of the size of everything that comes from outside."""
    breakers: BreakerSettings = BreakerSettings()
    """Circuit breakers of the upstreams: models, MCP servers and OpenAPI sources."""
    traffic: TrafficSettings = TrafficSettings()
    """Requests at once, and the shares of tenants."""
    fallback: tuple[FallbackSettings, ...] = ()
    """The fallbacks, in the order in which they are asked."""
    tool_config: dict[str, Any] | None = None
    """Input of `ToolConfig.of`, in camelCase or snake_case. None: the model decides whether to call tools."""
    capabilities: tuple[Capabilities, ...] = ()
    """Rows of the table of model capabilities that take precedence over the rows of Toolcaddie."""
    jobs: JobSettings = JobSettings()
    bots: dict[str, Bot] = {}
    roles: dict[str, Role] = {}
    default_bot: str | None = None
    """The bot of requests that name none. None: such requests are refused if there are bots."""
