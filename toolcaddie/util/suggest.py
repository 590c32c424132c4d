"""Close names for a mistyped one, so that an error can say what was probably meant."""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

_WORDS = 4
"""64-bit words of a name's sketch: each of its letter pairs sets one of 256 bits."""
_COMPARED = 16
"""Names compared letter by letter, those whose sketches are closest."""


def close_names(name: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """At most `limit` of `names` that look like `name`, the closest first. Long input is cut: it may be hostile."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    return [by_lower[match] for match in difflib.get_close_matches(name[:64].lower(), by_lower, n=limit, cutoff=0.6)]


class Names:
    """Many names that are asked about often: a look-up in 10,000 takes about a millisecond where `close_names` takes ten."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sketches = np.array([_sketch(name) for name in names], dtype=np.uint64).reshape(-1, _WORDS)
        self._sizes = np.bitwise_count(self._sketches).sum(axis=1, dtype=np.int64)

    def close(self, name: str, mask: npt.NDArray[np.bool_] | None = None, *, limit: int = 3) -> list[str]:
        """As `close_names`; `mask`: only these positions."""
        sketch = np.array(_sketch(name[:64]), dtype=np.uint64)
        shared = np.bitwise_count(self._sketches & sketch).sum(axis=1, dtype=np.int64)
        alike = 2 * shared / np.maximum(1, self._sizes + np.bitwise_count(sketch).sum(dtype=np.int64))
        if mask is not None:
            alike = np.where(mask, alike, -1.0)
        best = np.argsort(-alike, kind="stable")[:_COMPARED]
        return close_names(name, [self._names[i] for i in best.tolist() if alike[i] > 0], limit=limit)


def _sketch(name: str) -> list[int]:
    text = f" {name.lower()} "
    bits = 0
    for at in range(len(text) - 1):  # crc32 and not hash(): the same in every process
        bits |= 1 << (zlib.crc32(text[at : at + 2].encode(errors="replace")) & 255)
    return [(bits >> (64 * word)) & 0xFFFF_FFFF_FFFF_FFFF for word in range(_WORDS)]
