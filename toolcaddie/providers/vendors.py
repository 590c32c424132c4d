"""The vendors of models: the one place that knows their addresses, the variables of their keys, and the names of their models.

This module has only facts, so that a command that sends no request does not load an HTTP client. Factories in other modules,
such as `anthropic.from_settings`, make providers from these facts. Addresses and variables are those of each vendor's own
documentation, looked up in 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The facts about one vendor."""

    name: str
    key_env: str
    """The environment variable of the key."""
    base_url: str = ""
    """The address of the API; empty: every customer has another address."""
    default_model: str = ""
    """The model of a fallback that names none; empty: the vendor has no such model."""
    families: tuple[str, ...] = ()
    """Beginnings of the names of its models."""
    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The parameter that limits an answer's length. Newer models of OpenAI refuse the old name, other servers the new name."""
    needs_key: Literal["always", "at_own_address", "never"] = "always"
    """Whether requests need a key. `at_own_address`: only at the vendor's own address; another server may need none."""
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    url_env: str = ""
    """The environment variable of the address."""
    version_env: str = ""
    """The environment variable of the query parameter `api-version`."""
    path: str = ""
    """The path that is added to an address without a path."""
    stream_usage: bool = True
    """False: the server refuses `stream_options`."""

    def is_elsewhere(self, base_url: str | None) -> bool:
        """Returns True if the settings name an address to which the key in the vendor's variable must not be sent."""
        if not base_url or not self.base_url or self.needs_key == "never":
            return False
        return self.needs_key == "at_own_address" or base_url != self.base_url


OPENAI = Vendor(
    name="openai",
    key_env="OPENAI_API_KEY",
    base_url="https://api.openai.com/v1",
    default_model="gpt-5-mini",
    families=("chatgpt-", "gpt-", "o1", "o3", "o4"),
    output_limit="max_completion_tokens",
    needs_key="at_own_address",
)
OPENAI_RESPONSES = Vendor(
    name="openai-responses",
    key_env=OPENAI.key_env,
    base_url=OPENAI.base_url,
    default_model=OPENAI.default_model,
    output_limit="max_completion_tokens",
    needs_key="at_own_address",
)
ANTHROPIC = Vendor(
    name="anthropic",
    key_env="ANTHROPIC_API_KEY",
    base_url="https://api.anthropic.com",
    default_model="claude-sonnet-5-5",
    families=("claude",),
    needs_key="at_own_address",
    key_header="x-api-key",
    key_prefix="",
)
GEMINI = Vendor(
    name="gemini",
    key_env="GEMINI_API_KEY",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    default_model="gemini-3.8-flash",
    families=("gemini",),
    needs_key="at_own_address",
    key_header="x-goog-api-key",
    key_prefix="",
)

VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        OPENAI,
        OPENAI_RESPONSES,
        ANTHROPIC,
        GEMINI,
        Vendor(  # the name of a model is that of a deployment
            name="azure",
            key_env="AZURE_OPENAI_API_KEY",
            key_header="api-key",
            key_prefix="",
            url_env="AZURE_OPENAI_ENDPOINT",
            version_env="OPENAI_API_VERSION",
            path="/openai/v1",
            output_limit="max_completion_tokens",
        ),
        Vendor(
            name="deepseek",
            key_env="DEEPSEEK_API_KEY",
            base_url="https://api.deepseek.com/v1",
            default_model="deepseek-chat",
            families=("deepseek",),
        ),
        Vendor(name="groq", key_env="GROQ_API_KEY", base_url="https://api.groq.com/openai/v1"),
        Vendor(  # sends the usage in the last chunk in any case, and refuses a request for it
            name="mistral",
            key_env="MISTRAL_API_KEY",
            base_url="https://api.mistral.ai/v1",
            families=("codestral", "ministral", "mistral"),
            stream_usage=False,
        ),
        Vendor(
            name="ollama",
            key_env="OLLAMA_API_KEY",
            base_url="http://127.0.0.1:11434/v1",
            families=("gpt-oss", "llama", "qwen"),
            needs_key="never",
        ),
        Vendor(name="openrouter", key_env="OPENROUTER_API_KEY", base_url="https://openrouter.ai/api/v1"),
        Vendor(name="together", key_env="TOGETHER_API_KEY", base_url="https://api.together.xyz/v1"),
        Vendor(name="vllm", key_env="VLLM_API_KEY", base_url="http://127.0.0.1:8000/v1", needs_key="never"),
        Vendor(name="xai", key_env="XAI_API_KEY", base_url="https://api.x.ai/v1", families=("grok",)),
    )
}

_FAMILIES = sorted(
    ((beginning, vendor.name) for vendor in VENDORS.values() for beginning in vendor.families),
    key=lambda family: -len(family[0]),  # longer beginnings first: gpt-oss before gpt-
)


def vendor_of_model(model: str) -> str | None:
    """Returns the name of the vendor whose models have such names; None: it is not known."""
    return next((vendor for beginning, vendor in _FAMILIES if model.startswith(beginning)), None)
