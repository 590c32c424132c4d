"""The section of the catalog: its tools, a search as the model sees it, each tool, and calls to try one."""

from toolcaddie.doors.console.catalog.pages import catalog_section

__all__ = ["catalog_section"]
