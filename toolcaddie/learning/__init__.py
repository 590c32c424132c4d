"""A memory of the tools that requests called, and a ranker made of it."""

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
