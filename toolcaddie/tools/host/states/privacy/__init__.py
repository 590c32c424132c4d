"""The state plugin `privacy`: an egress profile. Only listed addresses are reached, and DNS only of named resolvers."""

from __future__ import annotations

from toolcaddie.tools.host.states.privacy.plugin import PrivacyPlugin, privacy

__all__ = ["PrivacyPlugin", "privacy"]
