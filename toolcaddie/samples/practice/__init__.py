"""The practice model: a provider that follows rules instead of a language model, so that everything can be tried without a key.

It is deterministic and offline. Like a model it reads messages and tool definitions, and answers with words or tool calls.
Toolcaddie's own selector finds the tool; plain rules do the rest. Each file imports only files below it:

    model        the wire: a request in, a reply out
    steps        the next step: a call, a question or a report
    identifiers  ids in results, and the tools that list them
    calls        calls, also those of meta tools for tools not shown
    scene        the conversation so far                answer    the sentences
    arguments    a tool's arguments from a message      rows      results read as rows
    mentions     names, dates, amounts in a text        tools     the tools at hand, with the selector over them
    english      verbs, questions and orders; its words and patterns are in english.toml
"""

from __future__ import annotations

from toolcaddie.samples.practice.model import PracticeModel, from_settings

__all__ = ["PracticeModel", "from_settings"]
