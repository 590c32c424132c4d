"""Several servers on one database: they take the settings that are shared, and leave without an error."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, text

from tests.databases import KINDS, url_of_kind
from tests.doors.commandline import CommandLine
from tests.doors.processes import PATIENCE, Process, serving
from tests.doors.test_reload import shown, tools_of, write
from tests.doors.test_workers import until
from toolcaddie.testing import ScriptedUpstream

IN_TIME = 2.0
"""Seconds in which a server follows; a second on a machine that is not busy."""


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "shared.sqlite")


@pytest.fixture
def author(toolcaddie: CommandLine, url: str, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Somebody with settings in a folder that no server reads."""
    monkeypatch.setenv("TOOLCADDIE_DATABASE_URL", url)
    return toolcaddie


@contextlib.contextmanager
def replicas(folder: Path, url: str, *names: str, **environ: str) -> Iterator[Sequence[Process]]:
    """Servers that follow shared settings, each in a folder of its own, whose own settings have the tool `gamma`."""
    with ScriptedUpstream(shown) as upstream, contextlib.ExitStack() as stack:
        follows = {"TOOLCADDIE_DATABASE_URL": url, "TOOLCADDIE_SERVER_FOLLOW": "true", **environ}
        servers = []
        for name in names:
            home = folder / name
            home.mkdir()
            write(home, "gamma")
            servers.append(stack.enter_context(serving(home, "--upstream", upstream.base_url, **follows)))
        yield servers


def test_every_server_takes_shared_sources_rules_and_files_in_time_and_a_mistake_is_not_shared(
    author: CommandLine, tmp_path: Path, url: str
) -> None:
    with replicas(tmp_path, url, "one", "two") as servers:
        assert [tools_of(server) for server in servers] == [{"gamma"}] * 2
        (author.home / "rules.cedar").write_text("")
        write(author.home, "alpha", "beta", more='[policy]\nfiles = ["rules.cedar"]\n')
        report = author.json("settings", "push")
        assert [tools_of(server) for server in servers] == [{"alpha", "beta"}] * 2
        assert [state["version"] for state in report["servers"]] == [report["shared"]["version"]] * 2
        assert all(state["at"] - report["shared"]["at"] < IN_TIME for state in report["servers"])

        (author.home / "rules.cedar").write_text('forbid (principal, action, resource == Tool::"beta");')
        author.ok("settings", "push")
        assert [tools_of(server) for server in servers] == [{"alpha"}] * 2

        (author.home / "rules.cedar").write_text("forbid everything;")
        assert "rules.cedar" in author.refused("settings", "push")
        assert [tools_of(server) for server in servers] == [{"alpha"}] * 2

        author.ok("settings", "withdraw")
        assert [tools_of(server) for server in servers] == [{"gamma"}] * 2


def test_a_server_that_starts_later_has_what_is_shared(author: CommandLine, tmp_path: Path, url: str) -> None:
    write(author.home, "alpha")
    assert "no server follows shared settings" in author("settings", "push").stderr
    with replicas(tmp_path, url, "late") as [server]:
        assert tools_of(server) == {"alpha"}
        assert len(author.json("settings", "show")["servers"]) == 1


def test_a_server_that_lacks_a_module_says_so_and_goes_on_and_another_one_does_not_start(
    author: CommandLine, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (author.home / "only_here.py").write_text(
        "from toolcaddie import tool\n\n\n@tool\ndef alpha() -> str:\n    return ''\n"
    )
    monkeypatch.syspath_prepend(str(author.home))
    (author.home / "toolcaddie.toml").write_text('catalogs = ["python:only_here"]\n')
    with replicas(tmp_path, url, "without") as [server]:
        pushed = author("settings", "push")
        assert pushed.exit_code == 1
        assert "only_here" in pushed.stdout
        assert "1 server did not take version" in pushed.stderr
        assert tools_of(server) == {"gamma"}
        with pytest.raises(AssertionError, match="the server ended"), replicas(tmp_path, url, "next"):
            pass
        assert "only_here" in (tmp_path / "next" / "server.log").read_text()


def test_what_is_shared_arrives_although_the_connections_of_a_server_were_lost(
    author: CommandLine, tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCADDIE_DATABASE_URL", postgresql_url)
    write(author.home, "alpha")
    with replicas(tmp_path, postgresql_url, "one") as [server]:
        assert tools_of(server) == {"gamma"}
        with create_engine(postgresql_url).connect() as connection:
            connection.execute(
                text(
                    "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                    "and datname = current_database() and query like 'LISTEN%'"
                )
            )
        author.ok("settings", "push")
        until(lambda: tools_of(server) == {"alpha"})


def test_a_server_that_drains_turns_clients_away_and_answers_them_until_it_stops(tmp_path: Path) -> None:
    write(tmp_path, "alpha")
    with (
        ScriptedUpstream(shown) as upstream,
        serving(tmp_path, "--upstream", upstream.base_url, TOOLCADDIE_SERVER_DRAIN="600") as server,
        httpx.Client(base_url=server.base_url.removesuffix("/v1"), timeout=PATIENCE) as client,
    ):
        assert client.get("/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/healthz").headers["connection"] == "close"
        assert tools_of(server) == {"alpha"}
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
