"""The tools `save_memory`, `update_soul`, `update_identity` and `manage_goals`, for what a bot knows about itself."""

from __future__ import annotations

from toolcaddie.tools.persona.source import persona

__all__ = ["persona"]
