"""The memory of a bot: the chunks of its logs and notes by person and chat, and what it has stored about one person, which an
admin can have erased."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolcaddie.core.bots import chat_origin
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import LOGS, NOTES, PersonaFile
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.bots.desk import ONE, BotDesk, field
from toolcaddie.doors.console.requests import Visit
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.guards.aside import aside
from toolcaddie.tools.memory.reading import chunks_of, file_lines
from toolcaddie.tools.memory.values import Chunk

_FILES_READ = 7
"""The number of files whose chunks a page shows: a week."""
_CHUNKS_SHOWN = 200
_FACTS_SHOWN = 200
_LONGEST_DAY = 10


def memory_routes(desk: BotDesk) -> Sequence[PageRoute]:
    """Returns the pages and forms."""

    async def memory(visit: Visit) -> Answer:
        shelf, query = desk.shelf(visit), visit.request.query
        kind = "notes" if query.get("kind") == "notes" else "logs"
        day = query.get("day", "")[:_LONGEST_DAY]
        person, chat = query.get("person", ""), query.get("chat", "")
        files, following = await shelf.files.page(
            shelf.key,
            NOTES if kind == "notes" else f"{LOGS}{day}",
            cursor=query.get("after") or None,
            limit=_FILES_READ,
        )
        chunks = await aside(_chunks, files, person, chat)
        data = {
            "chunks": chunks[:_CHUNKS_SHOWN],
            "left_out": max(0, len(chunks) - _CHUNKS_SHOWN),
            "kind": kind,
            "person": person,
            "chat": chat,
            "day": day,
            "files": len(files),
            "next": following,
        }
        return desk.page("memory", visit, data)

    async def person(visit: Visit) -> Answer:
        who = visit.request.query.get("person", "")
        names = _names(visit.request.query.get("names", ""))
        if not who:
            return desk.page("person", visit, {"person": "", "names": "", "stored": None, "arranged": None})
        stored, arranged = await desk.shelf(visit).about(who, names)
        is_empty = arranged.is_empty and not (stored.facts or stored.messages or stored.whole_chats)
        return desk.page(
            "person",
            visit,
            {"person": who, "names": ", ".join(names), "stored": stored, "arranged": arranged},
            is_empty=is_empty,
            most=_FACTS_SHOWN,
        )

    async def forget(visit: Visit) -> Answer:
        who, names = field(visit, "person"), _names(visit.form.get("names", ""))
        if visit.form.get("sure") != "yes":
            raise RequestError("nothing was erased: tick that you are sure", param="sure")
        await desk.shelf(visit).forget(who, names)
        return desk.done(visit, "forgotten", "person", person=who)

    return (
        PageRoute(method="GET", path=f"{ONE}/memory", handle=memory),
        PageRoute(method="GET", path=f"{ONE}/person", handle=person, level="admin"),
        PageRoute(method="POST", path=f"{ONE}/forget", handle=forget, level="admin"),
    )


def _chunks(files: Sequence[PersonaFile], person: str, chat: str) -> Sequence[Chunk]:
    """Returns the chunks of some files, those of a person and of a chat if they are named."""
    origin = chat_origin(chat)
    return [
        chunk
        for file in files
        for chunk in chunks_of(file.path, file_lines(file))
        if person in ("", chunk.label.who) and origin in ("", chunk.label.chat)
    ]


def _names(text: str) -> Collection[str]:
    """Returns the names of a field, which are separated by commas."""
    return tuple(name for part in text.split(",") if (name := part.strip()))
