"""`toolcaddie authored`: people list the tools that bots wrote, read them, and decide about exactly what they have read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.databases import home_url, sqlite_only
from tests.doors.authoring import ANN, COUNTS, written
from tests.doors.commandline import CommandLine
from tests.doors.terminal import terminal
from toolcaddie.core.control import Principal
from toolcaddie.parts import Parts
from toolcaddie.storage.database import Database
from toolcaddie.tools.authored import STORE_PATH, Authorship, authorship
from toolcaddie.tools.authored.values import AuthoredTool
from toolcaddie.util.user import user_name


def _with_service(do: Callable[[Authorship], Awaitable[Any]], folder: str = STORE_PATH) -> Any:
    async def run() -> Any:
        async with Database(home_url(Path.cwd())) as database:
            return await do(authorship(parts=Parts(store=database.store), store_path=folder))

    return asyncio.run(run())


@pytest.fixture
def tool(toolcaddie: CommandLine) -> AuthoredTool:
    """A tool that waits."""
    waiting: AuthoredTool = _with_service(lambda service: written(service, taint=("web_fetch",)))
    return waiting


def _source_of(tool: AuthoredTool) -> Path:
    return Path(STORE_PATH, tool.id, "tool.py")


def test_tools_are_listed_shown_and_approved(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    assert "count_words" in toolcaddie.ok("authored", "list")
    shown = toolcaddie.ok("authored", "show", "count_words")
    for text in (
        tool.digest,
        "ann, bot assistant",
        "run_1",
        "web_fetch",
        "    1 | def run(text):",
        "text  string, required",
        "description  ",
        "the checks found nothing; they do not prove that it is harmless",
    ):
        assert text in shown
    approved = toolcaddie.ok("authored", "approve", "count_words", "--digest", tool.digest, "--note", "read it")
    assert f"approved count_words ({tool.id})" in approved
    (version,) = toolcaddie.json("authored", "show", tool.id)["tool"]["versions"]
    assert (version["by"]["id"], version["note"], version["digest"]) == (user_name(), "read it", tool.digest)
    assert toolcaddie.json("authored", "list", "--status", "pending")["tools"] == []


def test_what_is_approved_without_a_digest_is_what_the_command_prints(
    toolcaddie: CommandLine, tool: AuthoredTool
) -> None:
    result = toolcaddie("authored", "approve", "count_words")
    assert result.exit_code == 0
    assert "return len(text.split())" in result.stderr
    assert tool.digest in result.stderr
    assert toolcaddie.json("authored", "show", "count_words")["tool"]["status"] == "approved"


@pytest.mark.parametrize(("answer", "status"), [("y", "approved"), ("n", "pending")])
def test_at_a_terminal_the_person_is_asked_after_reading(
    toolcaddie: CommandLine, tool: AuthoredTool, answer: str, status: str
) -> None:
    with terminal("authored", "approve", "count_words") as person:
        assert "return len(text.split())" in person.until(b"approve exactly this? [y/N]: ")
        person.types(answer)
        person.until(b"approved count_words" if answer == "y" else b"nothing was approved")
        assert person.ended() == (0 if answer == "y" else 1)
    assert toolcaddie.json("authored", "show", "count_words")["tool"]["status"] == status


def test_the_beginning_of_a_digest_or_another_one_is_not_approved(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    other = tool.digest[:63] + ("0" if tool.digest[63] != "0" else "1")
    refusal = toolcaddie.refused("authored", "approve", "count_words", "--digest", other)
    assert "count_words is not what you read" in refusal
    refusal = toolcaddie.refused("authored", "approve", "count_words", "--digest", tool.digest[:12])
    assert f"{tool.digest[:12]} is only the beginning of the digest of count_words; write the whole digest" in refusal
    assert toolcaddie.json("authored", "show", "count_words")["tool"]["status"] == "pending"


def test_a_change_on_disk_is_pending_again_and_shown_as_a_diff(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    toolcaddie.ok("authored", "approve", "count_words", "--digest", tool.digest)
    assert "nothing has changed" in toolcaddie("authored", "diff", "count_words").stderr
    _source_of(tool).write_text(COUNTS.replace("split()", "split(',')"))
    diff = toolcaddie.ok("authored", "diff", "count_words")
    assert "-    return len(text.split())" in diff
    assert "+    return len(text.split(','))" in diff
    assert "changes since the last approval" in toolcaddie.ok("authored", "show", "count_words")
    assert toolcaddie.json("authored", "list")["tools"][0]["status"] == "pending"
    toolcaddie.ok("authored", "approve", "count_words")
    rolled = toolcaddie.ok("authored", "rollback", "count_words", 1, "--note", "commas are wrong")
    assert "approved count_words" in rolled
    assert _source_of(tool).read_text() == COUNTS


def test_a_tool_is_rejected_with_a_note_and_may_be_approved_later(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    assert "rejected count_words" in toolcaddie.ok("authored", "reject", "count_words", "--note", "use wc")
    assert "use wc" in toolcaddie.ok("authored", "show", "count_words")
    toolcaddie.ok("authored", "approve", "count_words")
    assert "it cannot be rejected; revoke it" in toolcaddie.refused("authored", "reject", "count_words")


def test_an_approved_tool_is_revoked_and_deleted(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    toolcaddie.ok("authored", "approve", "count_words")
    assert "revoked count_words" in toolcaddie.ok("authored", "revoke", "count_words", "--note", "slow")
    assert "deleted count_words" in toolcaddie.ok("authored", "delete", "count_words")
    assert toolcaddie.json("authored", "list")["tools"] == []
    assert not Path(STORE_PATH, tool.id).exists()


@pytest.mark.parametrize(("words", "answer"), [((), "y"), ((), "n"), (("--yes",), "")])
def test_at_a_terminal_the_person_is_asked_before_a_tool_is_deleted(
    toolcaddie: CommandLine, tool: AuthoredTool, words: tuple[str, ...], answer: str
) -> None:
    with terminal("authored", "delete", "count_words", *words) as person:
        if answer:
            person.until(b"delete count_words with all its versions? [y/N]: ")
            person.types(answer)
        person.until(b"nothing was deleted" if answer == "n" else b"deleted count_words")
        assert person.ended() == (1 if answer == "n" else 0)
    assert Path(STORE_PATH, tool.id).exists() == (answer == "n")


@pytest.mark.parametrize("words", [("rename", "word_count"), ("scope", "reception")], ids=lambda words: words[0])
def test_another_name_or_scope_needs_another_approval(
    toolcaddie: CommandLine, tool: AuthoredTool, words: tuple[str, str]
) -> None:
    toolcaddie.ok("authored", "approve", "count_words")
    verb, value = words
    result = toolcaddie("authored", verb, "count_words", value)
    assert "pending" in result.stdout
    assert "waits for approval again; until then, bots cannot call it" in result.stderr
    assert f"+{'name' if verb == 'rename' else 'scope'}: {value}" in toolcaddie.ok("authored", "diff", tool.id)


def test_nobody_approves_a_tool_of_their_own_but_may_reject_it(toolcaddie: CommandLine) -> None:
    _with_service(lambda service: written(service, author=Principal(id=user_name())))
    assert "nobody approves a tool of their own" in toolcaddie.refused("authored", "approve", "count_words", "--json")
    assert "rejected" in toolcaddie.ok("authored", "reject", "count_words")


def test_who_is_no_approver_sees_nothing(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[policy]\napprovers = ["role:manager"]\n')
    assert toolcaddie.json("authored", "list")["tools"] == []
    refusal = toolcaddie.refused("authored", "show", "count_words")
    assert "there is no tool 'count_words'; there are none" in refusal


def test_a_rule_about_approving_sees_what_was_written(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    rule = (
        'forbid (principal, action == Action::"approve", resource == Tool::"create_tool") '
        'when { context.tainted && context.arguments.type == "python" };'
    )
    (toolcaddie.home / "rules.cedar").write_text(rule)
    (toolcaddie.home / "toolcaddie.toml").write_text('[policy]\nfiles = ["rules.cedar"]\n')
    assert toolcaddie.json("authored", "list")["tools"] == []


def test_another_tenant_sees_nothing(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    assert toolcaddie.json("authored", "list", "--tenant", "other") == {"tools": [], "broken": []}
    assert "there is no tool" in toolcaddie.refused("authored", "approve", tool.id, "--tenant", "other")


def test_hostile_source_cannot_control_the_terminal_or_hide_a_character(
    toolcaddie: CommandLine, tool: AuthoredTool
) -> None:
    _source_of(tool).write_text("def run(text):\n    return '\x1b]52;c;x\x07\u202e\u200b\u3164'\n")
    shown = toolcaddie.ok("authored", "show", "count_words")
    assert "return '\\x1b]52;c;x\\x07\\u202e\\u200b\\u3164'" in shown
    assert "never accepted: The line has characters that nobody sees" in shown
    assert shown.isprintable() or not any(each in shown for each in "\x1b\x07\u202e\u200b\u3164")
    assert "this source is never accepted" in toolcaddie.refused(
        "authored", "approve", "count_words", "--digest", toolcaddie.json("authored", "show", tool.id)["tool"]["digest"]
    )


def test_findings_stand_below_their_lines(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    _source_of(tool).write_text("def run(text):\n    return getattr(text, text)()\n")
    lines = toolcaddie.ok("authored", "show", "count_words").splitlines()
    at = lines.index("    2 |     return getattr(text, text)()")
    assert lines[at + 1].startswith("      ! warning: ")


def test_a_broken_folder_is_reported_and_can_be_deleted(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    Path(STORE_PATH, tool.id, "meta.json").write_text("{")
    listed = toolcaddie("authored", "list")
    assert "cannot be used: count_words: meta.json cannot be read" in listed.stderr
    toolcaddie.ok("authored", "delete", tool.id)
    assert toolcaddie.json("authored", "list")["broken"] == []


def test_the_settings_of_the_source_name_the_folder(toolcaddie: CommandLine) -> None:
    _with_service(written, "elsewhere")
    assert toolcaddie.json("authored", "list")["tools"] == []
    (toolcaddie.home / "toolcaddie.toml").write_text(
        '[[source]]\ntype = "authored"\nstore_path = "elsewhere"\nprefix = "own"\n'
    )
    assert [each["definition"]["name"] for each in toolcaddie.json("authored", "list")["tools"]] == ["count_words"]


@sqlite_only("a file is made by whoever opens it")
def test_the_store_is_not_made_by_reading_it(toolcaddie: CommandLine) -> None:
    assert toolcaddie.json("authored", "list")["tools"] == []
    assert "there is no database" in toolcaddie.refused(
        "authored", "approve", "x", "--database-url", "sqlite:///no.sqlite"
    )
    assert not list(toolcaddie.home.iterdir())


def test_a_long_note_is_refused(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    assert "at most 2,000" in toolcaddie.refused("authored", "reject", "count_words", "--note", "x" * 2_001)


def test_a_tool_is_tried_without_an_approval_of_it(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    toolcaddie.ok("authored", "approve", "count_words")
    tried = toolcaddie("authored", "run", "count_words", '{"text": "one two"}')
    if tried.exit_code == 2 and "sandbox" in tried.stderr:
        pytest.skip(f"this machine has no sandbox: {tried.stderr}")
    assert tried.stdout.strip() == "2", tried.stderr


def test_the_arguments_of_a_trial_are_a_json_object(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    assert "ARGUMENTS must be a JSON object" in toolcaddie.refused("authored", "run", "count_words", "[1]")


def test_who_asked_is_shown(toolcaddie: CommandLine, tool: AuthoredTool) -> None:
    assert (
        toolcaddie.json("authored", "list", "--by-bot", "assistant")["tools"][0]["author"]["principal"]["id"] == ANN.id
    )
    assert toolcaddie.json("authored", "list", "--by-bot", "another")["tools"] == []
