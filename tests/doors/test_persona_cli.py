"""`toolcaddie persona`: what an operator sees of a bot's files, and changes."""

from __future__ import annotations

from tests.doors.commandline import CommandLine


def test_files_go_in_are_shown_reverted_exported_and_people_forgotten(toolcaddie: CommandLine) -> None:
    folder = toolcaddie.home / "coach"
    (folder / "memory").mkdir(parents=True)
    (folder / "SOUL.md").write_text("kind\n")
    (folder / "memory/2026-05-03.md").write_text("- 14:05 likes tea <!-- who=default/ann trust=clean -->\n")
    toolcaddie.ok("persona", "import", "coach", folder)
    assert [each["path"] for each in toolcaddie.json("persona", "list", "coach")["files"]] == [
        "SOUL.md",
        "memory/2026-05-03.md",
    ]
    (folder / "SOUL.md").write_text("cruel\n")
    assert toolcaddie("persona", "import", "coach", folder).exit_code == 1
    assert toolcaddie.ok("persona", "show", "coach", "SOUL.md") == "kind\n"
    toolcaddie.ok("persona", "import", "coach", folder, "--overwrite")
    assert "-kind\n+cruel" in toolcaddie.ok("persona", "diff", "coach", "SOUL.md")
    toolcaddie.ok("persona", "revert", "coach", "SOUL.md", 1)
    assert toolcaddie.ok("persona", "show", "coach", "SOUL.md") == "kind\n"
    versions = toolcaddie.json("persona", "history", "coach", "SOUL.md")["versions"]
    assert [each["note"] for each in versions] == ["imported", "imported", "revert to version 1"]
    toolcaddie.ok("persona", "export", "coach", toolcaddie.home / "out")
    assert (toolcaddie.home / "out/SOUL.md").read_text() == "kind\n"
    assert "would erase 1 fact" in toolcaddie.ok("persona", "forget", "coach", "--person", "default/ann", "--dry-run")
    toolcaddie.ok("persona", "forget", "coach", "--person", "default/ann", "--yes")
    assert "tea" not in toolcaddie.ok("persona", "history", "coach", "memory/2026-05-03.md", "--json")


def test_what_is_missing_is_named(toolcaddie: CommandLine) -> None:
    assert "has no file 'SOUL.md'" in toolcaddie.refused("persona", "show", "coach", "SOUL.md")
    assert "is not a person of the tenant" in toolcaddie.refused("persona", "forget", "coach", "--person", "ann")
