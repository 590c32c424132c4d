"""Close names for a mistyped one, so that an error can say what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def close_names(name: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """At most `limit` of `names` that look like `name`, the closest first. Long input is cut: it may be hostile."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    return [by_lower[match] for match in difflib.get_close_matches(name[:64].lower(), by_lower, n=limit, cutoff=0.6)]
