"""Headers that prove who a client is."""

from __future__ import annotations

PROOFS = frozenset({"authorization", "api-key", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"})
"""Names of headers with credentials, in lower case. Such headers are sent only to the server that they are meant for, and are
never stored."""
