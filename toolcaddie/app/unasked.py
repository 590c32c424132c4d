"""A provider that has only a name, for commands that select and price without a request to a model: they need no key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject


class Unasked:
    """A provider that refuses every request with `ConfigError`. Its models have the prices and capabilities of the provider
    `name`. It implements `ports.Provider`."""

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
        return ConfigError(f"this command sends no requests to models, but an answer of {self.name} was requested")
