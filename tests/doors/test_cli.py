"""The command line as a whole: help, exit codes, errors, settings, start."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.doors.commandline import CommandLine
from toolcaddie import __version__
from toolcaddie.doors.cli import cli
from toolcaddie.doors.cli.lazy import LazyGroup


def _commands() -> Iterator[tuple[str, click.Command]]:
    assert isinstance(cli, LazyGroup)
    for name, (module, _) in cli.lazy.items():
        command = importlib.import_module(module).command
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", command.commands[inner]) for inner in command.commands)


def _process(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCADDIE_")}
    clean.pop("OPENAI_API_KEY", None)
    return subprocess.run(
        [sys.executable, "-m", "toolcaddie", *words], cwd=cwd, env=clean, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("name", "command"), list(_commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_says_what_it_does_and_shows_an_example(
    name: str, command: click.Command, toolcaddie: CommandLine
) -> None:
    told = toolcaddie.ok(*name.split(), "--help")
    assert command.help
    assert "Example" in told
    assert f"toolcaddie {name}" in told
    assert all(len(line) <= 80 for line in told.splitlines())
    assert "--json" in told or isinstance(command, click.Group)


def test_the_list_of_commands_says_of_each_what_the_command_says_itself() -> None:
    """The sentences are kept beside the modules so that the list needs no import."""
    assert isinstance(cli, LazyGroup)
    told = {name: sentence for name, (_, sentence) in cli.lazy.items()}
    assert told == {name: (command.help or "").split("\n\n")[0] for name, command in _commands() if " " not in name}


def test_help_and_version_load_none_of_the_heavy_libraries(tmp_path: Path) -> None:
    heavy = ["numpy", "aiohttp", "sqlalchemy", "pydantic", "rich", "structlog", "uvicorn", "msgspec"]
    code = (
        "import sys\nfrom toolcaddie.doors.cli import cli\n"
        "try:\n    cli.main(['--help'], prog_name='toolcaddie')\n"
        f"except SystemExit:\n    print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_a_selection_by_words_loads_no_http_client_and_no_database(tmp_path: Path) -> None:
    heavy = [
        "aiohttp",
        "sqlalchemy",
        "uvicorn",
        "toolcaddie.providers.client",
        "toolcaddie.wires.gemini",
    ]
    code = (
        "import sys\nfrom toolcaddie.doors.cli import cli\n"
        "try:\n    cli.main(['select', '--catalog', 'gym', 'freeze a membership'], prog_name='toolcaddie')\n"
        f"except SystemExit as end:\n    print(end.code, [name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []", done.stdout + done.stderr


def test_the_version_is_told(toolcaddie: CommandLine) -> None:
    assert toolcaddie.ok("--version") == f"toolcaddie {__version__}\n"


def test_python_m_runs_the_same_command_line_with_its_exit_codes(tmp_path: Path) -> None:
    fine = _process("select", "freeze John's membership", "--catalog", "gym", "--json", cwd=tmp_path)
    wrong = _process("select", "freeze", "--catalog", "gmy", cwd=tmp_path)
    failed = _process("call", "freeze_membership", "client_id=1", "--catalog", "gym", cwd=tmp_path)
    assert (fine.returncode, wrong.returncode, failed.returncode) == (0, 2, 1)
    assert "freeze_membership" in [tool["name"] for tool in json.loads(fine.stdout)["tools"]]
    assert wrong.stderr.startswith("error: no catalog 'gmy'; did you mean 'gym'?")
    assert "Traceback" not in wrong.stderr + failed.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fly"], "No such command 'fly'"),
        (["trial"], "No such command 'trial'; did you mean 'trail'?"),
        (["select"], "Missing argument 'MESSAGE'"),
        (["select", "x", "--catalog", "gym", "--preset", "bugdet"], "'bugdet' is not one of"),
        (["select", "x", "--catalog", "gym", "--max-tools", "-1"], "--max-tools"),
        (["select", "x", "--catalog", "gym", "--history", "none.json"], "none.json"),
        (["select", "x"], "no catalog is named; add --catalog SPEC"),
        (["select", "x", "--catalog", "missing.jsonl"], "missing.jsonl"),
        (["select", "x", "--catalog", "python:no_such_module"], "no_such_module"),
        (["--config", "none.toml", "tools"], "none.toml"),
        (["run", "x", "--upstream-key-env", "NO_SUCH_KEY"], "the environment variable NO_SUCH_KEY is not set"),
        (["run", "x", "--database-url", "mysql://x"], "mysql"),
        (["why", "freeze_membership", "--catalog", "gym"], "give a tool and a message, or --run RUN_ID"),
        (["trail", "run_unknown"], "nothing is recorded of run 'run_unknown'"),
        (["trail", "last"], "no run is recorded yet; `toolcaddie run MESSAGE` makes one"),
        (["why", "--run", "last"], "no run is recorded yet"),
        (["keys", "revoke", "nobody"], "there is no key 'nobody'"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
        (["completion"], "Choose from: bash, zsh, fish. See 'toolcaddie completion --help'."),
        (["select", "x", "--prese", "default"], "Did you mean '--preset'? See 'toolcaddie select --help'."),
    ],
)
def test_wrong_use_is_one_line_that_names_it_and_exit_code_2(
    words: list[str], told: str, toolcaddie: CommandLine
) -> None:
    line = toolcaddie.refused(*words)
    assert line.startswith("error: ")
    assert told in line


@pytest.mark.parametrize("words", [[], ["keys"]])
def test_without_a_command_the_help_is_shown_and_that_is_wrong_use(words: list[str], toolcaddie: CommandLine) -> None:
    done = toolcaddie(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == toolcaddie.ok(*words, "--help")


def test_with_json_an_error_is_json_on_stderr_and_stdout_stays_empty(toolcaddie: CommandLine) -> None:
    catalog = json.loads(toolcaddie.refused("select", "x", "--catalog", "gmy", "--json"))
    usage = json.loads(toolcaddie.refused("select", "--json"))
    assert catalog["error"]["kind"] == "ConfigError"
    assert "did you mean 'gym'?" in catalog["error"]["message"]
    assert usage["error"]["kind"] == "MissingParameter"


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]\n[budget]\nmax_tools = 3\n')

    def chosen(*flags: str) -> int:
        found = toolcaddie.json("select", "freeze John's membership", *flags)["tools"]
        return sum(not tool["core"] for tool in found)

    assert chosen() == 3
    monkeypatch.setenv("TOOLCADDIE_BUDGET_MAX_TOOLS", "5")
    assert chosen() == 5
    assert chosen("--max-tools", "7") == 7


def test_the_settings_file_can_be_named_by_flag_and_by_variable(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("other.toml").write_text('catalogs = ["gym"]\n')
    assert "137 of 137 tools" in toolcaddie.ok("--config", "other.toml", "tools")
    monkeypatch.setenv("TOOLCADDIE_CONFIG", "other.toml")
    assert "137 of 137 tools" in toolcaddie.ok("tools")


def test_a_mistake_in_the_settings_file_is_told_with_its_line(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('catalogs = ["gym"]\n[budget]\nmax_tool = 3\n')
    line = toolcaddie.refused("tools")
    assert "toolcaddie.toml:3" in line
    assert "did you mean 'max_tools'?" in line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str, toolcaddie: CommandLine) -> None:
    assert f"_TOOLCADDIE_COMPLETE={shell}_complete" in toolcaddie.ok("completion", shell)


def test_the_shell_completes_commands_and_catalogs(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(words: str) -> str:
        monkeypatch.setenv("_TOOLCADDIE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        return toolcaddie.ok()

    assert "plain,select" in completed("toolcaddie sel")
    assert "plain,gym" in completed("toolcaddie select x --catalog g")
    assert "plain,budget" in completed("toolcaddie select x --preset b")


def test_init_writes_a_file_that_works_and_never_writes_over_one(toolcaddie: CommandLine) -> None:
    assert "wrote toolcaddie.toml" in toolcaddie.ok("init")
    assert "137 of 137 tools" in toolcaddie.ok("tools")
    Path("toolcaddie.toml").write_text("# mine\n")
    assert "--force" in toolcaddie.refused("init")
    assert Path("toolcaddie.toml").read_text() == "# mine\n"
    assert toolcaddie.json("init", "--force") == {"path": str(Path("toolcaddie.toml").resolve())}
    assert "preset" in Path("toolcaddie.toml").read_text()


def test_plugins_shows_our_own_parts_and_one_that_failed(
    toolcaddie: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's package on the path, whose module breaks when it is imported."""
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[toolcaddie.rankers]\nbroken = broken_ranker:factory\n")
    (tmp_path / "site" / "broken_ranker.py").write_text("raise RuntimeError('out of luck')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = {plugin["name"]: plugin for plugin in toolcaddie.json("plugins")["plugins"]}
    assert found["gym"]["error"] is None
    assert found["gym"]["group"] == "toolcaddie.sources"
    assert "out of luck" in found["broken"]["error"]
    assert "out of luck" in toolcaddie.ok("plugins")


def test_tools_lists_one_category_and_finds_tools_that_hold_every_word(toolcaddie: CommandLine) -> None:
    listed = toolcaddie.json("tools", "--catalog", "gym", "--category", "memberships")
    assert listed["count"] == len(listed["tools"]) > 1
    assert {tool["category"] for tool in listed["tools"]} == {"memberships"}
    matching = toolcaddie.json("tools", "--catalog", "gym", "--search", "freeze membership")["tools"]
    assert matching[0]["name"] == "freeze_membership"
    assert len(matching) <= 50
    assert toolcaddie.json("tools", "--catalog", "gym", "--search", "freeze", "--category", "staff")["tools"] == []


def test_a_tool_that_is_not_there_is_refused_with_close_names(toolcaddie: CommandLine) -> None:
    refusal = toolcaddie.refused("tools", "show", "freeze_membershp", "--catalog", "gym")
    assert "there is no tool 'freeze_membershp'; did you mean freeze_membership" in refusal
