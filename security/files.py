"""The file tools: paths, links and races do not lead out of the base, files with secrets are refused, and a call costs little."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from security.corpora import texts_of
from security.file_places import Place, host_state, place
from security.file_setups import OWN_CASES, Case, played
from security.file_swaps import raced
from security.goals import Goal, none_of
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.testing.part_contracts.subject import context
from toolcaddie.tools.files import files

OWN_PATHS = (
    "../secret",
    "../outside/secret",
    "../../etc/passwd",
    "../" * 12 + "etc/passwd",
    "../" * 40 + "etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/../etc/passwd",
    "./../outside/secret",
    "a/../../outside/secret",
    "a/b/../../../outside/secret",
    "..",
    "../",
    "../base-evil/secret",
    "..%2foutside%2fsecret",
    "%2e%2e/outside/secret",
    "..%252foutside%252fsecret",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..\\outside\\secret",
    "..%5coutside%5csecret",
    "..%c0%afetc/passwd",
    "....//outside/secret",
    "..././outside/secret",
    "..;/outside/secret",
    "file:///etc/passwd",
    "\uff0e\uff0e/outside/secret",
    "\uff0e\uff0e\uff0foutside\uff0fsecret",
    "../outside/secret\x00.txt",
    "../outside/secret%00.txt",
    "~/.ssh/id_rsa",
    "~root/.ssh/id_rsa",
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd/../outside/secret",
    "/dev/fd/0",
    "/proc/1/environ",
    "C:\\boot.ini",
    "..\x01/outside/secret",
    "../outside/./secret",
    "../outside//secret",
    " ../outside/secret",
    "../outside/secret ",
    "\u2025/outside/secret",
    "..\u2215outside\u2215secret",
)
"""One path for each way out that we know."""
OWN_SECRETS = (
    "/srv/app/.env",
    "/srv/app/.env.production",
    "/srv/app/deploy/prod.env",
    "/srv/app/.ENV",
    "/srv/app/.env.bak",
    "/srv/app/.env~",
    "/srv/app/.env.",
    "/srv/app/.env::$DATA",
    "/srv/app/%2eenv",
    "/srv/app/\uff0eenv",
    "/srv/app/server.key",
    "/srv/app/tls/server.pem",
    "/srv/app/id_rsa",
    "/srv/app/.id_ed25519.swp",
    "/home/ann/.ssh/config",
    "/home/ann/.aws/credentials",
    "/home/ann/.kube/config",
    "/home/ann/.docker/config.json",
    "/home/ann/.netrc",
    "/home/ann/.bash_history",
    "/home/ann/.config/gcloud/credentials.db",
    "/srv/app/credentials.json",
    "/srv/app/client_secret_12.json",
    "/srv/app/service-account-prod.json",
    "/srv/app/secrets.yaml",
    "/srv/app/config/master.key",
    "/srv/app/terraform.tfstate",
    "/srv/app/prod.tfvars",
    "/srv/app/db-passwords.xlsx",
    "/srv/app/api_keys.txt",
    "/srv/app/vault.kdbx",
    "/srv/app/wallet.dat",
    "/srv/app/.htpasswd",
    "/srv/app/wp-config.php.old",
    "/srv/app/token.json",
    "/etc/shadow",
    "/proc/1/environ",
    "/dev/mem",
    "/var/run/docker.sock",
    "/srv/app/.git/config",
    "/srv/app/Login Data",
    "/srv/app/key4.db",
)
"""One path for each class of files with secrets."""
OWN_ORDINARY = (
    "/srv/app/README.md",
    "/srv/app/src/secrets.py",
    "/srv/app/src/token.ts",
    "/srv/app/docs/credentials.md",
    "/srv/app/.env.example",
    "/srv/app/config/settings.toml",
    "/srv/app/package.json",
    "/srv/app/.gitignore",
    "/srv/app/.github/workflows/secrets.yml",
    "/srv/app/tests/test_passwords.py",
    "/srv/app/tests/fixtures/tls/server.key",
    "/srv/app/keyboard.json",
    "/srv/app/monkey.txt",
    "/srv/app/src/environment.ts",
    "/srv/app/secrets.sample.yaml",
    "/srv/app/Makefile",
    "/srv/app/data/tokens_per_day.csv",
    "/srv/app/history.md",
    "/srv/app/author.json",
    "/srv/app/static/passwords.html",
    "/srv/app/public.crt",
    "/srv/app/uv.lock",
)
"""Ordinary files of projects, some of which speak of secrets."""
_ROUNDS = 1_000_000
_TIMED = 200
_TRIES, _PAUSE = 3, 0.3


def attacked(corpora: Path | None, *, quick: bool) -> Sequence[Goal]:
    """Returns the goals of the file tools."""
    return [
        *_paths(corpora),
        *_set_ups(corpora),
        *raced(20_000 if quick else _ROUNDS, tool_rounds=500 if quick else 10_000),
        *_secrets(corpora),
        *_speed(quick),
    ]


# --- paths --------------------------------------------------------------------------------------------------------------


def _paths(corpora: Path | None) -> Sequence[Goal]:
    own = asyncio.run(traversed("paths of ours", OWN_PATHS))
    lines = texts_of(corpora, "path_traversal.txt")
    return own if lines is None else [*own, *asyncio.run(traversed("lines of path_traversal.txt", lines))]


async def traversed(name: str, paths: Sequence[str]) -> Sequence[Goal]:
    """Reads, edits and writes each path as it is, and after one and two decodings."""
    with place(memory=True) as where:
        (where.base / "inside.txt").write_text("inside\n")
        source = files(base_path=str(where.base))
        before, host = where.outside_state(), host_state()
        seen, total = 0, 0
        for path in dict.fromkeys(form for line in paths for form in _forms(line)):
            for call, arguments in _calls(path, where):
                result = await _called(source, call, arguments)
                total += 1
                if where.canary in result.text or (call == "file_read" and not _is_inside(result)):
                    seen += 1
                    print(f"read outside: {path!r}: {result.text[:100]!r}")
        changed = {*before.items(), *host.items()} ^ {*where.outside_state().items(), *host_state().items()}
    for path, _ in sorted(changed):
        print(f"changed outside: {path}")
    return [
        none_of(f"calls with {name} that read bytes outside of the base", seen, total),
        none_of(f"files outside of the base that calls with {name} made or changed", len(changed), total),
    ]


def _forms(path: str) -> Sequence[str]:
    once = unquote(path)
    return (path, once, unquote(once))


def _calls(path: str, where: Place) -> Sequence[tuple[str, Mapping[str, Any]]]:
    return (
        ("file_read", {"path": path}),
        ("file_edit", {"path": path, "old_text": where.canary, "new_text": "edited"}),
        ("file_write", {"path": path, "content": "written\n"}),
        ("file_write", {"path": path, "content": "appended\n", "append": True}),
    )


async def _called(source: FunctionSource, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Judges and makes a call, as if a person had approved it. What its judgement shows counts as read."""
    [tool] = [tool for tool in source.tools() if tool.name == name]
    judged = await source.assess(tool, dict(arguments), context())
    result = await source.call_tool(tool, dict(arguments), context())
    return replace(result, content=f"{result.text}\n{judged.preview}") if judged.preview else result


def _is_inside(result: ToolResult) -> bool:
    """Returns whether a reading call failed, or gave what our own calls had written."""
    words = {"inside", "written", "appended"}
    if result.is_error or result.text.startswith("[") or " is a folder: " in result.text:
        return True
    return {line.partition("\t")[2] for line in result.text.splitlines()} <= words


# --- set-ups, secrets, costs --------------------------------------------------------------------------------------------


def _set_ups(corpora: Path | None) -> Sequence[Goal]:
    lines = None if corpora is None else corpora / "path_fs_cases.jsonl"
    own = [_played("set-ups of ours", OWN_CASES)]
    if lines is None or not lines.is_file():
        print("skipped: there is no path_fs_cases.jsonl")
        return own
    cases = [msgspec.json.decode(line, type=Case) for line in lines.read_bytes().splitlines() if line.strip()]
    return [*own, _played("set-ups of path_fs_cases.jsonl", cases)]


def _played(name: str, cases: Sequence[Case]) -> Goal:
    outcomes = {case.id: played(case) for case in cases}
    for case, outcome in outcomes.items():
        if outcome:
            print(f"{case}: {outcome}")
    return none_of(
        f"{name} that led out of the base, hung or tore a file",
        sum(map(bool, outcomes.values())),
        sum(outcome is not None for outcome in outcomes.values()),
    )


def _secrets(corpora: Path | None) -> Sequence[Goal]:
    goals = [
        _share("secret paths of ours that are refused", OWN_SECRETS, refused=True),
        _share("ordinary files of ours that are refused", OWN_ORDINARY, refused=False),
    ]
    for file, refused in (("secret_paths.txt", True), ("secret_paths_allow.txt", False)):
        lines = texts_of(corpora, file)
        if lines is not None:
            goals.append(_share(f"lines of {file} that are refused", lines, refused=refused))
    return goals


def _share(name: str, paths: Sequence[str], *, refused: bool) -> Goal:
    reason = SecretPaths.of().reason
    wrong = [path for path in paths if (reason(path) is not None) != refused]
    for path in wrong:
        print(f"{'readable' if refused else f'refused ({reason(path)})'}: {path}")
    count = len(paths) - len(wrong) if refused else len(wrong)
    share = count / len(paths)
    return Goal(
        name=name,
        figure=f"{count:,} of {len(paths):,} ({share:.2%})",
        goal="at least 99 %" if refused else "at most 0.2 %",
        met=share >= 0.99 if refused else share <= 0.002,
    )


def _speed(quick: bool) -> Sequence[Goal]:
    """Measures calls beside the same work without them. With `quick`, for busy machines, ten times as much is allowed."""
    most = 10.0 if quick else 1.0
    with place(memory=True, depth=1) as where:
        source = files(base_path=str(where.base))
        file = where.base / "folder" / "file.txt"
        file.parent.mkdir()
        file.write_text("an ordinary line\n" * 100 + "the last line\n")
        text, other = "the last line", "a last line"
        edits = [{"path": "folder/file.txt", "old_text": a, "new_text": b} for a, b in ((text, other), (other, text))]
        return [
            _added(
                "file_read",
                lambda number: _called(source, "file_read", {"path": "folder/file.txt"}),
                lambda: _plain_read(file),
                most,
            ),
            _added(
                "file_edit",
                lambda number: _called(source, "file_edit", edits[number % 2]),
                lambda: _plain_write(file),
                most,
            ),
        ]


def _added(name: str, call: Callable[[int], Any], plain: Callable[[], object], most: float) -> Goal:
    """Returns the goal of one tool, measured up to `_TRIES` times until it is met, because a delay by the program repeats and a
    delay by the machine does not."""
    for _ in range(_TRIES):
        p95 = [statistics.quantiles(times, n=20)[-1] * 1_000 for times in asyncio.run(_times(call, plain))]
        if p95[0] - p95[1] <= most:
            break
        time.sleep(_PAUSE)
    return Goal(
        name=f"what the judgement and the call of {name} add to the same work without them, p95",
        figure=f"{p95[0] - p95[1]:.2f} ms ({p95[0]:.2f} - {p95[1]:.2f})",
        goal=f"at most {most:g} ms",
        met=p95[0] - p95[1] <= most,
    )


async def _times(call: Callable[[int], Any], plain: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Returns the seconds of each call, and of the same work without one, in turn."""
    calls, plains = [], []
    for number in range(_TIMED):
        began = time.perf_counter()
        await call(number)
        between = time.perf_counter()
        plain()
        calls.append(between - began)
        plains.append(time.perf_counter() - between)
    return calls, plains


def _plain_read(file: Path) -> str:
    with file.open(encoding="utf-8") as opened:
        return opened.read()


def _plain_write(file: Path) -> None:
    """Writes a file as careful programs do: another file, onto the disk, then the name."""
    text = _plain_read(file)
    new = file.with_name("new")
    with new.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
