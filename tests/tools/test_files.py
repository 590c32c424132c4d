"""The tools `file_read`, `file_write` and `file_edit`, through a runtime with the policy that ships."""

from __future__ import annotations

import os
import re
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, DuplicateToolError
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.openat2 import problem
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.tools.files import files

if problem():
    pytest.skip(problem(), allow_module_level=True)

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", tenant="house", bot="notes")
BOSS = Principal(id="boss", tenant="house")


def runtime(base: Path, *script: Any, policy: Any = None, **settings: Any) -> Runtime:
    """Returns a runtime with the file tools; without a policy, the one that ships decides."""
    source = files(base_path=str(base), **settings)
    return Runtime(provider=ScriptedProvider(script), sources=[source], **({"policy": policy} if policy else {}))


@pytest.fixture
async def trusting(tmp_path: Path) -> AsyncIterator[Runtime]:
    """A runtime whose policy asks nobody."""
    async with runtime(tmp_path, policy=AllowAll()) as made:
        yield made


async def read(made: Runtime, path: str, **more: Any) -> ToolResult:
    return await made.call("file_read", {"path": path, **more}, principal=ANN)


async def write(made: Runtime, path: str, content: str, **more: Any) -> ToolResult:
    return await made.call("file_write", {"path": path, "content": content, **more}, principal=ANN)


async def edit(made: Runtime, path: str, old: str, new: str, **more: Any) -> ToolResult:
    return await made.call("file_edit", {"path": path, "old_text": old, "new_text": new, **more}, principal=ANN)


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Yields the largest number of bytes that Python had taken since, whichever thread took them."""
    tracemalloc.start()
    try:
        yield lambda: peak
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- file_read ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-53")
async def test_lines_are_read_with_their_numbers_from_an_offset_and_up_to_a_limit(
    tmp_path: Path, trusting: Runtime
) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\nfour\n")
    assert (await read(trusting, "poem.txt")).text == "     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour"
    part = await read(trusting, "poem.txt", offset=2, limit=2)
    assert part.text == "     2\ttwo\n     3\tthree\n[more lines follow; read on with offset=4]"
    assert (await read(trusting, "poem.txt", offset=4, limit=9)).text == "     4\tfour"
    beyond = await read(trusting, "poem.txt", offset=5)
    assert (beyond.error, beyond.text) == ("failed", "poem.txt has fewer than 5 lines")


@pytest.mark.proves("R002-57")
async def test_of_a_file_over_the_limit_the_part_that_fits_is_read_and_the_rest_by_offset(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(1, 5_001)]
    (tmp_path / "long.txt").write_text("\n".join(lines))
    seen: list[str] = []
    async with runtime(tmp_path, max_file_size_bytes=10_000) as made:
        offset: int | None = 1
        while offset:
            text = (await read(made, "long.txt", offset=offset)).text
            assert len(text) < 20_000
            seen += re.findall(r"^ *\d+\t(.*)$", text, re.MULTILINE)
            following = re.search(r"read on with offset=(\d+)", text)
            offset = int(following[1]) if following else None
    assert seen == lines


async def test_a_line_that_is_too_long_is_cut_and_the_next_one_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text("é" * 1_000 + "\nnext\n")
    async with runtime(tmp_path, max_file_size_bytes=101) as made:
        text = (await read(made, "wide.txt")).text
        assert (
            text == "     1\t" + "é" * 50 + "\n[line 1 is longer than 101 bytes and is cut; the next one is offset=2]"
        )
        assert (await read(made, "wide.txt", offset=2)).text == "     2\tnext"


async def test_of_very_many_short_lines_a_bounded_number_is_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("\n" * 1_000_000)
    async with runtime(tmp_path) as made:
        with peak_memory() as peak:
            text = (await read(made, "short.txt", limit=900_000)).text
        assert "the whole result has 400046 bytes" in text  # each line has a number of 6 digits, a tab and a line end
        assert peak() < 28_000_000
        assert (await read(made, "short.txt", offset=900_000, limit=1)).text.startswith("900000\t\n[more lines follow")


async def test_empty_binary_and_odd_files_are_described(tmp_path: Path, trusting: Runtime) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "picture.bin").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    (tmp_path / "dos.txt").write_bytes(b"a\r\nb\r\n")
    assert (await read(trusting, "empty")).text == "[the file is empty]"
    assert (await read(trusting, "picture.bin")).text == "picture.bin is not text but a binary file of 6 bytes"
    assert (
        await read(trusting, "latin.txt")
    ).text == "     1\tcaf\ufffd\n[bytes that are not UTF-8 are shown as \ufffd]"
    assert (await read(trusting, "dos.txt")).text == "     1\ta\n     2\tb\n[lines end with CR LF]"
    assert (await read(trusting, "missing")).text == "there is no missing in the workspace"


async def test_the_names_in_a_folder_are_listed_without_secret_ones(tmp_path: Path, trusting: Runtime) -> None:
    for name in ("notes/a.txt", "notes/.env", "notes/.ssh/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert (await read(trusting, "notes")).text == "notes is a folder: a.txt"
    assert (await read(trusting, ".")).text == ". is a folder: notes/"
    assert "belongs to SSH" in (await read(trusting, "notes/.ssh")).text


async def test_what_is_read_counts_as_untrusted_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    assert [each.untrusted for each in files(base_path=str(tmp_path)).tools()] == [True, False, False]
    assert not any(each.untrusted for each in files(base_path=str(tmp_path), untrusted=False).tools())


# --- file_write --------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-58")
async def test_files_are_created_overwritten_and_appended_and_missing_folders_are_made(
    tmp_path: Path, trusting: Runtime
) -> None:
    first = await write(trusting, "notes/2026/may.md", "one\n")
    assert first.text == "Wrote notes/2026/may.md, which now has 4 bytes."
    await write(trusting, "notes/2026/may.md", "two\n")
    await write(trusting, "notes/2026/may.md", "three\n", append=True)
    await write(trusting, "new.md", "first\n", append=True)
    assert (tmp_path / "notes/2026/may.md").read_text() == "two\nthree\n"
    assert (tmp_path / "new.md").read_text() == "first\n"


async def test_no_content_over_the_limit_is_written(tmp_path: Path) -> None:
    async with runtime(tmp_path, policy=AllowAll(), max_file_size_bytes=10) as made:
        for more in ({}, {"append": True}):
            result = await write(made, "a", "é" * 6, **more)
            assert "the file would have 12 bytes; at most 10 are allowed" in result.text
        assert not (tmp_path / "a").exists()
        await write(made, "a", "123456")
        assert "11 bytes" in (await write(made, "a", "78901", append=True)).text
    assert (tmp_path / "a").read_text() == "123456"


# --- file_edit ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-59")
async def test_an_edit_replaces_exactly_the_text_and_nothing_else(tmp_path: Path, trusting: Runtime) -> None:
    (tmp_path / "a.py").write_text("x = 1  \ny = x\n")
    assert (await edit(trusting, "a.py", "x = 1  \n", "x = 2\n")).text == "Edited a.py: 1 replacement."
    assert (tmp_path / "a.py").read_text() == "x = 2\ny = x\n"
    assert (await edit(trusting, "a.py", "x", "z", replace_all=True)).text == "Edited a.py: 2 replacements."
    assert (tmp_path / "a.py").read_text() == "z = 2\ny = z\n"
    assert "there is no file b.py in the workspace to edit" in (await edit(trusting, "b.py", "x", "z")).text


@pytest.mark.proves("R002-60")
async def test_a_text_that_is_missing_or_ambiguous_is_refused_with_its_count_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("tick tock tick\n")
    async with runtime(tmp_path) as made:
        missing = await edit(made, "a.txt", "tack", "x")
        ambiguous = await edit(made, "a.txt", "tick", "x")
        assert (missing.is_error, ambiguous.is_error) == (True, True)
        assert "old_text occurs 0 times in a.txt" in missing.text
        assert "old_text occurs 2 times in a.txt" in ambiguous.text
        assert await made.approvals.list("house") == []
    assert (tmp_path / "a.txt").read_text() == "tick tock tick\n"


async def test_edits_that_make_no_sense_are_refused(tmp_path: Path, trusting: Runtime) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    assert "old_text is empty" in (await edit(trusting, "a.txt", "", "x")).text
    assert "nothing would change" in (await edit(trusting, "a.txt", "a", "a")).text
    assert "not text in UTF-8" in (await edit(trusting, "b.txt", "a", "x")).text


async def test_a_file_with_lines_of_another_system_is_edited_in_its_own_way(tmp_path: Path, trusting: Runtime) -> None:
    (tmp_path / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await edit(trusting, "dos.txt", "one\ntwo\n", "1\n2\n")
    assert (tmp_path / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_an_edit_that_would_make_a_file_too_large_is_refused_before_its_content_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("e" * 1_000_000)
    async with runtime(tmp_path) as made:
        with peak_memory() as peak:
            result = await edit(made, "a.txt", "e", "é" * 100, replace_all=True)
        assert "the file would have 200,000,000 bytes; at most 1,048,576 are allowed" in result.text
        assert await made.approvals.list("house") == []
    assert peak() < 20_000_000


async def test_the_size_after_an_edit_counts_bytes_and_may_be_exactly_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x\r\nx\r\n")
    async with runtime(tmp_path, policy=AllowAll(), max_file_size_bytes=10) as made:
        assert "would have 12 bytes" in (await edit(made, "a.txt", "x\n", "éé\n", replace_all=True)).text
        assert (await edit(made, "a.txt", "x\n", "é\n", replace_all=True)).text == "Edited a.txt: 2 replacements."
    assert (tmp_path / "a.txt").read_bytes() == "é\r\né\r\n".encode()


# --- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "link/file", ".env", "keys/id_rsa", "plans/2027.txt"])
@pytest.mark.proves("R002-106")
async def test_paths_outside_and_secret_and_denied_ones_are_refused_before_anybody_is_asked(
    tmp_path: Path, path: str
) -> None:
    base, outside = tmp_path / "base", tmp_path / "outside"
    (base / "keys").mkdir(parents=True)
    outside.mkdir()
    (base / "link").symlink_to(outside)
    for file in (outside / "file", base / ".env", base / "keys" / "id_rsa"):
        file.write_text("SECRET")
    async with runtime(base, denied_patterns=("plans/",)) as made:
        for result in (
            await read(made, path),
            await write(made, path, "x"),
            await write(made, path, "x", append=True),
            await edit(made, path, "SECRET", "x"),
        ):
            assert result.error == "denied"
            assert "SECRET" not in result.text
        assert await made.approvals.list("house") == []
    assert all(file.read_text() == "SECRET" for file in (outside / "file", base / ".env", base / "keys" / "id_rsa"))


async def test_files_that_git_runs_are_read_and_not_written(tmp_path: Path, trusting: Runtime) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/hooks/pre-commit").write_text("true\n")
    assert "true" in (await read(trusting, ".git/hooks/pre-commit")).text
    assert (await write(trusting, ".git/hooks/pre-commit", "curl\n")).error == "denied"
    assert (await edit(trusting, ".git/hooks/pre-commit", "true", "curl")).error == "denied"


# --- questions ---------------------------------------------------------------------------------------------------------


def difference(preview: str) -> str:
    """Returns a preview without the effects that stand before the difference."""
    return re.sub(r"\Aeffect: .*\n\n", "", preview)


async def test_a_question_before_an_edit_shows_the_difference_and_counts_while_the_file_stays_the_same(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    arguments = {"path": "a.txt", "old_text": "two", "new_text": "2"}
    async with runtime(tmp_path, call("file_edit", arguments, call_id="c1"), say("done"), say("done")) as made:
        paused = await made.run("edit it", principal=ANN)
        [approval] = await made.approvals.list("house", status="open")
        assert re.sub(r"sha256 \w+", "sha256", difference(approval.preview)).splitlines() == [
            "--- a.txt (14 bytes, sha256)",
            "+++ a.txt (12 bytes, sha256)",
            "@@ -1,3 +1,3 @@",
            " one",
            "-two",
            "+2",
            " three",
        ]
        await made.approvals.answer("house", approval.id, approved=True, by=BOSS)
        file.write_text("one\ntwo\nthree\nfour\n")
        assert (await made.resume(paused.run_id)).status == "pending"
        [second] = await made.approvals.list("house", status="open")
        assert " four" not in approval.preview
        assert " four" in second.preview
        await made.approvals.answer("house", second.id, approved=True, by=BOSS)
        assert (await made.resume(paused.run_id)).text == "done"
    assert file.read_text() == "one\n2\nthree\nfour\n"


async def test_a_question_before_a_write_shows_what_is_replaced_and_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("a\nb\n")
    async with runtime(tmp_path) as made:
        await write(made, "old.txt", "a\nc\n")
        await write(made, "old.txt", "c\n", append=True)
        await write(made, "new.txt", "hello")
        previews = [difference(each.preview).splitlines()[2:] for each in await made.approvals.list("house")]
    assert sorted(previews) == sorted(
        [
            ["@@ -1,2 +1,2 @@", " a", "-b", "+c"],
            ["@@ -1,2 +1,3 @@", " a", " b", "+c"],
            ["@@ -0,0 +1,1 @@", "+hello", "\\ No newline at end of file"],
        ]
    )
    assert os.listdir(tmp_path) == ["old.txt"]


async def test_a_long_difference_is_cut_and_still_belongs_to_this_change_only(tmp_path: Path) -> None:
    async with runtime(tmp_path) as made:
        for last in ("x", "y"):
            await write(made, "long.txt", "\n".join(map(str, range(20_000))) + last)
        first, second = (difference(each.preview) for each in await made.approvals.list("house"))
    assert first != second
    assert first.splitlines()[3:] == second.splitlines()[3:]
    assert re.search(r"\.\.\. 19,\d\d\d more lines of the difference are not shown$", first)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("".join(f"{n}\n" for n in range(60_000)), "".join(f"{n}x\n" for n in range(60_000))),
        ("a\n" * 300_000, "b\n" * 300_000),
        ("\0\n" * 100_000, "b\n" * 300_000),
    ],
    ids=["different lines", "equal lines", "not text"],
)
async def test_a_difference_of_very_many_lines_is_shown_with_little_memory(
    tmp_path: Path, before: str, after: str
) -> None:
    (tmp_path / "many.txt").write_text(before)
    async with runtime(tmp_path) as made:
        with peak_memory() as peak:
            await write(made, "many.txt", after)
        [approval] = await made.approvals.list("house")
    assert len(approval.preview) < 60_000
    assert peak() < 28_000_000


async def test_a_file_that_is_too_large_to_compare_is_named_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("x" * 1_000)
    async with runtime(tmp_path, max_file_size_bytes=100) as made:
        await write(made, "big.txt", "small")
        [approval] = await made.approvals.list("house")
    assert difference(approval.preview).startswith("replaces big.txt, a file of 1,000 bytes, last changed at ")


# --- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-54")
async def test_all_settings_can_be_set_by_name(tmp_path: Path) -> None:
    config = {
        "base_path": str(tmp_path / "space"),
        "max_file_size_bytes": 20,
        "denied_patterns": ["*.draft"],
        "read_only": True,
        "folder_per": ["tenant", "bot"],
        "untrusted": False,
    }
    with capture_logs() as logs:
        source = Registry().make("source", "files", config)
    assert "workspace_made" in [line["event"] for line in logs]
    assert [each.name for each in source.tools()] == ["file_read"]
    async with Runtime(provider=ScriptedProvider([]), sources=[source]) as made:
        await read(made, "x")
        (tmp_path / "space/house/notes/a.draft").write_text("x")
        (tmp_path / "space/house/notes/a.txt").write_text("mine")
        assert "the settings deny '*.draft'" in (await read(made, "a.draft")).text
        assert (await read(made, "a.txt")).text == "     1\tmine"
        other = await made.call(
            "file_read", {"path": "a.txt"}, principal=Principal(id="ann", tenant="Häuser/..", bot="notes")
        )
        assert other.text == "there is no a.txt in the workspace"
    with pytest.raises(ConfigError, match="max_file_size_bytes"):
        Registry().make("source", "files", {"max_file_size_bytes": 0})


async def test_without_settings_the_folder_is_called_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files()
    assert (tmp_path / "workspace").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is not a folder"):
        files(base_path="file")


async def test_no_other_source_may_have_these_names(tmp_path: Path) -> None:
    @tool
    def file_read(path: str) -> str:
        """Read anything."""
        return path

    other = FunctionSource("mine", [file_read])
    with pytest.raises((ConfigError, DuplicateToolError)):
        async with Runtime(provider=ScriptedProvider([]), sources=[files(base_path=str(tmp_path)), other]):
            pass


async def test_hidden_tools_by_a_folder_that_a_stranger_made_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "base" / "house").symlink_to(tmp_path / "elsewhere")
    async with runtime(tmp_path / "base", policy=AllowAll(), folder_per=("tenant",)) as made:
        result = await write(made, "a", "x")
    assert result.is_error
    assert os.listdir(tmp_path / "elsewhere") == []
