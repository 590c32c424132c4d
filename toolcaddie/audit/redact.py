"""Secrets out of what is written down. Plain rules: names that say so, and values that look like keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

REDACTED = "[redacted]"

MAX_PARSED = 64 * 1024
"""Characters of JSON that are looked at field by field; longer text is treated as words."""

_MAX_DEPTH = 32

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    {"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets"}
    | {"authorization", "cookie", "credential", "credentials", "apikey"}
)
_SECRET_ENDINGS = ("token", "password", "passwd", "secret", "apikey")
_SECRET_PAIRS = frozenset((word, "key") for word in ("api", "access", "private", "signing", "auth"))

_KEYS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        *((f"{prefix}-", rf"\b{prefix}-[A-Za-z0-9_-]{{16,}}") for prefix in ("sk", "pk", "rk")),
        *((f"{prefix}_", rf"\b{prefix}_[A-Za-z0-9_-]{{16,}}") for prefix in ("sk", "pk", "rk", "tc", "hf")),
        *((f"gh{kind}_", rf"\bgh{kind}_[A-Za-z0-9]{{20,}}") for kind in "pousr"),
        ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        ("glpat-", r"\bglpat-[A-Za-z0-9_-]{16,}"),
        ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
        ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
        ("AIza", r"\bAIza[0-9A-Za-z_-]{30,}"),
        ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # a JSON web token
        (
            "PRIVATE KEY-----",
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
        ),
    )
)
"""What a key begins with, and its whole shape. Texts without the mark, nearly all, cost a substring search only."""

_SCHEMES = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_USER_INFO = re.compile(r"(://[^/\s:@]{0,200}:)[^/\s@]{1,200}@")
_ASSIGNED_WORDS = ("passw", "passphrase", "secret", "token", "api", "authorization")
_ASSIGNED = re.compile(
    r"""
    ((?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|authorization)["']?\s{0,8}[:=]\s{0,8})
    ("[^"\n]{1,500}"?|'[^'\n]{1,500}'?|[^\s"',;&}\]]{1,500})
    """,
    re.VERBOSE | re.IGNORECASE,
)

_encode = msgspec.json.Encoder().encode


def redact(value: Any, *, _depth: int = 0) -> Any:
    """The same JSON-compatible value without its secrets; what is nested deeper than 32 levels is left out whole."""
    if isinstance(value, str):
        return redact_text(value)
    if _depth >= _MAX_DEPTH:
        return REDACTED if isinstance(value, Mapping | list | tuple) else value
    if isinstance(value, Mapping):
        return {
            key: _hidden(item) if is_secret_name(str(key)) else redact(item, _depth=_depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(item, _depth=_depth + 1) for item in value]
    return value


def redact_text(text: str) -> str:
    """Text without what looks like a key, a bearer token, a password in a URL, or `password: ...`."""
    for mark, key in _KEYS:
        if mark in text:
            text = key.sub(REDACTED, text)
    if "://" in text:
        text = _USER_INFO.sub(rf"\1{REDACTED}@", text)
    lower = text.lower()
    if "bearer" in lower or "basic" in lower:
        text = _SCHEMES.sub(rf"\1 {REDACTED}", text)
    if any(word in lower for word in _ASSIGNED_WORDS):
        text = _ASSIGNED.sub(_keep_name, text)
    return text


def redact_json(text: str) -> str:
    """JSON text (a call's arguments) without secrets; text that is no JSON, or is huge, is treated as words."""
    if len(text) > MAX_PARSED:
        return redact_text(text)
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redact_text(text)
    clean = redact(value)
    return text if clean == value else _encode(clean).decode()


def is_secret_name(name: str) -> bool:
    """Whether a field of that name holds a secret: `password`, `apiKey`, `X-Auth-Token`; not `tokens`, `token_count`."""
    words = [word.lower() for word in _WORDS.findall(name[:100])]
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or any(pair in _SECRET_PAIRS for pair in pairwise(words))
        or (bool(words) and words[-1].endswith(_SECRET_ENDINGS))
    )


def _hidden(value: Any) -> Any:
    """No value, true or false is no secret, and `null` tells a reader something."""
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


def _keep_name(match: re.Match[str]) -> str:
    if match[2].startswith(REDACTED[:-1]) or match[2].lower() in ("bearer", "basic"):
        return match[0]
    return match[1] + REDACTED
