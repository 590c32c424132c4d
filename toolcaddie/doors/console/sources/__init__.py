"""The section of tool sources: their states, tools in quarantine, and definitions that a person should read."""

from toolcaddie.doors.console.sources.pages import sources_section

__all__ = ["sources_section"]
