"""Services that speak OpenAI's chat completions, by name. Each is data; one entry point makes it a provider.

    groq(model="openai/gpt-oss-120b")              # the key from GROQ_API_KEY
    ollama(base_url="http://gpu-box:11434/v1")

Addresses and names of variables are those of each service's own documentation, looked up in 2026-11.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from yarl import URL

from toolcaddie.core.errors import ConfigError
from toolcaddie.providers.client import Client
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.vendor import Vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Vendor):
    """A vendor whose API is OpenAI's chat completions. It finds address and key in the environment."""

    finds_key: ClassVar[bool] = True

    client: Callable[..., Client] = OpenAIChat
    url_env: str = ""
    """The variable that holds the address."""
    needs_key: bool = True
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    stream_usage: bool = True
    """False: `stream_options` is refused."""
    path: str = ""
    """Put behind an address that is a host alone."""
    version_env: str = ""
    """The variable that holds the `api-version` of the query."""

    def __call__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        model: str | None = None,
        environ: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Client:
        """`more` goes to `OpenAIChat`. Raises `ConfigError` where no address or no key is known."""
        environ = os.environ if environ is None else environ
        if api_key is None and not self._is_elsewhere(base_url):
            api_key = environ.get(self.key_env)
        if self.needs_key and not api_key:
            named = (
                "give one: its own key goes to its own address"
                if self._is_elsewhere(base_url)
                else f"set {self.key_env}"
            )
            raise ConfigError(f"the provider {self.name!r} needs an api_key; {named}")
        return self.client(
            self._address(base_url, environ),
            api_key,
            default_model=model or "",
            **{
                "name": self.name,
                "key_header": self.key_header,
                "key_prefix": self.key_prefix,
                "stream_usage": self.stream_usage,
                **more,
            },
        )

    def _is_elsewhere(self, base_url: str | None) -> bool:
        """Whether this is another address than the service's own, where the key of the service is not to go."""
        return bool(self.needs_key and self.base_url and base_url) and base_url != self.base_url

    def _address(self, base_url: str | None, environ: Mapping[str, str]) -> str:
        found = base_url or (environ.get(self.url_env) if self.url_env else None) or self.base_url
        if not found:
            raise ConfigError(f"the provider {self.name!r} needs a base_url; set it, or {self.url_env}")
        try:
            url = URL(found.strip())
        except ValueError as error:
            raise ConfigError(f"the base_url of the provider {self.name!r} is not a URL: {error}") from error
        if self.path and url.host and url.path == "/":
            url = url.with_path(self.path, keep_query=True)
        version = environ.get(self.version_env) if self.version_env else None
        if version and "api-version" not in url.query:
            url = url.update_query({"api-version": version})
        return str(url)


azure = (
    Service(  # a model is the name of a deployment; with an address of its own the key stands in a header of its own
        name="azure",
        url_env="AZURE_OPENAI_ENDPOINT",
        key_env="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        key_prefix="",
        path="/openai/v1",
        version_env="OPENAI_API_VERSION",
        output_limit="max_completion_tokens",
    )
)
deepseek = Service(
    name="deepseek",
    base_url="https://api.deepseek.com/v1",
    key_env="DEEPSEEK_API_KEY",
    default_model="deepseek-chat",
    families=("deepseek",),
)
groq = Service(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY")
mistral = Service(  # usage comes with the last chunk unasked; asking for it is an error
    name="mistral",
    base_url="https://api.mistral.ai/v1",
    key_env="MISTRAL_API_KEY",
    stream_usage=False,
    families=("codestral", "ministral", "mistral"),
)
ollama = Service(
    name="ollama",
    base_url="http://127.0.0.1:11434/v1",
    key_env="OLLAMA_API_KEY",
    needs_key=False,
    families=("gpt-oss", "llama", "qwen"),
)
openrouter = Service(name="openrouter", base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY")
together = Service(name="together", base_url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY")
vllm = Service(name="vllm", base_url="http://127.0.0.1:8000/v1", key_env="VLLM_API_KEY", needs_key=False)
xai = Service(name="xai", base_url="https://api.x.ai/v1", key_env="XAI_API_KEY", families=("grok",))

SERVICES: Mapping[str, Service] = {
    service.name: service for service in (azure, deepseek, groq, mistral, ollama, openrouter, together, vllm, xai)
}
