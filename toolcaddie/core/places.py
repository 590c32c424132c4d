"""The positions of names in a sequence from which few names are removed, and to whose end few are added."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

_MOST_APART = 256
"""The largest number of added and removed names that are kept apart from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The position of each name. Names that were removed or added after `base` was made are kept apart, so that a change costs
    the same however many names there are."""

    base: Mapping[str, int]
    gone: Sequence[int] = ()
    """Positions in `base` of removed names, in order."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Names behind those of `base`, with their numbers: 0, 1, 2 ..."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Places:
        return cls(base=dict(zip(names, count(), strict=False)))

    def __len__(self) -> int:
        return len(self.base) - len(self.gone) + len(self.late)

    def get(self, name: str) -> int | None:
        """Returns the position of a name, or None if there is no such name."""
        number = self.late.get(name)
        if number is not None:
            return len(self.base) - len(self.gone) + number
        position = self.base.get(name)
        if position is None or not self.gone:
            return position
        before = bisect_left(self.gone, position)
        return None if position in self.gone[before : before + 1] else position - before

    def changed(self, removed: Collection[str], added: Sequence[str]) -> Places | None:
        """Returns the places after some names were removed and others were added at the end; None if so many names would be kept
        apart that all places should be made again."""
        if len(self.gone) + len(self.late) + len(removed) + len(added) > _MOST_APART:
            return None
        late = [name for name in self.late if name not in removed] + list(added)
        more = [self.base[name] for name in removed if name not in self.late]
        return Places(base=self.base, gone=sorted([*self.gone, *more]), late={name: at for at, name in enumerate(late)})
