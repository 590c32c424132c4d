"""Who may see what in a bot's memory. The one rule, for searches and for reading on.

In a private chat, or outside any chat, a person sees what they said themselves, what the bot answered them, and what the operator
put there without a name. In a group everybody sees only what was said in that group: no private chat of anybody, and no note.
"""

from __future__ import annotations

from msgspec import Struct

from toolcaddie.core.bots import chat_origin, is_group_chat
from toolcaddie.core.control import Principal
from toolcaddie.tools.memory.values import Label


class Reader(Struct, frozen=True, kw_only=True):
    """A person in a chat, in whose name memory is read."""

    who: str
    """`tenant/id`."""
    chat: str
    """Without the number of a later conversation in it; empty: outside any chat."""
    group: bool = False
    admitted: bool = True
    """False: the chat is a group, and nothing proves that the person is in it."""
    own: bool = False
    """True: only words that this reader trusts are read."""

    @classmethod
    def of(cls, principal: Principal, chat: str) -> Reader:
        """Returns the reader for a request. A group counts only if the request came through the group's own channel: clients of
        the other doors name their conversations as they like."""
        origin, group = chat_origin(chat), is_group_chat(chat)
        admitted = not group or principal.channel == chat.partition(":")[0]
        return cls(who=f"{principal.tenant}/{principal.id}", chat=origin, group=group, admitted=admitted)

    def sees(self, label: Label) -> bool:
        """Returns True if the reader may see words with this label."""
        if self.own and not self.trusts(label):
            return False
        if self.group:
            return self.admitted and label.kind != "note" and label.chat == self.chat
        if is_group_chat(label.chat):
            return False
        if label.who:
            return label.who == self.who
        return label.kind != "session" and not label.chat

    def trusts(self, label: Label) -> bool:
        """Returns True for words that this person said, or that the bot told this person, before anything untrusted was read."""
        return label.trust == "clean" and label.who == self.who
