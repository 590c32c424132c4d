"""Time zones by their IANA names, in any case, with suggestions for wrong ones."""

from __future__ import annotations

import os
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

_LOCALTIME = Path("/etc/localtime")
_NO_ZONES = {"Factory", "localtime", "posixrules"}
"""Files among the zones that are none."""
_SUGGESTED = 3
"""The largest number of suggestions by each way of looking for them."""
_ZONES = "zoneinfo"
"""The folder of zones to which the machine's own zone is a link."""


def zone_of(name: str) -> ZoneInfo | None:
    """Returns a zone by its IANA name, in any case. None: there is none."""
    key = _names().get(name.strip().lower().replace(" ", "_"))
    return None if key is None else ZoneInfo(key)


def close_zones(name: str) -> str:
    """Returns a suggestion of zones whose city, or whole name, is spelt like the name."""
    plain = name[:100].strip().lower().replace(" ", "_")
    cities = {lower.rpartition("/")[2]: zone for lower, zone in sorted(_names().items(), reverse=True)}
    close = [cities[city] for city in get_close_matches(plain.rpartition("/")[2], cities, _SUGGESTED)]
    close += [_names()[lower] for lower in get_close_matches(plain, _names(), _SUGGESTED)]
    suggested = ", ".join(dict.fromkeys(close))
    return f"did you mean {suggested}?" if suggested else "give an IANA name such as Europe/Madrid or UTC"


def machine_zone() -> str:
    """Returns the zone of this machine: the variable TZ, or where /etc/localtime leads. UTC if neither names a zone."""
    variable = os.environ.get("TZ", "").removeprefix(":")
    if zone_of(variable) is not None:
        return variable
    folder, _, name = str(_LOCALTIME.resolve()).partition(f"/{_ZONES}/")
    return name if name and folder and zone_of(name) is not None else "UTC"


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Returns the names of all zones by their lower-case form."""
    return {name.lower(): name for name in available_timezones() - _NO_ZONES}
