"""`toolcaddie serve` reads its sources again at SIGHUP, with one process and with several."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.doors.processes import Process, serving
from tests.doors.test_workers import asked, until, workers_of
from tests.sources.openapi.recording import document, operation
from toolcaddie.testing import ScriptedUpstream, say


def shown(body: Any) -> Any:
    """A model that says which tools it was given."""
    return say(" ".join(sorted(tool["function"]["name"] for tool in body.get("tools", ()))))


def write(home: Path, *ids: str, more: str = "") -> None:
    paths = {f"/{each}": {"get": {**operation(), "operationId": each}} for each in ids}
    (home / "api.json").write_text(json.dumps(document(paths)))
    (home / "toolcaddie.toml").write_text(
        f'[[source]]\ntype = "openapi"\nname = "api"\ndocument = "api.json"\nservers = ["http://127.0.0.1:1"]\n{more}'
    )


def tools_of(server: Process) -> set[str]:
    answer = asked(server, "please use alpha and beta and gamma")
    return set((answer.choices[0].message.content or "").split()) & {"alpha", "beta", "gamma"}


@pytest.mark.parametrize("workers", [1, 2])
def test_sources_are_read_again_at_sighup_and_a_mistake_changes_nothing(tmp_path: Path, workers: int) -> None:
    write(tmp_path, "alpha")
    with ScriptedUpstream(shown) as upstream:
        words = ("--upstream", f"{upstream.base_url}", "--workers", str(workers))
        with serving(tmp_path, *words) as server:
            assert tools_of(server) == {"alpha"}
            write(tmp_path, "alpha", "beta")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: all(tools_of(server) == {"alpha", "beta"} for _ in range(4)))
            write(tmp_path, "gamma", more='[[source]]\ntype = "opneapi"\n')
            server.process.send_signal(signal.SIGHUP)
            assert tools_of(server) == {"alpha", "beta"}
            write(tmp_path, "gamma")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: all(tools_of(server) == {"gamma"} for _ in range(4)))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_policy_is_read_again_at_sighup_and_a_mistake_changes_nothing(tmp_path: Path, workers: int) -> None:
    rules = tmp_path / "rules.cedar"
    rules.write_text("")
    write(tmp_path, "alpha", "beta", more='[policy]\nfiles = ["rules.cedar"]\n')
    with ScriptedUpstream(shown) as upstream:
        words = ("--upstream", f"{upstream.base_url}", "--workers", str(workers))
        with serving(tmp_path, *words) as server:
            assert tools_of(server) == {"alpha", "beta"}
            rules.write_text('forbid (principal, action, resource == Tool::"beta");')
            server.process.send_signal(signal.SIGHUP)
            until(lambda: all(tools_of(server) == {"alpha"} for _ in range(4)))
            rules.write_text("forbid everything;")
            server.process.send_signal(signal.SIGHUP)
            assert tools_of(server) == {"alpha"}
            write(tmp_path, "alpha", "beta", more='[policy]\ndeny = ["alpha"]\n')
            server.process.send_signal(signal.SIGHUP)
            until(lambda: all(tools_of(server) == {"beta"} for _ in range(4)))


def test_a_settings_file_that_is_gone_at_sighup_leaves_the_rules_as_they_were(tmp_path: Path) -> None:
    write(tmp_path, "alpha", "beta", more='[policy]\ndeny = ["beta"]\n')
    with ScriptedUpstream(shown) as upstream, serving(tmp_path, "--upstream", upstream.base_url) as server:
        settings = (tmp_path / "toolcaddie.toml").rename(tmp_path / "moved.toml")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "toolcaddie.toml cannot be read" in server.log())
        assert tools_of(server) == {"alpha"}
        settings.rename(tmp_path / "toolcaddie.toml")


def test_a_worker_that_starts_after_a_reload_has_the_sources_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, "alpha")
    with (
        ScriptedUpstream(shown) as upstream,
        serving(tmp_path, "--upstream", upstream.base_url, "--workers", "2") as server,
    ):
        write(tmp_path, "beta")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: all(tools_of(server) == {"beta"} for _ in range(4)))
        for worker in workers_of(server):
            worker.kill()  # the next requests wait for a worker that starts now
        assert [tools_of(server) for _ in range(3)] == [{"beta"}] * 3
