"""The state plugin `storage`: what is mounted at the mount points of the settings. Nothing is ever formatted."""

from __future__ import annotations

from toolcaddie.tools.host.states.storage.plugin import storage

__all__ = ["storage"]
