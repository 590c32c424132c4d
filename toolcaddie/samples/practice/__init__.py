"""The practice model: a provider without a model behind it, so that everything can be tried without a key.

Deterministic and offline. It sees what a model sees, messages and tool definitions, and answers as one does, with words or
with tool calls; what it does with them are plain rules. Each file stands on the ones below it:

    model           the wire: a request in, a reply out
    plan            what to do next
    identifiers     whose id is meant, and which tool could tell      more    asking for tools not shown
    choice          which tool fits
    arguments       filling a tool's arguments                        scene   the conversation so far
    facts, kinds    what a message gives, what an argument takes      rows    reading results
    toolbox         the tools known                                   answer  the sentences
    mentions        names, dates, amounts in a text
    words           English: stems, verbs, questions and orders
"""

from __future__ import annotations

from toolcaddie.samples.practice.model import PracticeModel, from_settings

__all__ = ["PracticeModel", "from_settings"]
