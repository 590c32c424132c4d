"""From settings to running parts: what other packages bring comes in by the same door as ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from tests.databases import database_url
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import Settings, Upstream, load_settings
from toolcaddie.core.errors import ProviderError
from toolcaddie.testing import ScriptedUpstream, refuse, say

pytestmark = pytest.mark.anyio


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another installed package with a sink that counts and one that cannot be made."""
    (tmp_path / "stranger_sinks.py").write_text(
        "seen = []\n"
        "class Counting:\n"
        "    async def emit(self, event):\n"
        "        seen.append(type(event).__name__)\n"
        "def broken():\n"
        "    raise RuntimeError('no address is set')\n"
    )
    info = tmp_path / "stranger_sinks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-sinks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[toolcaddie.sinks]\nbroken = stranger_sinks:broken\ncounting = stranger_sinks:Counting\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


async def test_a_plugins_sink_sees_every_event_and_one_that_fails_is_left_out_and_said(stranger: Path) -> None:
    settings = Settings(database_url=database_url(stranger / "db.sqlite"), catalogs=("gym",))
    with capture_logs() as lines:
        async with assembled(settings) as parts:
            await parts.runtime.run("show me all clients")
    assert {"RunStarted", "ToolsSelected", "CallFinished", "RunFinished"} <= set(sys.modules["stranger_sinks"].seen)
    (warning,) = [line for line in lines if line["event"] == "sink_left_out"]
    assert (warning["plugin"], warning["error"]) == ("broken", "no address is set")


@pytest.mark.parametrize(
    ("catalogs", "clients_retry", "requests"),
    [((), True, 1), (("gym",), True, 2), ((), False, 2)],
    ids=["a gateway without a catalog", "a gateway with one", "a command"],
)
async def test_a_model_is_asked_again_unless_the_client_does_that_and_nothing_can_have_run(
    catalogs: tuple[str, ...], clients_retry: bool, requests: int, tmp_path: Path
) -> None:
    settings = Settings(
        database_url=database_url(tmp_path / "db.sqlite"),
        catalogs=catalogs,
        model="ollama:test",
    )
    # The fault is one that asks for another try at once; a refusal ends it, so that nobody waits for the third.
    script = [refuse(503, "overloaded", headers={"retry-after": "0"}), refuse(400, "no")]
    async with ScriptedUpstream(script, api_key=None) as upstream:
        settings = replace(settings, upstream=Upstream(url=upstream.base_url))
        async with assembled(settings, clients_retry=clients_retry) as parts:
            with pytest.raises(ProviderError):
                await parts.runtime.run("hello")
        assert len(upstream.requests) == requests


@pytest.mark.parametrize(
    ("model", "rows", "offered"),
    [
        ("ollama:llama3.2:3b", "", False),
        ("ollama:llama3.2:3b", '[[capabilities]]\npattern = "ollama:llama3.2*"\nprograms = true', True),
        ("openai:gpt-5-mini", "", True),
    ],
    ids=["weak", "weak, but the operator knows better", "strong"],
)
async def test_weak_models_are_not_offered_programs_although_the_settings_say_always(
    model: str, rows: str, offered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    async with ScriptedUpstream([say("hello")]) as upstream:
        (tmp_path / "toolcaddie.toml").write_text(
            f'model = "{model}"\ncatalogs = ["gym"]\ndatabase_url = "{database_url(tmp_path / "db.sqlite")}"\n'
            f'[upstream]\nurl = "{upstream.base_url}"\nkey_env = "OPENAI_API_KEY"\n'
            f'[interpreter]\n[programs]\noffer = "always"\n{rows}\n'
        )
        async with assembled(load_settings(tmp_path / "toolcaddie.toml")) as parts:
            await parts.runtime.run("freeze the membership of John")
    [request] = upstream.requests
    names = [definition["function"]["name"] for definition in request.body["tools"]]
    assert ("run_program" in names) is offered
