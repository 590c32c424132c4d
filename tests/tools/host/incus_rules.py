"""Rules of the scripted server of containers: what it knows, and the words of its answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

FINGERPRINT = "0123456789abcdef" * 4
NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_KEYS = re.compile(
    r"limits\.(cpu|memory|processes)|boot\.autostart|(user|volatile|image)\..+|raw\.lxc|security\.privileged"
)
NEW = {"name", "type", "description", "profiles", "config", "source", "devices", "ephemeral"}
PUT = {"architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful"}
SOURCE = {"type", "alias", "fingerprint", "mode", "server", "protocol"}
STATE = {"action", "timeout", "force", "stateful"}


class Refusal(Exception):
    """An error in the words of the server."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(slots=True)
class Operation:
    """Work that goes on after its request was answered."""

    task: asyncio.Task[None]
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    error: str = ""

    def shown(self) -> dict[str, Any]:
        code, status = (103, "Running") if not self.task.done() else (200, "Success")
        if self.task.done() and self.error:
            code, status = 400, "Failure"
        return {"id": self.name, "class": "task", "status": status, "status_code": code, "err": self.error}


def check_settings(body: dict[str, Any], profiles: Collection[str]) -> None:
    """Raises `Refusal` for a key of the configuration or a profile that the server does not know."""
    for key, value in body["config"].items():
        if not isinstance(value, str):
            raise Refusal(400, f"cannot unmarshal {key} into a string")
        if not _KEYS.fullmatch(key):
            raise Refusal(400, f"Unknown configuration key: {key}")
    for profile in body["profiles"]:
        if profile not in profiles:
            raise Refusal(400, f"Requested profile {profile!r} doesn't exist")


def sync(metadata: Any, *, etag: str = "") -> web.Response:
    headers = {"ETag": etag} if etag else None
    body = {"type": "sync", "status": "Success", "status_code": 200, "metadata": metadata}
    return web.json_response(body, headers=headers)


def etag_of(instance: dict[str, Any]) -> str:
    parts = [instance[key] for key in sorted(PUT)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


async def body_of(request: web.Request, known: set[str]) -> dict[str, Any]:
    if request.content_type != "application/json":
        raise Refusal(415, "no JSON")
    body = await request.json()
    if unknown := set(body) - known:
        raise Refusal(400, f"unknown key {sorted(unknown)[0]}")
    return dict(body)
