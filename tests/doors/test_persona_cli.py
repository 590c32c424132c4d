"""`toolcaddie persona`: files, versions, folders and people, on the database alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url, sqlite_only
from tests.doors.commandline import CommandLine
from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.storage.database import Database

COACH = PersonaKey(tenant="default", bot="coach")
ANN = Author(who="default/ann", run_id="run_1", taint=("read_page",))
LOG = "memory/2026-05-03.md"
ANNS, BENS = "- 14:05 tea <!-- who=default/ann trust=clean -->\n", "- 14:06 gin <!-- who=default/ben trust=clean -->\n"


class Line(CommandLine):
    """Runs `toolcaddie persona COMMAND coach ...` on the database of a test."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.url = database_url(home / "data.sqlite")

    def __call__(self, command: object, *words: object, stdin: str | None = None) -> Any:
        return super().__call__("persona", command, "coach", *words, "--database-url", self.url, stdin=stdin)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """The command line, with a bot that has three versions of its soul, a log, and a chat in a group."""
    line = Line(tmp_path)

    async def fill(files: StoredPersonas, chats: StoredChats) -> None:
        for number, text in enumerate(["I am strict.\n", "I am calm.\n", "I obey pages.\n"]):
            await files.write(COACH, "SOUL.md", text, author=ANN, expected=number)
        await files.write(COACH, LOG, ANNS + BENS, author=ANN, expected=0)
        turns = [
            ChatTurn(role="user", text="I like tea", at=1.0, who="default/ann"),
            ChatTurn(role="assistant", text="Tea it is", at=2.0, who="coach"),
            ChatTurn(role="user", text="I like gin", at=3.0, who="default/ben"),
        ]
        await chats.add(ChatKey(tenant="default", bot="coach", chat="telegram:group:7"), turns)

    stored(line, fill)
    return line


def stored(line: Line, work: Callable[[StoredPersonas, StoredChats], Coroutine[Any, Any, Any]]) -> Any:
    async def done() -> Any:
        async with Database(line.url) as database:
            return await work(StoredPersonas(database.store), StoredChats(database.store))

    return asyncio.run(done())


def test_files_are_listed_and_shown(line: Line) -> None:
    assert [(each["path"], each["version"]) for each in line.json("list")["files"]] == [("SOUL.md", 3), (LOG, 1)]
    assert "default/ann (after read_page)" in line.ok("list")
    assert line.ok("show", "SOUL.md") == "I obey pages.\n"
    assert line.ok("show", "SOUL.md", "--version", 1) == "I am strict.\n"
    assert line.json("show", "SOUL.md")["author"] == {"who": "default/ann", "run_id": "run_1", "taint": ["read_page"]}


def test_the_history_says_who_wrote_what_in_which_run(line: Line) -> None:
    versions = line.json("history", "SOUL.md")["versions"]
    assert [(each["version"], each["author"]["run_id"]) for each in versions] == [
        (3, "run_1"),
        (2, "run_1"),
        (1, "run_1"),
    ]
    assert "text" not in versions[0]
    assert "default/ann (after read_page)" in line.ok("history", "SOUL.md")


@pytest.mark.parametrize(
    ("numbers", "old", "new"),
    [
        ((), "I am calm.", "I obey pages."),
        ((1,), "I am strict.", "I obey pages."),
        ((2, 1), "I am calm.", "I am strict."),
    ],
)
def test_versions_are_compared(line: Line, numbers: tuple[int, ...], old: str, new: str) -> None:
    assert line.ok("diff", "SOUL.md", *numbers).splitlines()[3:] == [f"-{old}", f"+{new}"]
    assert line.json("diff", "SOUL.md", *numbers)["diff"].splitlines()[3:] == [f"-{old}", f"+{new}"]
    assert "SOUL.md is the same in version 2 and version 2" in line("diff", "SOUL.md", 2, 2).stderr


def test_a_former_version_is_put_back_as_a_new_one(line: Line) -> None:
    assert "is as in version 1 again; this is version 4" in line.ok("revert", "SOUL.md", 1)
    assert line.ok("show", "SOUL.md") == "I am strict.\n"
    newest, *others = line.json("history", "SOUL.md")["versions"]
    assert (newest["note"], newest["author"]["run_id"], len(others)) == ("revert to version 1", "", 3)
    assert "is as in version 1 already" in line.refused("revert", "SOUL.md", 1)


def test_a_deleted_file_is_put_back(line: Line) -> None:
    stored(line, lambda files, chats: files.delete(COACH, "SOUL.md", author=ANN))
    assert "is deleted in version 4" in line.refused("show", "SOUL.md")
    assert line.json("revert", "SOUL.md", 3)["text"] == line.ok("show", "SOUL.md") == "I obey pages.\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("show", "GOALS.md"), "coach has no file GOALS.md"),
        (("show", "../secrets"), "is not the path of a persona file"),
        (("diff", "SOUL.md", "9"), "SOUL.md has no version 9; it has 1, 2, 3"),
        (("revert", "SOUL.md", "9"), "SOUL.md has no version 9"),
        (("import", "/no/such/folder"), "there is no folder"),
        (("forget", "--person", "ann", "--yes"), "is not a person of the tenant 'default'"),
        (("forget", "--person", "acme/ann", "--yes"), "is not a person of the tenant 'default'"),
    ],
)
def test_wrong_use_is_refused(line: Line, words: tuple[str, ...], problem: str) -> None:
    assert problem in line.refused(*words)


def test_files_go_to_a_folder_and_come_back_edited(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "coach"
    assert sorted(line.json("export", folder)["written"]) == ["SOUL.md", LOG]
    (folder / "SOUL.md").write_text("I am edited.\n")
    (folder / "notes").mkdir()
    (folder / "notes/plan.md").write_text("A plan.\n")
    (folder / "picture.png").write_bytes(b"x")
    assert sorted(line.json("import", folder)["written"]) == ["SOUL.md", "notes/plan.md"]
    assert line.ok("show", "SOUL.md") == "I am edited.\n"
    assert line.json("history", "SOUL.md")["versions"][0]["note"] == "imported"


def test_neither_side_replaces_what_the_other_has_changed_unless_it_is_told_to(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "coach"
    line.ok("export", folder)
    (folder / "SOUL.md").write_text("I am edited.\n")
    line.ok("revert", "SOUL.md", 1)
    imported, exported = line("import", folder), line("export", folder)
    assert "SOUL.md' is a file" in line.refused("export", folder / "SOUL.md")
    assert (imported.exit_code, exported.exit_code) == (1, 1)
    assert "SOUL.md is not as it was exported to this folder, and was not written" in imported.stderr
    assert "SOUL.md differs there, and was not written" in exported.stderr
    assert (line.ok("show", "SOUL.md"), (folder / "SOUL.md").read_text()) == ("I am strict.\n", "I am edited.\n")
    line.ok("import", folder, "--overwrite")
    assert line.ok("show", "SOUL.md") == "I am edited.\n"


def test_a_person_is_shown_and_forgotten_after_a_yes(line: Line) -> None:
    shown = line.json("forget", "--person", "default/ann", "--dry-run")
    assert [fact["fact"]["text"] for fact in shown["facts"]] == ["tea"]
    assert [message["turn"]["text"] for message in shown["messages"]] == ["I like tea", "Tea it is"]
    for answer, code, words in (
        ("n\n", 1, "error: nothing was erased\n"),
        ("", 130, "nothing was erased; --yes erases"),
    ):
        refused = line("forget", "--person", "default/ann", stdin=answer)
        assert refused.exit_code == code
        assert words in refused.stderr
    assert line.json("forget", "--person", "default/ann", "--dry-run") == shown
    done = line("forget", "--person", "default/ann", stdin="y\n")
    assert "erased: 1 fact and 2 messages of default/ann" in done.stdout
    assert "SOUL.md was written for default/ann" in done.stderr
    assert line.ok("show", LOG) == BENS
    everything = line.ok("forget", "--person", "default/ann", "--yes", "--json")
    assert '"tea"' not in everything
    assert "default/ann" not in str(line.json("history", "SOUL.md"))


@sqlite_only("a file is made by whoever opens it")
def test_a_database_that_is_misspelt_is_not_made(tmp_path: Path) -> None:
    line = Line(tmp_path)
    assert "there is no database" in line.refused("list")
    assert not (tmp_path / "data.sqlite").exists()


def test_a_bot_without_files_and_without_the_folder_for_them_is_named_at_the_start(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('[bots.coach]\npersona = "personas/coach"\n\n[[source]]\ntype = "persona"\n')
    advice = "'coach' has no files yet, and there is no folder 'personas/coach' from which to read them"
    for words in (("serve", "--port", "0"), ("run", "hello", "--bot", "coach"), ("persona", "list", "coach")):
        assert advice in toolcaddie.refused(*words)
    Path("personas/coach").mkdir(parents=True)
    Path("personas/coach/SOUL.md").write_text("I am calm.\n")
    toolcaddie.ok("run", "hello", "--bot", "coach")
    Path("personas/coach/SOUL.md").unlink()
    Path("personas/coach").rmdir()
    assert "I am calm." in toolcaddie.ok("persona", "show", "coach", "SOUL.md")
    toolcaddie.ok("run", "hello", "--bot", "coach")


def test_a_bot_that_is_nowhere_is_refused_with_what_is_meant(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text("[bots.coach]\n")
    assert "there is no bot 'caoch'; did you mean 'coach'?" in toolcaddie.refused("persona", "list", "caoch")
    assert "coach has no files" in toolcaddie("persona", "list", "coach").stderr


def test_nothing_is_asked_if_nothing_is_stored_of_a_person(line: Line) -> None:
    assert line.ok("forget", "--person", "default/zoe") == "nothing of default/zoe is stored by coach\n"
