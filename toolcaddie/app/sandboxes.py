"""Makes the sandbox of the settings when a tool first asks for it."""

from __future__ import annotations

import threading

from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.ports import Sandbox
from toolcaddie.registry import Registry

_DEFAULT = PartSettings(type="wall")


class SandboxOnDemand:
    """Returns the sandbox of the settings: calling it makes the sandbox, once.

    Raises `ConfigError` if this machine cannot hold it. Another sandbox is never made instead.
    """

    def __init__(self, settings: Settings, registry: Registry | None = None) -> None:
        self._part = settings.sandbox or _DEFAULT
        self._registry = registry or Registry()
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None

    def __call__(self) -> Sandbox:
        with self._lock:
            if self._sandbox is None:
                self._sandbox = self._registry.make("sandbox", self._part.type, self._part.config)
            return self._sandbox

    async def close(self) -> None:
        """Kills all commands that are running."""
        if self._sandbox is not None:
            await self._sandbox.close()
