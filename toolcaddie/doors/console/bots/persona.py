"""The files of a bot: their list, and each file with its versions and differences. An operator puts a version back."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.personas import PersonaFile
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.bots.desk import ONE, BotDesk, author_of, field, number_of
from toolcaddie.doors.console.requests import Visit
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.doors.shelves import difference, version_head, version_in
from toolcaddie.doors.tool_sheets import diff_lines
from toolcaddie.guards.aside import aside

_FILES_SHOWN = 50


def persona_routes(desk: BotDesk) -> Sequence[PageRoute]:
    """Returns the pages and forms."""

    async def files(visit: Visit) -> Answer:
        shelf = desk.shelf(visit)
        cursor = visit.request.query.get("after") or None
        page, following = await shelf.files.page(shelf.key, cursor=cursor, limit=_FILES_SHOWN)
        heads = [{**version_head(file), "bytes": len(file.text.encode())} for file in page]
        return desk.page("files", visit, {"files": heads, "next": following})

    async def file(visit: Visit) -> Answer:
        path = field(visit, "path")
        versions = await desk.shelf(visit).versions(path)
        newest = _version(visit, "b", versions) or versions[-1]
        older = _version(visit, "a", versions) or _before(newest, versions)
        text = await aside(difference, older, newest)
        data = {
            "file": newest,
            "versions": [version_head(each) for each in reversed(versions)],
            "compared": {"a": 0 if older is None else older.version, "b": newest.version},
            "diff": text,
        }
        return desk.page("file", visit, data, lines=diff_lines(text), latest=versions[-1])

    async def revert(visit: Visit) -> Answer:
        path, number = field(visit, "path"), number_of(field(visit, "version"), "version")
        await desk.shelf(visit).revert(path, number, author_of(visit))
        return desk.done(visit, "reverted", "file", path=path)

    return (
        PageRoute(method="GET", path=f"{ONE}/files", handle=files),
        PageRoute(method="GET", path=f"{ONE}/file", handle=file),
        PageRoute(method="POST", path=f"{ONE}/revert", handle=revert, level="operator"),
    )


def _version(visit: Visit, name: str, versions: Sequence[PersonaFile]) -> PersonaFile | None:
    """Returns the version that the address names; None: it names none."""
    text = visit.request.query.get(name, "")
    return version_in(versions, number_of(text, name)) if text else None


def _before(file: PersonaFile, versions: Sequence[PersonaFile]) -> PersonaFile | None:
    return next((each for each in reversed(versions) if each.version < file.version), None)
