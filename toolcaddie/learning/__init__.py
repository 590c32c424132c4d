"""A memory of the requests that were served and the tools that they called, and the ranker `learned`, which prefers the tools
that similar requests called."""

from __future__ import annotations

from toolcaddie.core.learning import LearningSettings
from toolcaddie.learning.entries import CalledTool, LogEntry, called, digest_of
from toolcaddie.learning.experience import Experience, Fit
from toolcaddie.learning.ranker import NAME, Learned, factory, refit
from toolcaddie.learning.sink import LearningSink, entries_of_trail

__all__ = [
    "NAME",
    "CalledTool",
    "Experience",
    "Fit",
    "Learned",
    "LearningSettings",
    "LearningSink",
    "LogEntry",
    "called",
    "digest_of",
    "entries_of_trail",
    "factory",
    "refit",
]
