"""Toolcaddie hands a language model the right tools."""

__version__ = "0.1.0"
