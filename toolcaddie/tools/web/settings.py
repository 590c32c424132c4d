"""The settings of the source `web`: the tables `search` and `fetch` of its `[[source]]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcaddie.core.numbers import Count, Positive, Seconds
from toolcaddie.guards.net import Host, HostPort
from toolcaddie.parts import Variable

MEGABYTE = 1024 * 1024

Port = Annotated[int, Meta(ge=1, le=65535)]
CacheSeconds = Annotated[float, Meta(ge=0)]
"""0: results are not reused."""
MaxResults = Annotated[int, Meta(ge=1, le=20)]


class SearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`web_search`. The tool exists only if its provider has what it needs: Brave needs its key."""

    enabled: bool = True
    provider: str = "brave"
    """The name of a search provider (`toolcaddie plugins` lists them)."""
    key_env: Variable | None = None
    """The variable with the provider's key. None: the provider's own default; Brave's is `BRAVE_API_KEY`."""
    url: str | None = None
    """The provider's address. None: the provider's own."""
    options: Mapping[str, Any] = {}
    """Further settings of the provider."""
    max_results: MaxResults = 5
    timeout: Seconds = 30.0
    cache_ttl: CacheSeconds = 900.0
    per_minute: Count = 0
    """The largest number of calls per minute of one caller. 0: no limit."""


NO_SEARCH_SETTINGS = SearchSettings()


class FetchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`web_fetch`."""

    enabled: bool = True
    max_content_length: Positive = 50_000
    """Characters of a page that the model reads; the rest is cut off."""
    max_bytes: Positive = 5 * MEGABYTE
    """The largest size of a page, compressed and decompressed."""
    max_redirects: Count = 5
    concurrency: Positive = 50
    """Pages that are fetched at the same time; further ones wait."""
    timeout: Seconds = 30.0
    """Seconds for all redirects, the whole page and the reading of it."""
    cache_ttl: CacheSeconds = 900.0
    domains: tuple[Host, ...] = ()
    """The only hosts that are fetched from. Empty: every public host."""
    ports: tuple[Port, ...] = ()
    """Ports besides 80 and 443."""
    private_hosts: tuple[HostPort, ...] = ()
    """Servers of the operator that are fetched from although they are private, each with its exact host and port."""
    per_minute: Count = 0
    """The largest number of calls per minute of one caller. 0: no limit."""


NO_FETCH_SETTINGS = FetchSettings()
