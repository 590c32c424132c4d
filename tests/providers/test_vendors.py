"""What is known of each vendor stands in one place, and all who ask are told the same."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from toolcaddie.app.models import likely_provider
from toolcaddie.core.tool_config import FallbackProvider
from toolcaddie.core.vocabulary import wire_named
from toolcaddie.parts import Parts, Secrets
from toolcaddie.providers.vendors import VENDORS
from toolcaddie.registry import Registry
from toolcaddie.runtime.models import params_of


def test_the_fallbacks_parameters_have_the_names_its_server_knows() -> None:
    fields = {"model": "m", "temperature": 0.2, "max_tokens": 500}
    assert params_of(FallbackProvider(provider="openai", **fields)) == {
        "temperature": 0.2,
        "max_completion_tokens": 500,
    }
    assert params_of(FallbackProvider(provider="azure", **fields)) == params_of(
        FallbackProvider(provider="openai", **fields)
    )
    assert params_of(FallbackProvider(provider="ollama", **fields)) == {"temperature": 0.2, "max_tokens": 500}
    assert params_of(FallbackProvider(provider="ollama", model="m")) == {}


@pytest.mark.parametrize("name", sorted(VENDORS))
def test_every_vendor_is_installed_under_its_name(name: str) -> None:
    vendor = VENDORS[name]
    environ = {vendor.key_env: "k" * 20, vendor.url_env or "NO_VARIABLE": "https://acme.example.com"}
    provider = Registry().make("provider", name, {}, Parts(secrets=Secrets(environ)))
    assert provider.name == name
    assert urlsplit(vendor.base_url or "https://acme.example.com").hostname in repr(provider)
    assert provider.wire == wire_named(name)


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("gpt-oss:20b", "ollama"),
        ("gpt-5-mini", "openai"),
        ("ft:gpt-4o:acme", "openai"),
        ("Claude-Sonnet-5-5", "anthropic"),
        ("ministral-8b", "mistral"),
        ("grok-4", "xai"),
        ("house-model-1", None),
    ],
)
def test_the_beginning_of_a_models_name_says_who_serves_it(model: str, vendor: str | None) -> None:
    assert likely_provider(model) == vendor
