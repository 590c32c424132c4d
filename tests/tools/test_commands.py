"""The tool `exec`: what runs, what is asked about, and what the model reads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.tools.command_rig import Alive, rig
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolAnnotations
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.testing import ScriptedProvider
from toolcaddie.testing.part_contracts.subject import context
from toolcaddie.util.replacing import replace

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="commands are run on Linux only"),
]

BOTH = pytest.mark.parametrize("kind", ["plain", "wall"])


def repository(folder: Path) -> Path:
    """Makes a work folder a repository with one commit. Returns the folder of its branches."""
    author = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
    for arguments in (("init", "-q", "-b", "old"), (*author, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder / ".git" / "refs" / "heads"


# --- the result -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-47")
@BOTH
async def test_the_result_has_exit_code_output_and_errors_apart(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        result = await box.exec("echo out; echo err >&2; touch made; exit 3")
        assert result.text == "Exit code 3.\n\nOutput:\nout\n\nErrors:\nerr"
        assert result.is_error
        assert result.structured == {
            "success": False,
            "exit_code": 3,
            "ending": "exited",
            "stdout": "out\n",
            "stderr": "err\n",
            "stdout_bytes": 4,
            "stderr_bytes": 4,
        }
        assert (box.folder / "made").exists()
        result = await box.exec("true")
        assert (result.text, result.success) == ("Exit code 0.\n\nThere is no output.", True)


@pytest.mark.proves("R002-47")
@BOTH
async def test_long_output_is_cut_and_its_size_named(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind, max_output_length=100) as box:
        result = await box.exec("seq 100000; seq 50000 >&2")
        assert "Output (the first 50 characters of 588,895 bytes" in result.text
        assert "Errors (the first 50 characters of 288,894 bytes" in result.text
        assert len(result.structured["stdout"]) + len(result.structured["stderr"]) == 100
        assert "first 99 characters" in (await box.exec("seq 100000; echo >&2")).text


@pytest.mark.proves("R002-47")
@BOTH
async def test_nothing_of_the_servers_environment_reaches_a_command(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "canary-17")
    async with rig(tmp_path, kind) as box:
        result = await box.exec("env; cat /proc/self/environ; set")
        assert "HOME=" in result.text
        assert "canary-17" not in result.text


@pytest.mark.proves("R002-48")
@BOTH
async def test_at_its_timeout_everything_that_a_command_started_is_dead(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind, timeout=1) as box:
        alive = Alive(box.folder)
        began = time.monotonic()
        result = await box.exec("exec 3> alive; setsid sleep 1001 & (sleep 1002 &) ; echo up; sleep 1003")
        assert 1 <= time.monotonic() - began < 3
        assert await alive.is_gone(0.1)
        assert (result.error, result.structured["ending"]) == ("timeout", "timeout")
        assert "killed after 1 seconds" in result.text
        assert "up" in result.text


@BOTH
async def test_processes_that_a_command_leaves_behind_are_dead_when_it_ends(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        alive = Alive(box.folder)
        result = await box.exec("exec 3> alive; setsid sleep 1001 >/dev/null 2>&1 & disown; echo done")
        assert result.structured["stdout"] == "done\n"
        assert await alive.is_gone(0.1)


async def test_a_command_has_no_more_time_than_its_call(tmp_path: Path) -> None:
    async with rig(tmp_path, most_seconds=1.5) as box:
        began = time.monotonic()
        result = await box.exec("sleep 60")
        assert time.monotonic() - began < 3
        assert "killed after" in result.text


@pytest.mark.proves("R002-43", "R002-50")
def test_the_settings_have_the_defaults_of_the_source_framework() -> None:
    settings = Registry().config_type("source", "exec")()
    assert (settings.timeout, settings.max_output_length) == (30, 10_000)
    assert (settings.max_sessions, settings.finished_ttl, settings.max_output_chars) == (10, 600, 200_000)
    assert (settings.workdir, settings.allowed_patterns, settings.denied_patterns) == ("workspace", (), ())


async def test_a_command_that_waits_for_its_turn_too_long_says_so_and_does_not_run(tmp_path: Path) -> None:
    async with rig(tmp_path, max_commands=1, timeout=20) as box:
        os.mkfifo(box.folder / "up")
        first = asyncio.create_task(box.exec("echo > up; sleep 60"))
        await asyncio.to_thread((box.folder / "up").read_text)
        context_of_late = replace(context(), deadline=time.monotonic() + 1)
        late = await box.source.call_tool(box.source.tools()[0], {"command": "touch late"}, context_of_late)
        assert late.is_error
        assert "did not run" in late.text
        assert not (box.folder / "late").exists()
        first.cancel()
        await asyncio.wait({first})
        assert (await box.exec("echo done")).success


async def test_no_more_commands_run_at_once_than_may(tmp_path: Path) -> None:
    async with rig(tmp_path, max_commands=1, timeout=20) as box:
        results = await asyncio.gather(*(box.exec("mkdir lock && ls && rmdir lock") for _ in range(10)))
        assert [result.text for result in results if not result.success] == []


# --- where it runs ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("R002-42")
@BOTH
async def test_a_command_starts_in_the_work_folder_or_a_folder_inside(tmp_path: Path, kind: str) -> None:
    async with rig(tmp_path, kind) as box:
        (box.folder / "sub" / "deep").mkdir(parents=True)
        (box.folder / "sub" / "here").write_text("")
        for workdir in ("sub", "./sub/", "/work/sub"):
            assert (await box.exec("ls", workdir=workdir)).structured["stdout"] == "deep\nhere\n"
        missing = await box.exec("ls", workdir="nowhere")
        assert missing.is_error
        assert "nowhere" in missing.text


@pytest.mark.parametrize("workdir", ["..", "sub/../..", "/etc", "/", "out", "/work/.."])
async def test_a_folder_outside_of_the_work_folder_is_refused(tmp_path: Path, workdir: str) -> None:
    async with rig(tmp_path) as box:
        (box.folder / "out").symlink_to("/etc")
        result = await box.exec("ls", workdir=workdir)
        assert result.error == "denied"
        assert "not inside the work folder" in result.text
        assert box.previews == []


async def test_the_work_folder_is_made_if_it_is_missing(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        assert box.folder.is_dir()


async def test_a_host_without_a_sandbox_refuses_to_start(tmp_path: Path) -> None:
    source = Registry().make("source", "exec", {"workdir": str(tmp_path)}, Parts())
    with pytest.raises(ConfigError, match="no sandbox"):
        await Runtime(provider=ScriptedProvider([]), sources=[source]).open()


# --- what is asked about ----------------------------------------------------------------------------------------------


async def test_a_line_that_only_reads_runs_unasked_and_can_write_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        (box.folder / "a").write_text("content\n")
        assert (await box.exec("cat a | wc -l")).structured["stdout"] == "1\n"
        heads = repository(box.folder)
        refused = await box.exec("git branch new")
        assert box.previews == []
        assert refused.is_error
        assert [path.name for path in heads.iterdir()] == ["old"]


async def test_after_untrusted_output_reading_still_runs_unasked_and_writing_is_still_asked_about(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, "wall") as box:
        conversation = {"conversation": "one"}
        for _ in range(2):
            assert (await box.exec("ls", options=conversation)).success
        assert box.previews == []
        await box.exec("touch a", options=conversation)
        assert len(box.previews) == 1


async def test_a_mistake_of_the_judgement_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcaddie.tools.commands.plans.doubt", lambda command: "")
    async with rig(tmp_path, "wall") as box:
        (box.folder / "a").write_text("content\n")
        result = await box.exec("rm -f a; echo x > b; touch /tmp/c; mkdir d")
        assert box.previews == []
        assert result.is_error
        assert "call exec again with write = true" in result.text
        assert [path.name for path in box.folder.iterdir()] == ["a"]


async def test_a_person_is_asked_about_any_other_line_and_sees_what_it_may_do(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        result = await box.exec("touch a", workdir=".")
        assert result.success, result.text
        assert box.previews == [
            "Runs in the work folder. It may change files of the work folder (touch is not known as a program that only reads), "
            "and it has no network.\n\ntouch a"
        ]
        assert (box.folder / "a").exists()
        box.answer = False
        assert (await box.exec("rm a")).error == "denied"
        assert (box.folder / "a").exists()


async def test_the_text_of_a_command_cannot_pretend_to_be_a_part_of_the_question(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        await box.exec("'x\n\nIt can write nothing.'\n\nIt can write nothing, and it has no network.")
        ours, _, theirs = box.previews[0].partition("\n\n")
        assert "It may change files" in ours
        assert theirs.startswith("'x")


async def test_a_call_that_says_that_it_writes_is_asked_about_and_may_write(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        (box.folder / "a").write_text("x")
        assert (await box.exec("xxd a b", write=True)).success
        assert len(box.previews) == 1
        assert (box.folder / "b").exists()


async def test_without_a_wall_every_command_is_asked_about_and_the_question_says_so(tmp_path: Path) -> None:
    async with rig(tmp_path, "plain") as box:
        await box.exec("ls")
        assert len(box.previews) == 1
        assert "no wall" in box.previews[0]


@pytest.mark.proves("R002-107")
async def test_commands_that_destroy_a_machine_are_refused_whatever_a_person_says(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        for command in ("rm -rf /", "shutdown now", ":(){ :|:& };:"):
            result = await box.exec(command)
            assert result.error == "denied"
            assert "always refused" in result.text
        assert box.previews == []


async def test_the_source_judges_again_when_it_runs_a_call(tmp_path: Path) -> None:
    """Nobody who calls the source itself gets more than the arguments allow."""
    async with rig(tmp_path, "wall") as box:
        tool = box.source.tools()[0]
        refused = await box.source.call_tool(tool, {"command": "rm -rf /"}, context())
        assert refused.error == "denied"
        heads = repository(box.folder)
        await box.source.call_tool(tool, {"command": "git branch new"}, context())
        assert [path.name for path in heads.iterdir()] == ["old"]


async def test_a_line_that_is_too_long_to_judge_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with rig(tmp_path) as box:
        tool = box.source.tools()[0]
        refused = await box.source.call_tool(tool, {"command": "echo " + "x" * 40_000}, context())
        assert refused.is_error
        assert (await box.source.assess(tool, {"command": "echo " + "x" * 40_000}, context())).refusal == (
            "the command has 40,005 characters, and at most 32,768 are read; write a long script to a file"
        )


async def test_lines_that_are_judged_for_long_leave_the_threads_of_other_work_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def slow(command: str) -> str:
        assert not command.startswith("slow") or goes_on.wait(20)
        return ""

    monkeypatch.setattr("toolcaddie.tools.commands.plans.forbidden", slow)
    async with rig(tmp_path) as box:
        calls = [asyncio.create_task(box.exec(f"slow {number}")) for number in range(20)]
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(len, "work") == 4
            assert (await box.exec("echo done")).success
        goes_on.set()
        await asyncio.gather(*calls)


@pytest.mark.proves("R002-107")
async def test_the_operators_patterns_refuse_and_deny_wins(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall", allowed_patterns=["ls", "cat "], denied_patterns=["secret"]) as box:
        assert (await box.exec("ls")).success
        for command in ("pwd", "ls; pwd", "cat secret.txt", "ls | cat secret"):
            assert (await box.exec(command)).error == "denied"
        assert box.previews == []


# --- secrets and network ----------------------------------------------------------------------------------------------


async def test_files_with_secrets_appear_empty(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall") as box:
        (box.folder / ".env").write_text("KEY=canary-18")
        (box.folder / "sub" / ".ssh").mkdir(parents=True)
        (box.folder / "sub" / ".ssh" / "id_rsa").write_text("canary-19")
        (box.folder / "plain.txt").write_text("visible")
        for write in (False, True):
            result = await box.exec("cat .env sub/.ssh/id_rsa plain.txt; grep -r canary . ; ls -laR", write=write)
            assert "visible" in result.text
            assert "canary" not in result.text


async def test_a_command_reaches_no_network_and_no_file_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("canary-20")
    async with rig(tmp_path, "wall") as box:
        result = await box.exec(f"cat {tmp_path}/outside; cat /work/../outside; cat /etc/shadow; cat /proc/net/dev")
        assert "canary-20" not in result.text
        assert "eth0" not in result.text


async def test_each_tenant_may_have_a_folder_of_its_own(tmp_path: Path) -> None:
    async with rig(tmp_path, folder_per=["tenant"]) as box:
        await box.exec("echo canary-21 > a", options={"principal": Principal(tenant="house")})
        assert (box.folder / "house" / "a").read_text() == "canary-21\n"
    async with rig(tmp_path, "wall", folder_per=["tenant"]) as box:
        seen = await box.exec("ls -R /work ..; cat ../*/a", options={"principal": Principal(tenant="other")})
        assert "canary-21" not in seen.text
        assert "house" not in seen.text


async def test_an_operator_may_hide_further_files(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall", hidden_patterns=["*.draft", "private/"]) as box:
        (box.folder / "private").mkdir()
        for name in ("a.draft", "private/b", "c.txt"):
            (box.folder / name).write_text(f"canary {name}\n")
        result = await box.exec("cat a.draft private/b c.txt")
        assert result.structured["stdout"] == "canary c.txt\n"


async def test_a_question_names_the_hosts_that_a_command_can_reach(tmp_path: Path) -> None:
    async with rig(tmp_path, "wall", egress=["pypi.org"]) as box:
        box.answer = False
        await box.exec("pip install x")
        assert "it can reach pypi.org" in box.previews[0]
        context_of_ann, tool = context(), box.source.tools()[0]
        asked = await box.source.assess(tool, {"command": "pip install x"}, context_of_ann)
        reads = await box.source.assess(tool, {"command": "ls"}, context_of_ann)
        assert asked.annotations is not None
        assert asked.annotations.open_world
        assert reads.annotations == ToolAnnotations(read_only=True, destructive=False, open_world=False)
        assert "no network" in reads.preview
