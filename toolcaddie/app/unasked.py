"""A provider by its name alone, for commands that select and price without a request to a model: they need no key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject


class Unasked:
    """Implements `ports.Provider`: prices and capabilities are those of `name`'s models; every request raises `ConfigError`."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, request: ModelRequest) -> ModelReply:
        raise self._refusal()

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        raise self._refusal()

    async def models(self) -> Sequence[JsonObject]:
        return ()

    async def close(self) -> None:
        """Nothing was opened."""

    def _refusal(self) -> ConfigError:
        return ConfigError(f"this command asks no model, and {self.name} was to be asked one")
