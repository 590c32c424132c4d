"""The section of analytics: categories and tools that are used or not, what was asked for in vain, and what to change."""

from toolcaddie.doors.console.analytics.pages import analytics_section

__all__ = ["analytics_section"]
