"""Capabilities of models, and the rows with which an operator changes them."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from toolcaddie.core.capabilities import (
    CAPABILITIES,
    CacheRule,
    Capabilities,
    Prices,
    capabilities_from,
    capabilities_of,
)
from toolcaddie.core.errors import ConfigError


def test_rows_that_fit_are_laid_over_each_other_the_special_above_the_general() -> None:
    capabilities = capabilities_of("anthropic:claude-opus-5-5")
    assert capabilities.required == capabilities.named == "refused"
    assert capabilities.json_schema == "with_tools"
    assert capabilities.deferral == "additions"
    assert capabilities.cache == CacheRule(kind="breakpoints", minimum=512, lifetime=300, choice_breaks=True)
    assert capabilities.prices == Prices(input=4, cached=0.20, written=5, output=20)


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("openai:gpt-5-mini", "mask", "allowed_tools"),
        ("gpt-5-mini", "mask", ""),
        ("openai:ft:gpt-4.1:acme::1", "mask", "allowed_tools"),
        ("openai:gpt-oss-20b", "mask", ""),
        ("openai:some-model-of-ones-own", "mask", ""),
        ("openai-responses:gpt-6-sol", "deferral", "additions"),
        ("openai:gpt-6-sol", "deferral", ""),
        ("gemini:gemini-3.8-flash", "mask", "allowed_function_names"),
        ("gemini:gemini-2.5-pro", "json_schema", "alone"),
        ("ollama:qwen3:8b", "required", "ignored"),
        ("deepseek:deepseek-v4-pro", "forced_with_thinking", False),
        ("kimi-k3-turbo", "named", "refused"),
        ("practice", "json_schema", "no"),
        ("practice:practice", "tool_cap", 128),
        ("anthropic:claude-3-opus", "tool_cap", None),
    ],
)
def test_what_ships_is_known_by_provider_and_model(model: str, field: str, value: Any) -> None:
    assert getattr(capabilities_of(model), field) == value


def test_an_unknown_model_gets_the_careful_defaults() -> None:
    capabilities = capabilities_of("nobody:heard-of-it")
    assert capabilities == Capabilities(pattern="")
    assert (capabilities.tool_cap, capabilities.prices, capabilities.cache.kind) == (128, None, "automatic")


def test_no_pattern_stands_twice() -> None:
    patterns = [(row.pattern, row.wire) for row in CAPABILITIES]
    assert len(set(patterns)) == len(patterns)


@pytest.mark.parametrize(
    "model", ["openai:gpt-5", "openai-responses:gpt-6-sol", "anthropic:claude-sonnet-5", "gemini:gemini-3.8-flash"]
)
def test_of_the_great_vendors_prices_and_cache_are_known(model: str) -> None:
    capabilities = capabilities_of(model)
    assert capabilities.prices is not None
    assert (
        capabilities.prices.cached
        < capabilities.prices.input
        <= capabilities.prices.written
        < capabilities.prices.output
    )
    assert capabilities.cache.kind != "none"
    assert capabilities.cache.lifetime >= 300


def test_an_operator_says_otherwise_of_single_fields() -> None:
    mine = capabilities_from({"pattern": "openai:gpt-5*", "required": "ignored", "tool_cap": "off"})
    capabilities = capabilities_of("openai:gpt-5-mini", [mine, *CAPABILITIES])
    assert capabilities.required == "ignored"
    assert capabilities.tool_cap is None
    assert capabilities.prices == capabilities_of("openai:gpt-5-mini").prices
    assert capabilities.pattern == "openai:gpt-5*"


def test_prices_that_are_not_given_are_those_of_the_input() -> None:
    mine = capabilities_from({"pattern": "x", "prices": {"input": 2, "output": 8, "cached": 0.5}})
    assert mine.prices == Prices(input=2, cached=0.5, written=2, output=8)


def test_a_pattern_without_a_provider_fits_whatever_the_provider() -> None:
    table = [capabilities_from({"pattern": "small-*", "tool_cap": 5})]
    assert capabilities_of("a:small-1", table).tool_cap == 5
    assert capabilities_of("small-1", table).tool_cap == 5
    assert capabilities_of("a:b:small-1", table).tool_cap == 128


def test_a_whole_row_says_everything() -> None:
    table = [Capabilities(pattern="x*", tool_cap=3), *CAPABILITIES]
    assert capabilities_of("x-gpt-5", table).tool_cap == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tool_cap": 5}, "pattern"),
        ({"pattern": "x", "tolls": "none"}, "tolls"),
        ({"pattern": "x", "required": "maybe"}, "$.required"),
        ({"pattern": "x", "cache": {"kind": "automatic", "step": 0}}, "$.cache.step"),
        ({"pattern": "x", "prices": {"input": -1, "output": 1}}, "$.prices.input"),
        ({"pattern": "x", "prices": {"input": 1}}, "output"),
        ({"pattern": ""}, "$.pattern"),
        ("x", "object"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(row: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        capabilities_from(row)
    assert message in str(raised.value)


def test_the_file_is_read_when_somebody_looks_and_not_before() -> None:
    code = (
        "import toolcaddie.core.capabilities as c; assert c._shipped.cache_info().currsize == 0;"
        "assert len(c.CAPABILITIES) > 30; assert c._shipped.cache_info().currsize == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_known_of_a_model_can_be_a_key() -> None:
    assert len({capabilities_of("openai:gpt-5"), capabilities_of("openai:gpt-5"), capabilities_of("gpt-5")}) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"msk": ""}, "unknown field `msk`; did you mean 'mask'?"),
        ({"zzz": 1}, "unknown field `zzz`; there are pattern, wire, tools, tool_cap, "),
        ({"tools": "nativ"}, "at `$.tools`; write one of 'native', 'text', 'none'"),
        ({"cache": {"kind": "auto"}}, "at `$.cache.kind`; write one of 'none', 'automatic', 'breakpoints'"),
        ({"prices": {"inptu": 1, "output": 2}}, "did you mean 'input'?"),
    ],
)
def test_a_wrong_row_is_told_with_the_names_and_words_that_there_are(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        capabilities_from({"pattern": "x", **row})


@pytest.mark.parametrize(
    ("model", "writes"),
    [
        ("ollama:llama3.2:3b", False),
        ("ollama:gemma3", False),
        ("ollama:qwen3-coder:30b", True),
        ("ollama:gpt-oss:120b-cloud", True),
        ("ollama:glm-5:cloud", True),
        ("llamacpp:my-model", False),
        ("llamacpp:Qwen3-32B-Q4_K_M.gguf", True),
        ("vllm:Qwen/Qwen2.5-7B-Instruct", False),
        ("vllm:google/gemma-3-270m-it", False),
        ("vllm:google/gemma-3n-E4B-it", False),
        ("vllm:Qwen/Qwen3-30B-A3B", True),
        ("vllm:zai-org/GLM-5", True),
        ("groq:llama-3.1-8b-instant", False),
        ("groq:meta-llama/llama-4-scout-17b-16e-instruct", True),
        ("together:deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", False),
        ("together:deepseek-ai/DeepSeek-R1-Distill-Llama-70B", True),
        ("together:microsoft/Phi-3.5-mini-instruct", False),
        ("openrouter:anthropic/claude-3-haiku", False),
        ("anthropic:claude-haiku-5-5", True),
        ("openai:gpt-3.5-turbo", False),
        ("openai:gpt-5.4-nano", False),
        ("openai:gpt-5-mini", True),
        ("gemini:gemini-2.5-flash-lite", False),
        ("gemini:gemini-2.5-flash", True),
        ("mistral:ministral-8b-latest", False),
        ("house:of-ones-own", True),
    ],
)
def test_models_of_fewer_than_ten_billion_parameters_are_too_weak_for_programs(model: str, writes: bool) -> None:
    assert capabilities_of(model).programs is writes
