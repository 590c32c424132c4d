"""Logs a warning if the configuration of an agent contradicts the tools, for example if its timeout is shorter than that of a
tool."""

from __future__ import annotations

from toolcaddie.control.results.cache import is_unmarked
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.util.log import Logger

log = Logger(__name__)

_NAMED = 20
"""The largest number of tools that a warning names."""


def warn_of_tools(config: ToolConfig, tools: Catalog) -> None:
    """Logs which tools have a longer timeout than the configuration allows, which are cached although they do not say that they
    only read, and which have no schema although results are to be checked."""
    most, caches = config.tool_timeout, config.cache_results is not None and config.cache_results.enabled
    longer = [tool.name for tool in tools if most is not None and tool.timeout is not None and tool.timeout > most]
    if longer:
        log.warning("tool_timeout_is_shorter", tools=longer[:_NAMED], count=len(longer), tool_timeout=most)
    unmarked = [tool.name for tool in tools if caches and is_unmarked(tool) and tool.cache_ttl is None]
    if unmarked:
        hint = (
            "their results are kept; say read_only=True or False of each, so that no write is answered from the cache"
        )
        log.warning("cached_without_saying_read_only", tools=unmarked[:_NAMED], count=len(unmarked), hint=hint)
    unchecked = [tool.name for tool in tools if config.validate_tool_response and tool.output_schema is None]
    if unchecked:
        hint = "only size and encoding of their results are checked; give each an output_schema or a return annotation"
        log.warning("results_without_schema", tools=unchecked[:_NAMED], count=len(unchecked), hint=hint)
