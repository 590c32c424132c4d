"""Everything that a bot has stored about one person: shown, and erased.

A person is `tenant/id`. Facts say whose they are. In a chat with one person everything belongs to that person; of a group, the
messages of the person do, with the answers that follow them, and each summary that stands for one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.bots import ChatKey, ChatTurn, is_group_chat
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, Fact, PersonaFile, PersonaKey, read_fact
from toolcaddie.personas.chats import StoredChats
from toolcaddie.personas.files import StoredPersonas

FORGOTTEN = "forgotten"
"""The author of versions whose author was forgotten."""
_LONGEST_LINE = 12_000
"""The number of characters of a line that can be a fact. Lines that are longer come from nowhere here."""


class StoredFact(Struct, frozen=True, kw_only=True):
    """A fact, with its place."""

    path: str
    version: int
    """The newest version of the file that has it."""
    fact: Fact


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message, with its place."""

    chat: str
    turn: ChatTurn


class PersonData(Struct, frozen=True, kw_only=True):
    """Everything of one person."""

    person: str
    bot: str
    facts: tuple[StoredFact, ...] = ()
    messages: tuple[StoredMessage, ...] = ()
    whole_chats: tuple[str, ...] = ()
    """Chats in which nobody else speaks to the bot."""
    written: tuple[str, ...] = ()
    """Files of which the person had the bot write a version. Their texts are the bot's, and stay."""


async def person_data(
    files: StoredPersonas, chats: StoredChats, key: PersonaKey, person: str, *, names: Collection[str] = ()
) -> PersonData:
    """Returns what a bot has stored about a person. `names`: further names by which the person is known in groups.

    Raises `RequestError` for a person that is not `tenant/id` of the bot's tenant.
    """
    who = _checked(key, person, names)
    facts: dict[tuple[str, str], StoredFact] = {}
    written: set[str] = set()
    async for versions in files.all_versions(key):
        for file in versions:
            if file.author.who == person:
                written.add(file.path)
            for line, fact in _facts_of(file.text, person):
                facts[file.path, line] = StoredFact(path=file.path, version=file.version, fact=fact)
    messages: list[StoredMessage] = []
    whole: list[str] = []
    async for chat, turns in chats.with_turns(key.tenant, key.bot):
        is_whole = _is_whole(chat, turns, who)
        belonging = range(len(turns)) if is_whole else _belonging(turns, who)
        messages += [StoredMessage(chat=chat, turn=turns[number]) for number in belonging]
        whole += [chat] if is_whole else []
    return PersonData(
        person=person,
        bot=key.bot,
        facts=tuple(facts.values()),
        messages=tuple(messages),
        whole_chats=tuple(whole),
        written=tuple(sorted(written)),
    )


async def forget(
    files: StoredPersonas, chats: StoredChats, key: PersonaKey, person: str, *, names: Collection[str] = ()
) -> PersonData:
    """Erases what `person_data` returns, in all versions, and returns what it was."""
    who = _checked(key, person, names)
    data = await person_data(files, chats, key, person, names=names)
    async for versions in files.all_versions(key):
        await files.rewrite(key, versions[0].path, lambda file: _without(file, person))
    for chat in await chats.names(key.tenant, key.bot):
        place = _chat(key, chat)
        if _is_whole(chat, await chats.turns(place), who):
            await chats.delete(place)
        else:
            await chats.rewrite(place, lambda turns: _changes(turns, who))
    return data


def _checked(key: PersonaKey, person: str, names: Collection[str]) -> frozenset[str]:
    """Returns the names under which a person speaks in chats. Raises `RequestError`."""
    tenant, _, name = person.partition("/")
    if not name or tenant != key.tenant:
        raise RequestError(
            f"{person[:100]!r} is not a person of the tenant {key.tenant!r}; write {key.tenant}/ and the id of the person",
            param="person",
        )
    return frozenset((person, *names))


def _facts_of(text: str, person: str) -> Sequence[tuple[str, Fact]]:
    """Returns the lines with a fact of a person, and the facts."""
    if "<!-- " not in text:
        return ()
    facts = ((line, read_fact(line)) for line in text.split("\n") if _may_be_fact(line, person))
    return [(line, fact) for line, fact in facts if fact is not None and fact.provenance.who == person]


def _may_be_fact(line: str, person: str) -> bool:
    """Returns True if a line may be a fact of a person. Where nothing is spelt with `%`, the name stands in it as it is."""
    names = f"who={person}" in line or ("%" in line and "who=" in line)
    return names and line.startswith("- ") and len(line) <= _LONGEST_LINE


def _without(file: PersonaFile, person: str) -> PersonaFile:
    """Returns a version without the facts of a person, and without the person as its author."""
    author = Author(who=FORGOTTEN, taint=file.author.taint) if file.author.who == person else file.author
    lines = {line for line, _ in _facts_of(file.text, person)}
    text = "\n".join(line for line in file.text.split("\n") if line not in lines)
    return replace(file, text=text, author=author)


def _is_whole(chat: str, turns: Sequence[ChatTurn], who: Collection[str]) -> bool:
    """Returns True if nobody but this person speaks to the bot. In a group others may begin to at any moment, also while the chat
    is being erased."""
    speakers = {turn.who for turn in turns if turn.role == "user"}
    return bool(speakers) and speakers <= set(who) and not is_group_chat(chat)


def _belonging(turns: Sequence[ChatTurn], who: Collection[str]) -> Sequence[int]:
    """Returns the numbers of the messages of a person, and of the answers that follow them."""
    numbers: list[int] = []
    follows = False
    for number, turn in enumerate(turns):
        if turn.role != "summary":
            follows = turn.who in who if turn.role == "user" else follows
            numbers += [number] if follows else []
    return numbers


def _changes(turns: Sequence[ChatTurn], who: Collection[str]) -> Mapping[int, ChatTurn | None]:
    """Returns what becomes of the messages of a group in which a person has spoken. A summary that stands for one of the removed
    messages loses its text, and still hides the others, so that they do not come back into the conversation."""
    removed = set(_belonging(turns, who))
    changes: dict[int, ChatTurn | None] = dict.fromkeys(removed)
    messages: list[int] = []
    for number, turn in enumerate(turns):
        if turn.role != "summary":
            messages.append(number)
            continue
        sent = removed.intersection(messages[len(messages) - turn.keeps :])
        if removed.intersection(messages):
            stands = bool(removed.intersection(messages) - sent)
            changes[number] = replace(turn, text="" if stands else turn.text, keeps=turn.keeps - len(sent))
    return changes


def _chat(key: PersonaKey, chat: str) -> ChatKey:
    return ChatKey(tenant=key.tenant, bot=key.bot, chat=chat)
