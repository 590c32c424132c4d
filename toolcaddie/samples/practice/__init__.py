"""The practice model: a provider that follows rules instead of a language model, so that everything can be tried without a key.

It is deterministic and offline. Like a language model it reads messages and tool definitions, and answers with words or tool
calls. Toolcaddie's own selector finds the tool; plain rules do the rest. In these files a slot is one argument of a tool, a
mention is a name, date or other value in a message, a wish is what the user wants, and the trail is the list of calls made for
it. Each file imports only files further down in this list:

    model        the provider: turns a request into a reply
    steps        the next step: a call, a question or a report
    identifiers  ids in results, and the tools that list them
    calls        calls, also those of meta tools for tools not shown
    scene        the conversation so far                answer    the sentences
    arguments    a tool's arguments from a message      rows      results read as rows
    mentions     names, dates, amounts in a text        tools     the tools of the request, and the selector
    english      verbs, questions and orders; its words and patterns are in english.toml
"""

from __future__ import annotations

from toolcaddie.samples.practice.model import PracticeModel, from_settings

__all__ = ["PracticeModel", "from_settings"]
