"""Names for the tools of MCP servers. A server may name its tools as it likes; a catalog takes letters, digits, `_` and `-`, at
most 64 of them, and no name twice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from toolcaddie.core.meta_names import META_TOOLS, READ_RESULT
from toolcaddie.core.reserved import RESERVED_NAMES

_TAKEN = frozenset({*META_TOOLS, READ_RESULT, *RESERVED_NAMES})

LONGEST = 64
"""The largest number of characters of a tool's name."""
_SEPARATOR = "__"
_TAIL = 8
"""Characters of the digest that replaces the end of a name."""


def tool_names(prefix: str, originals: Iterable[str], *, fallback: str = "mcp") -> Mapping[str, str]:
    """Returns the name in the catalog for each name of a server: `github` and `create.issue` give `github__create_issue`.

    A name that is too long, or that several tools would have, ends in a digest of the original. So the order of the server's
    list never decides which tool has which name. A name that is reserved for tools of Toolcaddie gets `fallback` as its prefix.
    """
    originals = list(dict.fromkeys(originals))
    plain = {original: _plain(prefix, original) for original in originals}
    plain = {each: _plain(fallback, each) if name in _TAKEN else name for each, name in plain.items()}
    holders: dict[str, int] = {}
    for name in plain.values():
        holders[name] = holders.get(name, 0) + 1
    return {
        original: name if holders[name] == 1 and len(name) <= LONGEST else with_digest(name, original)
        for original, name in plain.items()
    }


def _plain(prefix: str, original: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "_", original).strip("_") or "tool"
    return f"{prefix}{_SEPARATOR}{cleaned}" if prefix else cleaned


def with_digest(name: str, original: str) -> str:
    digest = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:_TAIL]
    return f"{name[: LONGEST - _TAIL - 1]}_{digest}"
