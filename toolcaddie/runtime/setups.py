"""Makes the objects that serve requests with one preset and one kind of model: the selector, the engine and the meta tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie import learning
from toolcaddie.control.admission import Gates
from toolcaddie.control.bots import Bots
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.capabilities import Capabilities, Prices, capabilities_of
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.presets import Preset, preset
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.delivery.planner import DeliveryPlanner
from toolcaddie.engine.engine import Engine, Programs
from toolcaddie.meta.registry import MetaTools
from toolcaddie.ports import HeldPages, RankerFactory
from toolcaddie.providers.wrapping import Entry, capabilities_for
from toolcaddie.runtime.executors import Executors
from toolcaddie.runtime.models import ModelSide
from toolcaddie.runtime.offering import Offerings
from toolcaddie.runtime.presets import capped, configured, limited, with_programs, with_signals
from toolcaddie.runtime.vectors import PresetVectors, Vectors
from toolcaddie.selection.index.links import CoUsed
from toolcaddie.selection.selector import Selector
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The objects that serve requests with one preset, adapted to the limits of one kind of model."""

    preset: Preset
    selector: Selector
    planner: DeliveryPlanner
    engine: Engine
    offerings: Offerings
    vectors: PresetVectors


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """A request for which a setup was found: its model, and the table of capabilities at that moment."""

    model: str
    table: Sequence[Capabilities]
    setup: Setup


class Setups:
    """Makes a setup for each pair of preset and model capabilities at its first use, and keeps it."""

    def __init__(
        self,
        *,
        default: Preset,
        model: str,
        models: ModelSide,
        executors: Executors,
        bots: Bots,
        rankers: Mapping[str, RankerFactory],
        co_used: Callable[[Catalog], CoUsed] | None,
        vectors: Vectors | None,
        config: ToolConfig | None,
        held: HeldPages,
        gates: Gates,
        meta_tools: MetaTools,
        bounds: Bounds,
        programs: Programs | None,
        catalogs: int = 0,
    ) -> None:
        """`catalogs`: the number of catalogs that are used at once."""
        self._default_preset = default
        self._model = model
        self._models = models
        self._executors = executors
        self._bots = bots
        self._rankers = rankers
        self._co_used = co_used
        self._vectors = vectors
        self._config = config
        self._held = held
        self._gates = gates
        self._meta_tools = meta_tools
        self._bounds = bounds
        self._programs = programs
        self._catalogs = catalogs
        self._made: dict[tuple[str | None, Capabilities], Setup] = {}
        self._last: dict[str | None, _Last] = {}
        """Preset -> its last request."""
        self.default = self.of(
            RunRequest(messages=())
        )  # a preset that cannot work fails here, not in the first request
        """The setup of requests that name no preset."""

    def of(self, request: RunRequest) -> Setup:
        """Returns the setup of a request. Raises `ConfigError` for a preset that does not exist or cannot work in this
        runtime."""
        model, table = self.model_of(request), self._models.capabilities
        last = self._last.get(request.preset)
        if last is not None and last.model == model and last.table is table:  # as in most requests
            setup = last.setup
        else:
            capabilities = capabilities_for(Entry(provider=self._models.provider, model=model), table)
            key = (request.preset, capabilities)
            if key not in self._made:
                self._made[key] = self._setup(request.preset, capabilities)
            setup = self._made[key]
            if isinstance(table, tuple):  # a list may change
                self._last[request.preset] = _Last(model=model, table=table, setup=setup)
        return setup if request.max_tools is None else self._limited(setup, request.max_tools)

    def forget(self, catalog: Catalog) -> None:
        """Drops the indexes and definitions of a catalog that is no longer used."""
        for setup in self._made.values():
            setup.selector.forget(catalog)
            setup.planner.forget(catalog)

    @property
    def default_model(self) -> str:
        """The model of requests that name none."""
        return self._model

    def prices_of(self, model: str) -> Prices | None:
        """Returns the prices of a model, by the provider's own name or as `provider:model`; None: they are unknown."""
        if ":" in model and not model.startswith(f"{self._models.provider.name}:"):
            known = capabilities_of(model, self._models.capabilities)
            if known.prices is not None:
                return known.prices
        name = model.removeprefix(f"{self._models.provider.name}:")
        entry = Entry(provider=self._models.provider, model=name or self._model)
        return capabilities_for(entry, self._models.capabilities).prices

    def model_of(self, request: RunRequest) -> str:
        """Returns the model of a request by the provider's own name for it: the one that the request names, that of its bot, or
        the default one. Each may be written as `provider:model`."""
        model = request.model or self._bots.model_of(request.principal) or self._model
        return model.removeprefix(f"{self._models.provider.name}:")

    def _setup(self, name: str | None, capabilities: Capabilities) -> Setup:
        """Makes the setup of a preset (None: the default one) for models with these capabilities."""
        effective = self._default_preset if name is None else preset(name)
        effective = configured(capped(effective, capabilities), self._config)
        effective = with_signals(
            effective, has_embedder=self._vectors is not None, learns=learning.NAME in self._rankers
        )
        effective = with_programs(
            effective, capable=self._models.write_programs(capabilities), available=self._programs is not None
        )
        selector = Selector(
            effective.selection,
            self._rankers,
            core=effective.core_first,
            co_used=self._co_used,
            catalogs=self._catalogs,
        )
        vectors = PresetVectors(self._vectors, effective)
        planner = DeliveryPlanner(effective.exposure, mode=effective.delivery)
        engine = Engine(
            provider=self._models.forcing(effective) if effective.force else self._models.plain(),
            selector=selector,
            planner=planner,
            gates=self._gates,
            executor=self._executors.of(effective),
            preset=effective,
            capabilities=capabilities,
            prepare=vectors.prepare,
            held=self._held,
            meta_tools=self._meta_tools,
            bounds=self._bounds,
            programs=self._programs,
        )
        return Setup(
            preset=effective,
            selector=selector,
            planner=planner,
            engine=engine,
            offerings=Offerings(engine, self._bots),
            vectors=vectors,
        )

    def _limited(self, setup: Setup, max_tools: int) -> Setup:
        """Returns the setup for a request with its own largest number of tools. It shares the index of the other setup and is not
        cached, because callers may send any number."""
        effective = limited(setup.preset, max_tools)
        vectors = PresetVectors(self._vectors, effective)
        engine = replace(setup.engine, preset=effective, prepare=vectors.prepare)
        return replace(setup, preset=effective, engine=engine, offerings=Offerings(engine, self._bots), vectors=vectors)
