"""Tools that bots write while they work: each waits until a person approves its exact bytes, and runs in the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Positive, Seconds
from toolcaddie.parts import Parts
from toolcaddie.ports import ToolSource
from toolcaddie.tools.authored.authorship import Authorship
from toolcaddie.tools.authored.running import missing
from toolcaddie.tools.authored.source import AuthoredSource
from toolcaddie.tools.authored.values import AuthoredLimits, ToolType

STORE_PATH = "toolcaddie-data/tools"
_TYPES: tuple[ToolType, ...] = ("python", "command", "typescript")


class AuthoredOptions(TypedDict, total=False):
    """Settings of the source."""

    store_path: str
    """The folder of the tools, relative to the working folder. `toolcaddie-data/tools` if omitted."""
    max_tools_per_bot: Positive
    """Counts tools of every status. 20 if omitted."""
    types: tuple[ToolType, ...]
    """Types that bots may write. If omitted, all that this machine can run; an empty list: bots write none, and approved tools
    stay."""
    timeout: Seconds
    """Seconds that a call may take. 30 if omitted."""
    max_source_bytes: Positive
    max_output_bytes: Positive


def authored(*, parts: Parts, **options: Unpack[AuthoredOptions]) -> ToolSource:
    """Returns the source of tools that bots write. Raises `ConfigError` for a type that this machine cannot run, and where there
    is no store or sandbox."""
    wanted = options.get("types")
    for each in wanted or ():
        if problem := missing(each):
            raise ConfigError(f"source authored: types: {problem}, or take it out of the list")
    types = tuple(each for each in _TYPES if not missing(each)) if wanted is None else wanted
    return AuthoredSource(authorship(parts=parts, **options), parts.sandbox(), types=types)


def authorship(*, parts: Parts, **options: Unpack[AuthoredOptions]) -> Authorship:
    """Returns the service that lists, shows and decides about the tools of the same settings, without a runtime."""
    if parts.store is None:
        raise ConfigError("source authored: decisions about tools need a store; pass one, as in Parts(store=store)")
    limits = AuthoredLimits()
    return Authorship(
        Path(options.get("store_path", STORE_PATH)),
        parts.store,
        sandbox=parts.sandbox,
        clock=parts.clock,
        limits=AuthoredLimits(
            tools_per_bot=options.get("max_tools_per_bot", limits.tools_per_bot),
            source_bytes=options.get("max_source_bytes", limits.source_bytes),
            seconds=options.get("timeout", limits.seconds),
            output_bytes=options.get("max_output_bytes", limits.output_bytes),
        ),
    )


__all__ = ["AuthoredOptions", "AuthoredSource", "Authorship", "authored", "authorship"]
