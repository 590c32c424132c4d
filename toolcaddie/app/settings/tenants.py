"""The settings of catalogs that belong to a tenant.

[tenants]
folder = "tenants"
open = 100
"""

from __future__ import annotations

from msgspec import Struct

from toolcaddie.core.numbers import Positive


class TenantSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The folder with the catalogs of tenants, and how many of them are open."""

    folder: str | None = None
    """The folder with a file `TENANT.toml` for each tenant that has tools of its own; a relative path is relative to the settings
    file. None: no tenant has any."""
    open: Positive = 100
    """The largest number of catalogs that stay open while no request uses them."""
