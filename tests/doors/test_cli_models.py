"""Whom the command line asks: providers by name, fallbacks, forced use, retries, and what of it a person is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, call, refuse, say
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.gemini import GeminiWire

FREEZE = "freeze John's membership"

TOOLS = """
from toolcaddie import tool

@tool(category="members", read_only=True)
def find_member(name: str) -> str:
    "Find a member by name."
    return f"{name} is member 7"
"""


@pytest.fixture(autouse=True)
def keys(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the fixture that takes away whatever is set."""
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEST_KEY", "test-key")
    monkeypatch.setenv("TOOLCADDIE_UPSTREAM_ATTEMPTS", "1")


def _settings(toolcaddie: CommandLine, text: str) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(text)


@pytest.mark.parametrize(("name", "wire"), [("anthropic", AnthropicWire), ("gemini", GeminiWire)])
def test_a_provider_in_front_of_the_model_is_asked_over_its_own_api_with_its_own_key(
    name: str, wire: type, toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "test-key")
    script = [call("get_attendance_today"), say("Fourteen people came.")]
    with ScriptedUpstream(script, wire=wire()) as upstream:
        at = ("--model", f"{name}:some-model", "--upstream", upstream.base_url)
        done = toolcaddie("run", "who came today", "--catalog", "gym", *at)
    assert (done.stdout, done.exit_code) == ("Fourteen people came.\n", 0), done.stderr
    assert upstream.refusals == []
    asked = toolcaddie.json("trail", "last")["events"]
    assert {event["data"]["provider"] for event in asked if event["kind"] == "model_asked"} == {name}
    assert {event["data"]["model"] for event in asked if event["kind"] == "model_asked"} == {"some-model"}


def test_with_a_provider_set_the_models_name_is_taken_as_it_stands(toolcaddie: CommandLine) -> None:
    with ScriptedUpstream([say("Hello."), say("Hello.")], api_key=None) as upstream:
        _settings(toolcaddie, f"[upstream]\nprovider = 'ollama'\nurl = '{upstream.base_url}'")
        toolcaddie.ok("run", "hello", "--model", "mistral:7b")
        toolcaddie.ok("run", "hello", "--model", "ollama:qwen3:8b")
    assert [body["model"] for body in upstream.bodies] == ["mistral:7b", "qwen3:8b"]


def test_a_server_of_ones_own_may_have_models_named_nearly_like_providers(toolcaddie: CommandLine) -> None:
    with ScriptedUpstream([say("Hello.")], api_key=None) as upstream:
        toolcaddie.ok("run", "hello", "--model", "llama:7b", "--upstream", upstream.base_url)
    assert upstream.bodies[0]["model"] == "llama:7b"


def test_a_providers_table_says_how_it_is_reached_wherever_it_is_named(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_KEY", "proxy-key")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai-alone")
    with ScriptedUpstream(lambda _: say("Hello."), api_key=None) as proxy:
        table = f"[provider.openai]\nbase_url = '{proxy.base_url}'\nheaders = {{ x-team = 'library' }}\n"
        for variable, key in (("key_env = 'PROXY_KEY'\n", "Bearer proxy-key"), ("", None)):
            _settings(toolcaddie, table.replace("headers", f"{variable}headers"))
            toolcaddie.ok("run", "hello", "--model", "openai:gpt-test")
            _settings(
                toolcaddie,
                "[upstream]\nurl = 'http://127.0.0.1:9'\nattempts = 1\nprovider = 'ollama'\n"
                f"[[fallback]]\nmodel = 'openai:gpt-test'\n{table.replace('headers', f'{variable}headers')}",
            )
            toolcaddie.ok("run", "hello", "--model", "qwen3:8b")
            sent = [(each.headers.get("authorization"), each.headers["x-team"]) for each in proxy.requests[-2:]]
            assert sent == [(key, "library")] * 2


def test_an_address_named_beside_the_table_gets_neither_its_key_nor_its_address(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_KEY", "proxy-key")
    with ScriptedUpstream([say("Hello.")], api_key=None) as upstream:
        _settings(toolcaddie, "[provider.openai]\nbase_url = 'http://127.0.0.1:9'\nkey_env = 'PROXY_KEY'\n")
        toolcaddie.ok("run", "hello", "--model", "openai:gpt-test", "--upstream", upstream.base_url)
    assert "authorization" not in upstream.requests[0].headers


def test_the_table_of_a_provider_holds_for_the_one_that_stands_in_where_no_tool_was_called(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_KEY", "proxy-key")
    with (
        ScriptedUpstream(lambda _: say("No tool."), api_key=None) as first,
        ScriptedUpstream([call("list_memberships", {}), say("Done.")], api_key="proxy-key") as second,
    ):
        _settings(
            toolcaddie,
            f"catalogs = ['gym']\nmodel = 'ollama:small'\n[provider.ollama]\nbase_url = '{first.base_url}'\n"
            f"[provider.groq]\nbase_url = '{second.base_url}'\nkey_env = 'PROXY_KEY'\nheaders = {{ x-team = 'gym' }}\n"
            "[tool_config]\nforce_tool_use = true\nfallback_provider = { provider = 'groq', model = 'big' }\n",
        )
        toolcaddie.ok("run", "list the memberships")
    assert first.requests
    assert second.requests[0].headers["x-team"] == "gym"


@pytest.mark.parametrize(
    ("settings", "model", "told"),
    [
        ("", "anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
        ("", "groq:gpt-oss", "GROQ_API_KEY"),
        ("", "anthropc:claude-sonnet-5-5", "no provider 'anthropc'; did you mean 'anthropic'?"),
        ("[upstream]\nprovider = 'olama'", "m", "upstream.provider: no provider 'olama'; did you mean 'ollama'?"),
        ("[[fallback]]\nmodel = 'gemini:pro'", "practice:", "fallback.1: the provider 'gemini' needs a key"),
        ("[[fallback]]\nmodel = 'pro'", "practice:", "toolcaddie.toml:2: fallback.1.model: 'pro' names no provider"),
        (
            "[[fallback]]\nmodel = 'gemini:pro'\nkey_env = 'NO_SUCH'",
            "practice:",
            "fallback.1: the environment variable NO_SUCH",
        ),
        (
            "[tool_config]\nfallback_provider = {provider = 'gemini', model = 'pro'}",
            "practice:",
            "the provider 'gemini' needs a key; put it into the environment variable GEMINI_API_KEY",
        ),
    ],
)
def test_who_cannot_be_asked_is_said_at_start_with_what_is_missing(
    settings: str, model: str, told: str, toolcaddie: CommandLine
) -> None:
    _settings(toolcaddie, settings)
    assert told in toolcaddie.refused("run", "hello", "--model", model)


@pytest.mark.proves("X-30")
def test_a_fallback_answers_where_the_model_fails_and_everybody_is_told(toolcaddie: CommandLine) -> None:
    with (
        ScriptedUpstream([refuse(503, "overloaded"), refuse(503, "overloaded")]) as first,
        ScriptedUpstream([say("Hello."), say("Hello.")], wire=AnthropicWire()) as second,
    ):
        _settings(
            toolcaddie,
            f"model = 'gpt-test'\n[upstream]\nurl = '{first.base_url}'\nkey_env = 'TEST_KEY'\n"
            f"[[fallback]]\nmodel = 'anthropic:claude-test'\nurl = '{second.base_url}'\nkey_env = 'TEST_KEY'\n",
        )
        done = toolcaddie("run", "hello")
        told = toolcaddie.json("run", "hello")
    assert done.stdout == "Hello.\n"
    (line,) = [line for line in done.stderr.splitlines() if "answered" in line]
    assert line.startswith("openai:gpt-test failed: ")
    assert line.endswith("; anthropic:claude-test answered")
    assert told["provider"] == "anthropic"
    assert [(one["provider"], one["outcome"]) for one in told["attempts"]] == [
        ("openai", "failed"),
        ("anthropic", "answered"),
    ]
    assert "openai:gpt-test failed" in toolcaddie.ok("trail", "last")


def test_an_answer_of_a_fallback_is_printed_once_where_it_streams(toolcaddie: CommandLine) -> None:
    with (
        ScriptedUpstream([refuse(503, "overloaded")]) as first,
        ScriptedUpstream([say("Hello there.")], wire=AnthropicWire()) as second,
    ):
        _settings(
            toolcaddie,
            f"model = 'gpt-test'\n[upstream]\nurl = '{first.base_url}'\nkey_env = 'TEST_KEY'\n"
            f"[[fallback]]\nmodel = 'anthropic:claude-test'\nurl = '{second.base_url}'\nkey_env = 'TEST_KEY'\n",
        )
        chat = toolcaddie("chat", stdin="hello\n")
    assert "anthropic:claude-test answered" in chat.stderr
    assert chat.stdout.count("Hello there.") == 1


def test_where_everybody_fails_the_error_names_every_attempt(toolcaddie: CommandLine) -> None:
    with ScriptedUpstream([refuse(500, "boom")] * 2) as first:
        _settings(
            toolcaddie,
            f"model = 'gpt-test'\n[upstream]\nurl = '{first.base_url}'\nkey_env = 'TEST_KEY'\n"
            "[[fallback]]\nmodel = 'ollama:qwen3:8b'\nurl = 'http://127.0.0.1:9/v1'\n",
        )
        plain, as_json = toolcaddie("run", "hello"), toolcaddie("run", "hello", "--json")
    assert (plain.exit_code, plain.stdout) == (1, "")
    assert "openai:gpt-test failed: boom (HTTP 500); ollama:qwen3:8b failed: cannot be reached at " in plain.stderr
    assert "http://127.0.0.1:9: Connection refused (is it running?)" in plain.stderr
    assert "ssl:" not in plain.stderr
    told = json.loads(as_json.stderr)["error"]
    assert told["kind"] == "ProviderUnavailableError"
    assert [(one["provider"], one["outcome"]) for one in told["attempts"]] == [
        ("openai", "failed"),
        ("ollama", "failed"),
    ]
    assert "openai:gpt-test failed: boom (HTTP 500); ollama:qwen3:8b failed: " in toolcaddie.ok("trail", "last")
    recorded = toolcaddie.json("trail", "last")["events"][-1]["data"]
    assert [one["model"] for one in recorded["attempts"]] == ["gpt-test", "qwen3:8b"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (refuse(401), "the key in TEST_KEY was refused"),
        (
            refuse(404, "no such model"),
            "no such model (HTTP 404: check that the model exists there, and that base_url is ",
        ),
        (
            refuse(429, "slow down", headers={"retry-after": "75"}),
            "(HTTP 429, retry after 75 s); the provider asks to wait 75 s, and this command did not wait",
        ),
    ],
    ids=str,
)
def test_an_error_of_a_provider_says_what_to_do_next(fault: Any, told: str, toolcaddie: CommandLine) -> None:
    with ScriptedUpstream([fault], api_key=None) as upstream:
        at = ("--upstream", upstream.base_url, "--upstream-key-env", "TEST_KEY", "--model", "gpt-test")
        done = toolcaddie("run", "hello", *at)
    assert done.exit_code == 1
    assert told in done.stderr


def test_forced_use_shows_each_step_of_the_escalation(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "forced_tools.py").write_text(TOOLS)
    script = [say("I think it is member 3."), call("find_member", {"name": "John"}), say("Member 7.")]
    with ScriptedUpstream(script) as upstream:
        _settings(
            toolcaddie,
            f"model = 'gpt-test'\n[upstream]\nurl = '{upstream.base_url}'\nkey_env = 'TEST_KEY'\n"
            "[tool_config]\nforceToolUse = true\nonToolNotCalled = 'retry'\n",
        )
        done = toolcaddie("run", "which member is John?", "--catalog", "python:forced_tools")
    assert done.stdout == "Member 7.\n", done.stderr
    assert "openai:gpt-test called no tool; openai:gpt-test (" in done.stderr
    assert "limit reached" not in done.stderr


def test_what_a_tool_configuration_probably_does_not_mean_is_said_at_start(toolcaddie: CommandLine) -> None:
    _settings(toolcaddie, "[tool_config]\ntoolTimeout = 5")
    assert "tool_config: toolTimeout is 5 ms: " in toolcaddie("run", "hello").stderr
    assert "tool_config: toolTimeout is 5 ms: " in toolcaddie("chat", stdin="/quit\n").stderr


def test_a_kept_result_is_marked_in_steps_json_and_trail(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "kept_tools.py").write_text(TOOLS)
    once = [call("find_member", {"name": "John"}), say("Member 7.")]
    with ScriptedUpstream([*once, *once, *once]) as upstream:
        _settings(
            toolcaddie,
            f"model = 'gpt-test'\n[upstream]\nurl = '{upstream.base_url}'\nkey_env = 'TEST_KEY'\n"
            "[cache]\nmode = 'everything'\nkeep = 'database'\n",
        )
        ask = ("run", "which member is John?", "--catalog", "python:kept_tools")
        first, second, third = toolcaddie.json(*ask), toolcaddie(*ask), toolcaddie.json(*ask)
    assert [each["cached"] for each in first["tool_calls"]] == [False]
    assert [each["cached"] for each in third["tool_calls"]] == [True]
    assert first["tool_calls"][0]["content"] == third["tool_calls"][0]["content"] == "John is member 7"
    assert "→ ok, kept from an equal call (" in second.stderr
    assert "ms, kept from an equal call: John is member 7" in toolcaddie.ok("trail", "last")


def test_what_one_process_kept_in_memory_is_not_there_for_the_next(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "unkept_tools.py").write_text(TOOLS)
    once = [call("find_member", {"name": "John"}), say("Member 7.")]
    with ScriptedUpstream([*once, *once]) as upstream:
        _settings(
            toolcaddie,
            f"model = 'gpt-test'\n[upstream]\nurl = '{upstream.base_url}'\nkey_env = 'TEST_KEY'\n"
            "[cache]\nmode = 'everything'\n",
        )
        ask = ("run", "which member is John?", "--catalog", "python:unkept_tools")
        told = [toolcaddie.json(*ask), toolcaddie.json(*ask)]
    assert [each["tool_calls"][0]["cached"] for each in told] == [False, False]


def test_an_error_that_may_pass_is_tried_again_and_shown(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts cost half a second; three are the default."""
    monkeypatch.setenv("TOOLCADDIE_UPSTREAM_ATTEMPTS", "2")
    with ScriptedUpstream([refuse(503, "overloaded"), say("Hello.")]) as upstream:
        at = ("--upstream", upstream.base_url, "--upstream-key-env", "TEST_KEY", "--model", "gpt-test")
        done = toolcaddie("run", "hello", *at)
    assert done.stdout == "Hello.\n"
    assert "openai:gpt-test failed: " in done.stderr
    assert done.stderr.count("answered") == 1


def test_plugins_lists_the_providers(toolcaddie: CommandLine) -> None:
    found = toolcaddie.json("plugins")["plugins"]
    names = {plugin["name"] for plugin in found if plugin["group"] == "toolcaddie.providers" and not plugin["error"]}
    assert {"anthropic", "azure", "gemini", "groq", "ollama", "openai", "openai-responses", "practice"} <= names


def test_a_key_of_another_provider_is_never_sent(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-alone-0123")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    with ScriptedUpstream([say("Hello.")], wire=AnthropicWire()) as upstream:
        toolcaddie.ok("run", "hello", "--model", "anthropic:m", "--upstream", upstream.base_url)
    assert "sk-of-openai-alone" not in json.dumps(dict(upstream.requests[0].headers))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("claude-sonnet-5-5", "names no provider and no key is set; did you mean anthropic:claude-sonnet-5-5"),
        ("gpt-5-mini", "did you mean openai:gpt-5-mini, with its key in OPENAI_API_KEY?"),
        ("ft:gpt-4o:acme", "did you mean openai:ft:gpt-4o:acme"),
        ("gpt-oss:20b", "did you mean ollama:gpt-oss:20b?"),
        ("somebodys-own", "names no provider and no key is set; write provider:model. There are anthropic, "),
        ("anthropic", "the provider 'anthropic' needs a key; put it into the environment variable ANTHROPIC_API_KEY"),
        ("google:gemini-3", "there is no provider 'google'; did you mean gemini:gemini-3"),
        ("nosuch:x", "there is no provider 'nosuch'; write provider:model"),
        (":x", "there is no provider ''"),
        ("practice:foo", "write practice alone"),
    ],
)
@pytest.mark.parametrize("command", ["run", "serve"])
def test_a_model_that_nobody_can_serve_is_refused_and_never_practised(
    command: str, model: str, told: str, toolcaddie: CommandLine
) -> None:
    """The practice model would run tools that write."""
    words = ("run", FREEZE) if command == "run" else ("serve", "--port", "0")
    assert told in toolcaddie.refused(*words, "--catalog", "gym", "--model", model)


@pytest.mark.parametrize("named", [(), ("--model", "practice"), ("--model", "practice:")])
def test_practice_answers_where_it_or_nothing_was_named(named: tuple[str, ...], toolcaddie: CommandLine) -> None:
    assert "practice model" in toolcaddie.ok("run", "who came today", "--catalog", "gym", *named)


def test_with_a_key_of_openais_a_provider_that_is_not_there_is_refused_all_the_same(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    told = toolcaddie.refused("run", "hello", "--model", "google:gemini-3")
    assert "did you mean gemini:gemini-3" in told


@pytest.mark.parametrize("model", ["nosuch:x", "somebodys-own"])
def test_an_unknown_model_is_priced_as_nobody_elses(model: str, toolcaddie: CommandLine) -> None:
    asked = ("why", "--delivery", FREEZE, "--catalog", "gym", "--model", model)
    told = toolcaddie.json(*asked)
    assert told["provider"] != "practice"
    assert {option["dollars"] for option in told["options"]} == {None}


def test_a_bare_model_is_priced_by_what_is_known_of_it(toolcaddie: CommandLine) -> None:
    asked = ("why", "--delivery", FREEZE, "--catalog", "gym", "--model")
    bare, named = (toolcaddie.json(*asked, model) for model in ("claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"))
    assert bare == named


def test_a_key_given_for_its_variable_is_refused_and_not_shown(toolcaddie: CommandLine) -> None:
    told = toolcaddie.refused("run", "hello", "--upstream-key-env", "sk-0123456789", "--model", "m")
    assert "this looks like a key; name the environment variable that holds it" in told
    assert "sk-0123" not in told


def test_an_upstream_without_its_scheme_is_refused_by_the_name_of_the_option(toolcaddie: CommandLine) -> None:
    refusal = toolcaddie.refused("run", "hi", "--model", "x", "--upstream", "localhost:8000/v1")
    assert "--upstream" in refusal
    assert "'localhost:8000/v1' must begin with http:// or https://" in refusal
