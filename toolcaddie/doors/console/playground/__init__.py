"""The section in which a person talks to the server's models and bots."""

from toolcaddie.doors.console.playground.pages import playground_section

__all__ = ["playground_section"]
