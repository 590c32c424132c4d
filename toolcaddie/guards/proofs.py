"""Headers that prove who a client is."""

from __future__ import annotations

PROOFS = frozenset({"authorization", "api-key", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"})
"""Headers with credentials, in lower case: they go only to their own recipient and are never stored."""
