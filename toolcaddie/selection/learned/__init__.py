"""What was called after similar requests: a memory, and a ranker made of it."""

from __future__ import annotations

from toolcaddie.selection.learned.entries import CalledTool, LogEntry, called, digest_of
from toolcaddie.selection.learned.experience import Experience, Fit, LearningSettings
from toolcaddie.selection.learned.ranker import NAME, Learned, factory
from toolcaddie.selection.learned.sink import LearningSink, entries_of_trail

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
]
