"""Adapts a preset to this runtime: to the limits of the model, to the agent's configuration, and to the rankers that can work
here."""

from __future__ import annotations

from toolcaddie import learning
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.meta_names import RUN_PROGRAM
from toolcaddie.core.presets import SIGNALS, Preset
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.runtime.vectors import EMBEDDING
from toolcaddie.util.replacing import replace


def capped(preset: Preset, capabilities: Capabilities) -> Preset:
    """Returns the preset with the largest number of tools that the provider accepts."""
    caps = [cap for cap in (preset.budget.provider_cap, capabilities.tool_cap) if cap is not None]
    return replace(preset, budget=replace(preset.budget, provider_cap=min(caps, default=None)))


def configured(preset: Preset, config: ToolConfig | None) -> Preset:
    """Returns the preset with the settings of an agent's configuration: whether a tool must be called, the attempts to force a
    call, and the retries and the timeout of calls."""
    if config is None:
        return preset
    limits = replace(
        preset.limits,
        forced_attempts=config.attempts,
        tool_retries=preset.limits.tool_retries or config.max_retries,
        tool_seconds_most=preset.limits.tool_seconds_most if config.tool_timeout is None else config.tool_timeout,
    )
    return replace(preset, force=config.force_tool_use, on_not_called=config.on_tool_not_called, limits=limits)


def with_signals(preset: Preset, *, has_embedder: bool, learns: bool) -> Preset:
    """Returns the preset with the rankers that can work here: by meaning only with an embedder, by experience only with a memory.
    Raises `ConfigError` if the preset names the ranker `embedding` and there is no embedder."""
    rankers = preset.selection.rankers
    if has_embedder and rankers == SIGNALS["plain"]:
        rankers = SIGNALS["embedding"]
    if not has_embedder and EMBEDDING in rankers:
        raise ConfigError("selection.rankers has 'embedding', but there is no embedder; set embedding.embedder")
    if learns and set(rankers) - {"categories", learning.NAME}:
        rankers = (*(name for name in rankers if name != learning.NAME), learning.NAME)
    return replace(preset, selection=replace(preset.selection, rankers=rankers))


def with_programs(preset: Preset, *, capable: bool, available: bool) -> Preset:
    """Returns the preset with the meta tool for programs, if there is an interpreter (`available`), the preset allows programs
    and every model that may answer can write them (`capable`). A model that cannot never gets that tool, whatever the preset
    says. Raises `ConfigError` if the preset names that meta tool and there is no interpreter."""
    if not available:
        if RUN_PROGRAM in preset.meta:
            raise ConfigError(
                f"preset.meta has {RUN_PROGRAM!r}, but there is no interpreter; add the table [interpreter]"
            )
        return replace(preset, programs="never")
    if not capable:
        return replace(preset, programs="never", meta=tuple(name for name in preset.meta if name != RUN_PROGRAM))
    if preset.programs == "never" or RUN_PROGRAM in preset.meta:
        return preset
    return replace(preset, meta=(*preset.meta, RUN_PROGRAM))


def limited(preset: Preset, max_tools: int) -> Preset:
    """Returns the preset with another largest number of tools to select."""
    return replace(preset, budget=replace(preset.budget, max_tools=max_tools))
