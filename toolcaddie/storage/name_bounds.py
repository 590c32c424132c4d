"""Bounds the number of names that figures have in a period. Models and people invent names, which must not fill the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, func, select

from toolcaddie.storage.sums import COLUMNS, Sums, Topic
from toolcaddie.storage.tables import figures

OTHERS = ""
"""Name under which names are counted that a period has no room for."""

_MOST_NAMES: Mapping[Topic, int] = {
    "tools": 20_000,
    "categories": 5_000,
    "models": 1_000,
    "bots": 5_000,
    "searches": 1_000,
    "unknown": 1_000,
    "strategies": 50,
}
"""Largest number of names of a topic in a period of a tenant."""
_AT_ONCE = 500
"""Number of names in one statement."""

_OF_PERIOD = (
    (figures.c.topic == bindparam("a_topic"))
    & (figures.c.period == bindparam("a_period"))
    & (figures.c.tenant == bindparam("a_tenant"))
)
_NUMBER_OF_NAMES = select(func.count()).select_from(figures).where(_OF_PERIOD)
_KNOWN_NAMES = select(figures.c.name).where(_OF_PERIOD, figures.c.name.in_(bindparam("names", expanding=True)))


def within_bounds(connection: Connection, sums: Sums) -> Sums:
    """Returns the sums with new names counted as others, where a period has no room for more."""
    names_of: dict[tuple[Topic, str, str], list[str]] = defaultdict(list)
    for topic, period, tenant, name in sums:
        if topic in _MOST_NAMES:
            names_of[topic, period, tenant].append(name)
    bounded = dict(sums)
    for (topic, period, tenant), names in names_of.items():
        place = {"a_topic": topic, "a_period": period, "a_tenant": tenant}
        room = _MOST_NAMES[topic] - int(connection.execute(_NUMBER_OF_NAMES, place).scalar_one())
        if len(names) <= room:
            continue
        known: set[str] = {OTHERS}
        for at in range(0, len(names), _AT_ONCE):
            known.update(connection.execute(_KNOWN_NAMES, {**place, "names": names[at : at + _AT_ONCE]}).scalars())
        for name in sorted(set(names) - known)[max(0, room) :]:
            more = bounded.pop((topic, period, tenant, name))
            others = bounded.get((topic, period, tenant, OTHERS), [0] * len(COLUMNS))
            bounded[topic, period, tenant, OTHERS] = [a + b for a, b in zip(others, more, strict=True)]
    return bounded
