"""A preset as it works in this runtime: under the model's cap, the agent's configuration, and the signals that are there."""

from __future__ import annotations

from toolcaddie import learning
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import SIGNALS, Preset
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.runtime.vectors import EMBEDDING
from toolcaddie.util.replacing import replace


def capped(preset: Preset, capabilities: Capabilities) -> Preset:
    """Returns the preset under the provider's own cap."""
    caps = [cap for cap in (preset.budget.provider_cap, capabilities.tool_cap) if cap is not None]
    return replace(preset, budget=replace(preset.budget, provider_cap=min(caps, default=None)))


def configured(preset: Preset, config: ToolConfig | None) -> Preset:
    """Returns the preset of an agent: whether tools must be used is its configuration's to say, and what a tool may take."""
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
    """Returns the preset with the rankers that read what this runtime has. Raises `ConfigError` for vectors
    without an embedder."""
    rankers = preset.selection.rankers
    if has_embedder and rankers == SIGNALS["plain"]:
        rankers = SIGNALS["embedding"]
    if not has_embedder and EMBEDDING in rankers:
        raise ConfigError("selection.rankers has 'embedding', but there is no embedder; set embedding.embedder")
    if learns and set(rankers) - {"categories", learning.NAME}:
        rankers = (*(name for name in rankers if name != learning.NAME), learning.NAME)
    return replace(preset, selection=replace(preset.selection, rankers=rankers))


def limited(preset: Preset, max_tools: int) -> Preset:
    """Returns the preset with another number of tools to select."""
    return replace(preset, budget=replace(preset.budget, max_tools=max_tools))
