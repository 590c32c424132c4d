"""Finds the address and the key of a provider in its settings, in the facts about its vendor and in the environment.

A key is sent only to the address that it belongs to: if the settings name another address than the vendor's own, the variable
with the vendor's key is not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from yarl import URL

from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.parts import Secrets
from toolcaddie.providers.vendors import Vendor


@dataclass(frozen=True, slots=True)
class Access:
    """An address and its key."""

    base_url: str
    api_key: str | None = field(repr=False)


def access_to(
    vendor: Vendor,
    *,
    base_url: str | None,
    api_key: str | None,
    key_env: str | None,
    secrets: Secrets,
) -> Access:
    """Returns the address and the key of a provider; `key_env` names the variable to read in place of the vendor's.

    Raises `ConfigError` if the address or a key that is needed is missing.
    """
    address = base_url or secrets.setting(vendor.url_env or None) or vendor.base_url
    return Access(_complete(vendor, address, secrets), _key(vendor, base_url, api_key, key_env, secrets))


def _key(
    vendor: Vendor, base_url: str | None, api_key: str | None, key_env: str | None, secrets: Secrets
) -> str | None:
    if api_key:
        KNOWN.add(api_key)
        return api_key
    if key_env is not None:
        return secrets.require(key_env, what=f"the key of the provider {vendor.name!r}")
    is_elsewhere = vendor.is_elsewhere(base_url)
    key = None if is_elsewhere else secrets.get(vendor.key_env)
    if key is not None or vendor.needs_key == "never" or (is_elsewhere and vendor.needs_key == "at_own_address"):
        return key
    missing = f"the provider {vendor.name!r} needs a key"
    if is_elsewhere:
        raise ConfigError(
            f"{missing}; set key_env, or give an api_key: the key in {vendor.key_env} is for the vendor's own address"
        )
    other = ", or name the address of a server that needs no key" if vendor.needs_key == "at_own_address" else ""
    raise ConfigError(f"{missing}; put it into the environment variable {vendor.key_env}{other}")


def _complete(vendor: Vendor, address: str, secrets: Secrets) -> str:
    """Returns the address. If it lacks the vendor's path or version, these are added."""
    if not address:
        raise ConfigError(f"the provider {vendor.name!r} needs a base_url; set it, or {vendor.url_env}")
    version = secrets.setting(vendor.version_env or None)
    if not vendor.path and not version:
        return address
    try:
        url = URL(address.strip())
    except ValueError as error:
        raise ConfigError(f"the base_url of the provider {vendor.name!r} is not a URL: {error}") from error
    if vendor.path and url.host and url.path == "/":
        url = url.with_path(vendor.path, keep_query=True)
    if version and "api-version" not in url.query:
        url = url.update_query({"api-version": version})
    return str(url)
