"""The tools `file_read`, `file_write` and `file_edit`, for the files below one folder."""

from __future__ import annotations

from toolcaddie.tools.files.source import files

__all__ = ["files"]
