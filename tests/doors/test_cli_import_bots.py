"""`toolcaddie import` of the settings file of the multi-bot framework."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.app.settings import load_settings

SEVEN = ["exec", "file_write", "file_edit", "phone_call", "improve", "process", "cron"]
CONFIG = """{
  // every group is on, apart from telephone calls
  "webTools": {
    "enabled": true, "maxToolRounds": 7,
    "search": {"apiKey": "${SEARCH_KEY}", "maxResults": 3, "timeout": 30000, "cacheTtlMs": 900000},
    "fetch": {"maxContentLength": 40000, "respectRobots": true},
  },
  "exec": {"enabled": true, "timeout": 20, "deniedPatterns": ["^sudo"]},
  "fileTools": {"enabled": true, "basePath": "${HOME_OF_BOTS}/files"},
  "processTools": {"enabled": true, "maxSessions": 4},
  "datetime": {"enabled": true, "timezone": "America/Argentina/Buenos_Aires", "locale": "es-AR"},
  "phoneCall": {"enabled": false, "authToken": "a-real-token", "fromNumber": "+5491100000000"},
  "cron": {"enabled": true},
  "soul": {"enabled": true, "dir": "souls", "search": {"enabled": true}},
  "improve": {"enabled": true, "claudePath": "claude", "allowedFocus": ["memory", "soul"]},
  "collaboration": {"enabled": true},
  "dynamicTools": {"enabled": true, "storePath": "./data/tools", "maxToolsPerBot": 10},
  "telegram": {"token": "12345:a-token"}, /* no counterpart */
  "bots": [
    {"id": "assistant", "description": "Helps with everything."},
    {"id": "therapist", "disabledTools": SEVEN},
  ],
}""".replace("SEVEN", json.dumps(SEVEN))


@pytest.fixture
def config(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SEARCH_KEY", "a-secret-of-the-environment")
    monkeypatch.setenv("HOME_OF_BOTS", "bots")
    Path("config.json").write_text(CONFIG)
    return "config.json"


@pytest.mark.proves("R002-103")
def test_the_file_becomes_settings_that_load(toolcaddie: CommandLine, config: str) -> None:
    told = toolcaddie("import", config)
    assert told.exit_code == 0, told.stderr
    settings = load_settings(environ={})
    assert (settings.preset, settings.default_bot) == ("multibot", "assistant")
    assert settings.limits == {"rounds": 7}
    sources = {source.type: source.config for source in settings.source}
    assert sources["web"] == {
        "search": {"key_env": "SEARCH_KEY", "max_results": 3, "timeout": 30.0, "cache_ttl": 900.0},
        "fetch": {"max_content_length": 40000},
    }
    assert sources["exec"] == {"timeout": 20, "denied_patterns": ["^sudo"], "max_sessions": 4}
    assert sources["files"] == {"base_path": "bots/files"}
    assert sources["team"] == {"collaboration": True}
    assert sources["authored"] == {"store_path": "./data/tools", "max_tools_per_bot": 10}
    assert "phone" not in sources
    assert settings.bots["assistant"].description == "Helps with everything."
    assert settings.bots["therapist"].disabled_tools == tuple(SEVEN)
    assert settings.bots["therapist"].persona == "souls/therapist"
    written = Path("toolcaddie.toml").read_text()
    assert 'type = "persona"' in written
    for secret in ("a-secret-of-the-environment", "a-real-token", "a-token"):
        assert secret not in written
        assert secret not in told.stderr


def test_what_has_no_counterpart_is_named_with_the_reason(toolcaddie: CommandLine, config: str) -> None:
    told = toolcaddie.json("import", config, "--check")
    for key in ("webTools.fetch.respectRobots", "improve.claudePath", "telegram"):
        assert any(remark.startswith(f"{key}: not taken over, because") for remark in told["remarks"]), key
    assert told["variables"] == ["SEARCH_KEY"]
    assert told["path"] is None
    assert not Path("toolcaddie.toml").exists()


def test_a_secret_in_the_file_itself_is_replaced_by_a_variable(toolcaddie: CommandLine, config: str) -> None:
    text = CONFIG.replace("${SEARCH_KEY}", "a-real-key").replace('Call": {"enabled": false', 'Call": {"enabled": true')
    Path(config).write_text(text)
    told = toolcaddie("import", config, "--check")
    assert 'key_env = "BRAVE_API_KEY"' in told.stdout
    assert 'auth_token_env = "TWILIO_AUTH_TOKEN"' in told.stdout
    assert "webTools.search.apiKey: a secret is not written; put it into the variable BRAVE_API_KEY" in told.stderr
    assert "a-real" not in told.stdout + told.stderr


@pytest.mark.proves("R002-103")
def test_an_undefined_variable_is_refused_by_name_and_place(
    toolcaddie: CommandLine, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME_OF_BOTS")
    said = toolcaddie.refused("import", config)
    assert "config.json: fileTools.basePath: the environment variable 'HOME_OF_BOTS' is not set" in said


def test_all_undefined_variables_are_named_at_once(
    toolcaddie: CommandLine, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(config).write_text(CONFIG.replace("${HOME_OF_BOTS}", "${HOME OF BOTS}"))
    monkeypatch.delenv("SEARCH_KEY")
    message = toolcaddie.refused("import", config)
    assert "webTools.search.apiKey: the environment variable 'SEARCH_KEY' is not set" in message
    assert "fileTools.basePath: the environment variable 'HOME OF BOTS' is no name of a variable" in message
    assert not Path("toolcaddie.toml").exists()


def test_an_existing_file_is_overwritten_only_if_that_is_wanted(toolcaddie: CommandLine, config: str) -> None:
    Path("toolcaddie.toml").write_text("# mine\n")
    assert "toolcaddie.toml already exists" in toolcaddie.refused("import", config)
    assert Path("toolcaddie.toml").read_text() == "# mine\n"
    other = toolcaddie("import", config, "--output", "other.toml")
    assert "`toolcaddie --config other.toml bots list`" in other.stderr
    toolcaddie.ok("import", config, "--force")
    assert Path("toolcaddie.toml").read_text() == Path("other.toml").read_text()


@pytest.mark.parametrize(
    ("bots", "problem"),
    [('[{"id": 7}]', "bots[0].id"), ('[{"id": "a"}, {"id": "a"}]', "bots[1].id"), ('["a"]', "list of objects")],
)
def test_bots_that_cannot_be_read_are_refused(toolcaddie: CommandLine, bots: str, problem: str) -> None:
    Path("config.json").write_text(f'{{"bots": {bots}}}')
    assert problem in toolcaddie.refused("import", "config.json")


def test_a_value_that_the_settings_refuse_is_named(toolcaddie: CommandLine) -> None:
    Path("config.json").write_text('{"webTools": {"maxToolRounds": 99}, "bots": [{"id": "a"}]}')
    assert "rounds" in toolcaddie.refused("import", "config.json")
