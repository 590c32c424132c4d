"""The group `filesystem`: files below the folders that the settings name."""

from __future__ import annotations

from toolcaddie.tools.host.filesystem.group import filesystem_group
from toolcaddie.tools.host.filesystem.settings import DEFAULT_FILESYSTEM, FilesystemSettings, Root

__all__ = ["DEFAULT_FILESYSTEM", "FilesystemSettings", "Root", "filesystem_group"]
