"""The written rules by which the guarded client refuses a request or an answer. Every refusal names its rule."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.core.errors import OutboundError

RULES: Mapping[str, str] = {
    "url": (
        "All programs must read a URL alike: no spaces, control characters or backslashes, no odd spelling of an IP address."
    ),
    "scheme": "Only http and https are spoken.",
    "address": "Only addresses of the public Internet are reached, and the private hosts that the operator names.",
    "ports": "Only 80, 443 and `ports` are reached, besides private hosts.",
    "domains": "If hosts are set, only these are reached.",
    "redirects": "Only a limited number of redirects is followed, and none leads to a private host from elsewhere.",
    "types": "If content types are set, only answers of these types are read.",
    "encoding": "A body may be compressed by gzip or deflate, once.",
    "size": "An answer may have a limited size, compressed and decompressed.",
    "time": "All redirects and the whole answer together may take a limited time.",
}
"""Each rule by its name."""


def refused(rule: str, reason: str) -> OutboundError:
    """Returns the error of a refusal. `rule`: a name of `RULES`."""
    return OutboundError(f"{reason} (rule {rule!r})", rule=rule)
