"""Signatures of webhooks: those of the specification Standard Webhooks, and those of plain HMACs in hexadecimal digits.

signature(key, "msg_1", "1700000000", body)  ->  "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from toolcaddie.core.errors import ConfigError

PREFIX = "whsec_"
"""Begins a secret in base64."""


def signing_key(secret: str) -> bytes:
    """Returns the bytes of a secret: `whsec_` and base64, or any other text. Raises `ConfigError` if it cannot be read."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError as error:
        raise ConfigError(f"the secret of the webhook begins with {PREFIX!r}, but the rest is no base64") from error


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Returns the signature of a request: `v1,` and the base64 of the HMAC-SHA256 of id, time and body."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"


def is_signed(key: bytes, message_id: str, timestamp: str, body: bytes, signatures: str) -> bool:
    """Returns True if one of the signatures, which are separated by blanks, is right. Takes the same time for every wrong one."""
    right = signature(key, message_id, timestamp, body).encode()
    matches = [hmac.compare_digest(right, each.encode()) for each in signatures.split(" ")[:_MOST_SIGNATURES]]
    return any(matches)


def is_hex_signed(key: bytes, body: bytes, digits: str) -> bool:
    """Returns True if these are the hexadecimal digits of the HMAC-SHA256 of a body."""
    right = hmac.new(key, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(right.encode(), digits.lower().encode())


_MOST_SIGNATURES = 10
"""A sender that changes its secret sends a signature with each."""
