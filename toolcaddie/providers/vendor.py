"""A vendor of models: all that is known of it, in one value. Called with settings, it makes the provider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from toolcaddie.core.errors import ConfigError
from toolcaddie.providers.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """`client` makes the provider: a wire with this vendor's header for the key."""

    finds_key: ClassVar[bool] = False
    """Whether it reads `key_env` itself where it is given no key."""

    name: str
    client: Callable[..., Client]
    key_env: str
    """The variable of the key."""
    base_url: str = ""
    """Empty: everybody has an address of their own."""
    default_model: str = ""
    """Asked where a fallback names no model; empty: the server has whatever was put on it."""
    families: tuple[str, ...] = ()
    """Beginnings of the names of its models."""
    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The parameter that bounds an answer: newer models of OpenAI's refuse the old name, other servers the new one."""

    def __call__(
        self, *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
    ) -> Client:
        """Returns the provider that settings describe; `more` goes to `client`. Raises `ConfigError` where nothing would work."""
        if base_url is None and not api_key:
            raise ConfigError(
                f"the provider {self.name!r} needs an api_key, or the base_url of a server that takes none"
            )
        return self.client(base_url or self.base_url, api_key, default_model=model or "", **more)
