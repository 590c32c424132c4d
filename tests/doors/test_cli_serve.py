"""`toolcaddie serve` as a process, and `toolcaddie keys` beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import openai
import pytest

from tests.databases import database_url, home_environment, home_url, rows, sqlite_only
from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, say

_PATIENCE = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    process: subprocess.Popen[str]
    told: dict[str, Any]
    """Its announcement with --json."""

    @property
    def base_url(self) -> str:
        return str(self.told["base_url"])

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.base_url, api_key=key, max_retries=0, timeout=_PATIENCE)

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(kind)
        return self.process.wait(_PATIENCE)


@contextlib.contextmanager
def _serving(home: Path, *words: str, **environ: str) -> Iterator[Server]:
    """A server in a process of its own, on a free port; ready when it has said so."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCADDIE_")}
    clean.pop("OPENAI_API_KEY", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcaddie", "serve", "--port", "0", "--json", *words],
        cwd=home,
        env={**clean, **home_environment(home), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Server(process=process, told=_first_json(process.stdout))
    finally:
        process.kill()
        process.communicate()


def _first_json(lines: IO[str]) -> Any:
    said = ""
    for line in lines:
        said += line
        if line.startswith("}"):
            break
    return json.loads(said)


def _ask(client: openai.OpenAI, text: str = "freeze John's membership") -> str:
    answer = client.chat.completions.create(model="practice", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content or ""


def test_serve_answers_the_official_client_and_stops_on_a_signal_with_the_trail_written(tmp_path: Path) -> None:
    with _serving(tmp_path, "--catalog", "gym") as server:
        assert server.told["tools"] == 137
        assert server.told["provider"] == "practice"
        assert "freeze_membership" in _ask(server.client())
        assert server.stop() == 0
    kinds = [kind for (kind,) in rows(home_url(tmp_path), "select kind from events order by id")]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    assert kinds.count("call_finished") == 2


def test_a_client_behind_a_proxy_on_this_machine_is_a_client_of_another_machine(tmp_path: Path) -> None:
    with _serving(tmp_path, "--catalog", "gym") as server:
        assert "freeze_membership" in _ask(server.client())
        with pytest.raises(openai.PermissionDeniedError, match="only clients on its own machine"):
            _ask(server.client().with_options(default_headers={"x-forwarded-for": "203.0.113.7"}))
        assert server.stop() == 0


def test_serve_finishes_the_request_under_way_before_it_stops(tmp_path: Path) -> None:
    """The upstream answers only after the signal was sent."""
    asked, signalled = threading.Event(), threading.Event()

    def answer(body: Any) -> Any:
        asked.set()
        signalled.wait(_PATIENCE)
        return say("I took my time.")

    answers: list[str] = []
    with (
        ScriptedUpstream(answer) as upstream,
        _serving(tmp_path, "--catalog", "gym", "--upstream", upstream.base_url, OPENAI_API_KEY="test-key") as server,
    ):
        asking = threading.Thread(target=lambda: answers.append(_ask(server.client())))
        asking.start()
        assert asked.wait(_PATIENCE)
        server.process.send_signal(signal.SIGINT)
        signalled.set()
        assert server.process.wait(_PATIENCE) == 0
        asking.join(_PATIENCE)
    assert answers == ["I took my time."]


@contextlib.contextmanager
def _greeted(home: Path, *words: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server for a person, and the lines it greets them with."""
    kept = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcaddie", "serve", "--port", "0", *words],
        cwd=home,
        env={**kept, **home_environment(home), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told = ""
    try:
        while "/metrics" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        yield process, told
    finally:
        process.kill()
        process.communicate()


def test_serve_prints_ten_lines_of_what_to_try_next_and_says_when_it_has_stopped(tmp_path: Path) -> None:
    with _greeted(tmp_path, "--catalog", "gym") as (process, told):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_PATIENCE)
    assert out == ""
    assert err.splitlines()[-1] == "stopped"
    assert process.returncode == 0
    assert told.count("\n") == 10
    url = told.split()[3]
    assert f"{url} with 137 tools" in told
    for word in ("practice model", "OPENAI_API_KEY", "curl", f'base_url="{url}/v1"', "freeze membership of John"):
        assert word in told
    for word in ("toolcaddie chat --catalog gym", "toolcaddie trail ", "docs/"):
        assert word in told
    assert "authorization" not in told


def test_serve_says_that_a_key_alone_changes_no_model_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "toolcaddie.toml").write_text('model = "practice"\n')
    with _greeted(tmp_path) as (_, greeting):
        assert "practice model" in greeting
        assert "For a real one: name it with --model, or as `model` in the settings" in greeting
        assert "export OPENAI_API_KEY" not in greeting


@sqlite_only("an address that may have a password is not printed")
def test_what_serve_says_to_try_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    """Another database, and a shell that does not find the program by its name."""
    other = database_url(tmp_path / "other.sqlite")
    words = ("--catalog", "gym", "--database-url", other)
    with _greeted(tmp_path, *words, PATH="/usr/bin:/bin") as (_, told):
        typed = {line.split()[1]: line for line in told.splitlines() if line.split()[0].endswith("/toolcaddie")}
        for name in ("select", "trail"):
            done = subprocess.run(
                typed[name], shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
    assert "--catalog gym" in typed["chat"]
    assert f"--database-url {shlex.quote(other)}" in typed["chat"]


def test_what_serve_says_to_try_names_the_box_as_the_box(tmp_path: Path) -> None:
    with _greeted(tmp_path, "--catalog", "gym", "--box", "files,datetime") as (_, told):
        assert "toolcaddie chat --catalog gym --box files,datetime" in told


def test_a_server_without_a_catalog_does_not_speak_of_the_gym(tmp_path: Path) -> None:
    with _greeted(tmp_path, "--upstream", "http://127.0.0.1:9/v1") as (_, told):
        assert "gym" not in told
        assert "freeze" not in told
        assert "with 0 tools" in told
        assert "--catalog SPEC" in told


def test_tools_of_the_settings_are_tried_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "toolcaddie.toml").write_text('[[source]]\ntype = "host"\ngroups = ["response"]\n')
    with _greeted(tmp_path) as (_, told):
        assert "with 3 tools" in told
        assert 'toolcaddie select "what you want done"\n' in told
        assert "--catalog SPEC" not in told


def test_serve_shows_where_the_key_goes_once_keys_exist(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("keys", "add", "laptop")
    toolcaddie.ok("keys", "revoke", "laptop")
    with _greeted(toolcaddie.home) as (_, told):
        assert '-H "authorization: Bearer tc_..."' in told
        assert 'api_key="tc_..."' in told
        assert "toolcaddie keys add NAME" in told


def test_serve_says_whose_key_the_upstream_is_asked_with(tmp_path: Path) -> None:
    upstream = ("--upstream", "http://127.0.0.1:9/v1")
    with _greeted(tmp_path, *upstream) as (_, told):
        assert "clients' own keys are forwarded" in told
        assert '-H "authorization: Bearer $OPENAI_API_KEY"' in told
        assert "chat --upstream http://127.0.0.1:9/v1 --model NAME" in told
    with _greeted(tmp_path, *upstream, "--upstream-key-env", "MY_KEY", MY_KEY="hidden") as (_, told):
        assert "asked with the key of MY_KEY" in told
        assert "--upstream-key-env MY_KEY" in told
        assert "hidden" not in told


def test_serve_before_a_provider_of_another_api_names_its_key_and_its_model(tmp_path: Path) -> None:
    words = ("--model", "anthropic:claude-test", "--upstream", "http://127.0.0.1:9")
    with _greeted(tmp_path, *words, ANTHROPIC_API_KEY="hidden") as (_, told):
        assert "asked with the key of ANTHROPIC_API_KEY" in told
        assert '"model": "claude-test"' in told, "a client names the model alone"
        assert "chat --upstream http://127.0.0.1:9 --model anthropic:claude-test" in told
        assert "hidden" not in told


@contextlib.contextmanager
def _listening() -> Iterator[tuple[int, Any]]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1], taken.close


def test_a_port_in_use_is_told_in_one_line(toolcaddie: CommandLine) -> None:
    with _listening() as (port, _):
        done = toolcaddie("serve", "--port", port)
    assert done.exit_code == 1
    assert f"port {port}" in done.stderr
    assert "another --port" in done.stderr
    assert list(toolcaddie.home.iterdir()) == [], "nothing is opened for a server that cannot listen"


def test_a_host_that_others_reach_needs_a_key_first(toolcaddie: CommandLine) -> None:
    line = toolcaddie.refused("serve", "--host", "0.0.0.0", "--port", "0")
    assert "toolcaddie keys add" in line


def test_a_host_that_is_not_here_is_told_by_name(toolcaddie: CommandLine) -> None:
    assert "no-such-host.invalid" in toolcaddie.refused("serve", "--host", "no-such-host.invalid", "--port", "0")


def test_a_catalog_that_cannot_be_read_stops_the_server_at_start(toolcaddie: CommandLine) -> None:
    assert "'gmy'" in toolcaddie.refused("serve", "--catalog", "gmy", "--port", "0")


def test_a_key_opens_the_gateway_and_without_it_nobody_enters(toolcaddie: CommandLine) -> None:
    """Made, listed and taken back by the command line while the server runs elsewhere."""
    made = toolcaddie.json("keys", "add", "laptop", "--role", "staff", "--bot", "reception")
    with _serving(toolcaddie.home, "--catalog", "gym", "--host", "0.0.0.0") as server:
        port = server.told["url"].rpartition(":")[2]
        local = Server(process=server.process, told={"base_url": f"http://127.0.0.1:{port}/v1"})
        assert "practice model" in _ask(local.client(made["secret"]))
        with pytest.raises(openai.AuthenticationError):
            _ask(local.client("tc_wrong"))
        assert server.stop() == 0
    listed = toolcaddie.json("keys", "list")["keys"]
    assert [(key["name"], key["principal"]["role"], key["principal"]["bot"]) for key in listed] == [
        ("laptop", "staff", "reception")
    ]
    assert listed[0]["last_used"] is not None


def test_a_secret_is_shown_once_and_kept_nowhere(toolcaddie: CommandLine) -> None:
    done = toolcaddie("keys", "add", "laptop")
    secret = done.stdout.strip()
    assert secret.startswith("tc_")
    assert "copy it now" in done.stderr
    assert secret not in toolcaddie.ok("keys", "list") + toolcaddie.ok("keys", "list", "--json")
    stored = b"".join(path.read_bytes() for path in toolcaddie.home.rglob("*") if path.is_file())
    assert secret.encode() not in stored


def test_keys_are_listed_and_revoked_by_name(toolcaddie: CommandLine) -> None:
    assert "toolcaddie keys add" in toolcaddie("keys", "list").stderr
    toolcaddie.ok("keys", "add", "laptop")
    assert "live" in toolcaddie.ok("keys", "list")
    assert "revoked" in toolcaddie.ok("keys", "revoke", "laptop")
    assert "revoked" in toolcaddie.ok("keys", "list")
    assert toolcaddie.json("keys", "revoke", "laptop")["revoked"] is not None
    assert "there is a key named 'laptop' already" in toolcaddie.refused("keys", "add", "laptop")
