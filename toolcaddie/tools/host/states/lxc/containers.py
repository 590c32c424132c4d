"""Containers as the server shows them, and as attributes of the state. What a model may not set is named in `other`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.tool import JsonObject

CONFIG = ("limits.cpu", "limits.memory", "limits.processes", "boot.autostart")
"""The keys of a container's configuration that are attributes. An empty text means that the key is not set."""
IMAGE_KEY = "user.toolcaddie.image"
"""The key that remembers the name of the image from which a container was created; the server knows its fingerprint only."""

_RUNNING = ("Running", "Ready", "Frozen", "Starting", "Freezing", "Thawed")
_OF_THE_SERVER = ("volatile.", "image.")
"""Beginnings of the keys that the server itself sets."""
_LONGEST = 2_000
"""The largest number of characters of an attribute."""


def is_container(instance: Any) -> bool:
    return isinstance(instance, dict) and instance.get("type") == "container" and isinstance(instance.get("name"), str)


def attributes(instance: Mapping[str, Any]) -> JsonObject:
    """Returns the attributes of a container."""
    config = mapping(instance.get("config"))
    return {
        "running": instance.get("status") in _RUNNING,
        "image": _text(config.get(IMAGE_KEY) or config.get("volatile.base_image")),
        "profiles": [_text(name) for name in instance.get("profiles") or ()],
        "description": _text(instance.get("description")),
        **{key: _text(config.get(key)) for key in CONFIG},
        "other": _other(instance, config),
    }


def configuration(config: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a container's configuration with the attributes in place of what they were before."""
    rest = {key: value for key, value in config.items() if key not in CONFIG}
    return rest | {key: after[key] for key in CONFIG if after[key]}


def _other(instance: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """Returns the names of everything in which a container differs from one that a model could have created."""
    keys = [key for key in config if key not in (*CONFIG, IMAGE_KEY) and not key.startswith(_OF_THE_SERVER)]
    devices = [f"device {name}" for name in mapping(instance.get("devices"))]
    kinds = [name for name in ("ephemeral", "stateful") if instance.get(name)]
    return sorted(_text(name) for name in (*keys, *devices, *kinds))


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns the value, or an empty mapping if it is none."""
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:_LONGEST]
