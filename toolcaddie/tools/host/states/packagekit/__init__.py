"""The state plugin `packagekit`: packages of the distribution, by PackageKit over D-Bus, or by apt where it is absent."""

from __future__ import annotations

from toolcaddie.tools.host.states.packagekit.plugin import PackagesPlugin, packagekit

__all__ = ["PackagesPlugin", "packagekit"]
