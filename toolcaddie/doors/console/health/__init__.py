"""The section of health: what works, what does not, and what to do about it."""

from toolcaddie.doors.console.health.pages import health_section

__all__ = ["health_section"]
