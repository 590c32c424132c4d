"""The keys of `toolConfig`: both spellings, both units, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool_config import CacheResults, FallbackProvider, ToolConfig


def key_of(tool: str, params: Any) -> str:
    return tool


WHOLE = {
    "forceToolUse": True,
    "onToolNotCalled": "error",
    "maxRetries": 4,
    "toolTimeout": 5000,
    "fallbackProvider": {
        "provider": "openai",
        "model": "gpt-4-turbo-preview",
        "apiKey": "sk-secret",
        "temperature": 0.2,
        "maxTokens": 500,
    },
    "validateToolResponse": True,
    "cacheResults": {"enabled": True, "ttl": 60000, "key": key_of, "maxSize": 7},
}


@pytest.mark.proves("R003-2", "R003-3", "R003-4", "R003-6")
def test_the_sources_own_words_are_read_with_its_milliseconds_as_our_seconds() -> None:
    config = ToolConfig.of(WHOLE)
    assert config == ToolConfig(
        force_tool_use=True,
        on_tool_not_called="error",
        max_retries=4,
        tool_timeout=5.0,
        fallback_provider=FallbackProvider(
            provider="openai", model="gpt-4-turbo-preview", api_key="sk-secret", temperature=0.2, max_tokens=500
        ),
        validate_tool_response=True,
        cache_results=CacheResults(ttl=60.0, key=key_of, max_size=7),
    )
    assert config.attempts == 4
    assert config.warnings == ()


def test_our_own_words_are_in_seconds() -> None:
    config = ToolConfig.of(
        {"force_tool_use": True, "tool_timeout": 5, "cache_results": {"ttl": 60, "max_size": 7}, "max_retries": 2.0}
    )
    assert config.force_tool_use
    assert config.tool_timeout == 5.0
    assert config.cache_results == CacheResults(ttl=60.0, max_size=7)
    assert config.max_retries == 2


def test_what_is_not_said_is_as_the_source_has_it() -> None:
    assert ToolConfig.of({}) == ToolConfig()
    assert ToolConfig().on_tool_not_called == "retry"
    assert (ToolConfig().max_retries, ToolConfig().force_tool_use) == (3, False)
    assert ToolConfig.of({"cacheResults": {}}).cache_results == CacheResults(enabled=True, ttl=300.0, max_size=100)
    assert ToolConfig.of({"fallbackProvider": None, "toolTimeout": None}) == ToolConfig()


def test_a_key_is_never_shown() -> None:
    assert "sk-secret" not in repr(ToolConfig.of(WHOLE))
    with pytest.raises(ConfigError, match="must be a text, not the given value"):
        ToolConfig.of({"fallbackProvider": {"provider": "o", "model": "m", "apiKey": ["sk-secret"]}})


@pytest.mark.proves("R003-9")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"maxRetries": -1}, "toolConfig: 'maxRetries' must be a whole number from 0, not -1"),
        ({"maxRetries": 1.5}, "'maxRetries' must be a whole number"),
        ({"maxRetries": True}, "'maxRetries' must be a whole number"),
        ({"toolTimeout": -5}, "'toolTimeout' must be a number above 0"),
        ({"tool_timeout": 0}, "'tool_timeout' must be a number above 0"),
        ({"toolTimeout": float("nan")}, "'toolTimeout' must be a number"),
        ({"toolTimeout": "5000"}, "'toolTimeout' must be a number above 0, not '5000'"),
        ({"cacheResults": {"ttl": -1}}, "toolConfig.cacheResults: 'ttl' must be a number from 0"),
        ({"cacheResults": {"maxSize": 0}}, "'maxSize' must be a whole number from 1"),
        ({"cacheResults": {"key": "name"}}, "'key' must be a function"),
        ({"cacheResults": True}, "toolConfig.cacheResults must be a table, not bool"),
        ({"onToolNotCalled": "explode"}, "one of retry, error, warn, allow, not 'explode'"),
        ({"onToolNotCalled": []}, "one of retry"),
        ({"forceToolUse": "yes"}, "'forceToolUse' must be true or false"),
        ({"forceTools": True}, "unknown key 'forceTools'; did you mean 'forceToolUse'?"),
        ({"forceToolUse": True, "force_tool_use": True}, "are the same key"),
        ({"fallbackProvider": {"model": "m"}}, "toolConfig.fallbackProvider: 'provider' is missing"),
        ({"fallbackProvider": {"provider": "openai", "model": " "}}, "'model' must be a text"),
        ({"fallbackProvider": {"provider": "o", "model": "m", "temperature": -1}}, "'temperature' must be"),
        ([], "toolConfig must be a table, not list"),
    ],
)
def test_what_is_wrong_is_said_by_its_key(config: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ToolConfig.of(config)
    assert message in str(raised.value)


@pytest.mark.proves("R003-9")
def test_what_is_probably_not_meant_is_warned_about() -> None:
    config = ToolConfig.of({"maxRetries": 11, "toolTimeout": 999, "cacheResults": {"ttl": 0}})
    many, short, nothing = config.warnings
    assert "maxRetries is 11" in many
    assert "toolTimeout is 999 ms" in short
    assert "nothing is cached" in nothing
    assert ToolConfig.of({"maxRetries": 10, "toolTimeout": 1000}).warnings == ()


def test_no_retry_at_all_is_a_single_attempt() -> None:
    assert ToolConfig.of({"maxRetries": 0}).attempts == ToolConfig.of({"maxRetries": 1}).attempts == 1
