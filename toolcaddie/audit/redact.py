"""Redaction of secrets in everything that the audit trail stores. Three rules find them: names of fields that mean a secret, such
as `password`; values that look like keys; and the values of the secrets that this process knows (`guards.known_secrets`). Of
telephone numbers with a country code, the last three digits stay, so that a reader can tell them apart; whoever decides about a
call reads them whole (`redact_secrets`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import msgspec

from toolcaddie.guards.known_secrets import KNOWN, REDACTED, SHORTEST

MAX_PARSED = 64 * 1024
"""Number of characters up to which JSON is redacted field by field. Longer JSON is treated as plain text."""

_MAX_DEPTH = 32
"""Levels of nesting that are redacted. Deeper objects and lists are replaced as a whole."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    {"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets"}
    | {"authorization", "cookie", "cookies", "credential", "credentials", "apikey", "bearer", "jwt", "otp"}
)
"""Words that make a name secret at any place in it."""
_SECRET_ENDINGS = ("token", "password", "passwd", "secret", "apikey", "sessionid", "sessid")
"""Endings of the last word that make a name secret."""
_SECRET_LAST = frozenset({"pin", "sig"})
"""Words that make a name secret as its last word."""
_SECRET_PAIRS = frozenset(
    {
        *product(
            ("api", "access", "private", "signing", "auth", "account", "encryption", "master", "session"), ("key",)
        ),
        *product(("access", "auth", "bearer", "refresh", "session"), ("tokens",)),  # `tokens` alone is mostly a number
        *product(("amz", "goog", "access"), ("signature",)),
        *(("session", "id"), ("pin", "code")),
    }
)
"""Neighbouring words that make a name secret."""
_NAMES = (("name", "value"), ("key", "value"), ("Name", "Value"), ("Key", "Value"))
"""Pairs of fields of which the first has the name of a value and the second has the value. Lists of headers, variables and tags
have such items: `{"name": "X-Api-Key", "value": "..."}`."""
_MAX_NAME = 100
"""Number of characters at the end of a name that are checked."""

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
        ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,2000}+\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # a JSON web token
        (
            "PRIVATE KEY-----",
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
        ),
    )
)
"""The prefix of a kind of keys, and the whole pattern. Nearly all texts lack the prefix, and cost only a substring search."""

_TELEPHONE = re.compile(
    r"(?<![\w+])\+[1-9](?:[ ().-]{0,2}\d){4,11}[ ().-]{0,2}(\d)[ ().-]{0,2}(\d)[ ().-]{0,2}(\d)(?!\d)"
)
"""A telephone number of 8 to 15 digits in the form of E.164, as people write it."""
_SCHEMES = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_USER_INFO = re.compile(r"""(://[^/\s:@]{0,200}:)(?:[^/\s"'<>]{1,200}|[^/\s@]{1,200})@""")  # a password may hold an @
_HEADERS = re.compile(
    r"""
    ((?:authorization|cookie)\s{0,8}[:=]\s{0,8}(?:(?:bearer|basic|digest|negotiate|token|aws4-hmac-sha256)\s{1,8})?)
    [^\s"'\\](?:[^\r\n"'=]|=(?:"[^"\r\n]*+"?)?)*+
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Headers whose values may have several words, up to the end of the line or of the enclosing quotes."""

_ASSIGNED = re.compile(r"""(?<![\w.-])([\w.-]++)\\{0,8}["']?\s{0,8}[:=]{1,2}>?\s{0,8}""")
"""A name and all characters between the name and its value. A match begins only at the first character of a name, so that no text
is read twice."""

_VALUE = re.compile(
    r"""
    \\{1,8}"[^"\n]*+"?               # quoted within quotes: JSON in JSON
    | "(?:[^"\\\n]|\\.)++"?
    | '(?:[^'\\\n]|\\.)++'?
    | [\[{][^\]}]*+[\]}]?
    | [^\s"',;&}\]]++
    """,
    re.VERBOSE,
)
_ASSIGNED_WORDS = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cookie", "credential"),
    *("jwt", "bearer", "otp", "pin", "sess", "sig"),
)
"""Every secret name contains one of these strings. A text that contains none of them is not searched for names."""

_PAIRED = re.compile(
    r"""
    (["'](?:name|key)["']\s{0,8}:\s{0,8}["']([^"'\\]{1,100})["']\s{0,8},\s{0,8}["']value["']\s{0,8}:\s{0,8})
    ("(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""`{"name": "Authorization", "value": "..."}` in text that is not parsed as JSON."""

_encode = msgspec.json.Encoder().encode

__all__ = [
    "MAX_PARSED",
    "REDACTED",
    "is_secret_name",
    "redact",
    "redact_json",
    "redact_keys",
    "redact_secrets",
    "redact_text",
]


def redact(value: Any) -> Any:
    """Returns a JSON-compatible value without its secrets. Objects and lists nested deeper than 32 levels are replaced."""
    return _redacted(value, redact_text, 0)


def redact_secrets(value: Any) -> Any:
    """Returns the same as `redact`, but with whole telephone numbers, for the people who are asked about a call."""
    return _redacted(value, _without_secrets, 0)


def _redacted(value: Any, clean_text: Callable[[str], str], depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if depth >= _MAX_DEPTH:
        return REDACTED if isinstance(value, Mapping | list | tuple) else value
    if isinstance(value, Mapping):
        secret_key = _named_secret(value)
        clean: dict[Any, Any] = {}
        for key, item in value.items():
            is_secret = key == secret_key or is_secret_name(str(key))
            clean[_clean_key(key, clean)] = _hidden(item) if is_secret else _redacted(item, clean_text, depth + 1)
        return clean
    if isinstance(value, list | tuple):
        return [_redacted(item, clean_text, depth + 1) for item in value]
    return value


def redact_text(text: str) -> str:
    """Returns the text without the known secrets, API keys, bearer tokens, passwords in URLs, and values such as
    `password: ...`, and with shortened telephone numbers."""
    text = _without_secrets(text)
    return _TELEPHONE.sub(r"•••\1\2\3", text) if "+" in text else text


def _without_secrets(text: str) -> str:
    text = redact_keys(text)
    lower = text.lower()
    if "authorization" in lower or "cookie" in lower:
        text = _HEADERS.sub(rf"\1{REDACTED}", text)
    if "bearer" in lower or "basic" in lower:
        text = _SCHEMES.sub(rf"\1 {REDACTED}", text)
    if (":" in text or "=" in text) and any(word in lower for word in _ASSIGNED_WORDS):
        text = _without_assigned(text)
        if "value" in lower:
            text = _PAIRED.sub(_without_paired_value, text)
    return text


def redact_keys(text: str) -> str:
    """Returns the text without the known secrets, API keys, and passwords in URLs. For messages and log lines, in which words
    such as `password:` belong to the sentence."""
    text = KNOWN.redact(text)
    for mark, key in _KEYS:
        if mark in text:
            text = key.sub(REDACTED, text)
    return _USER_INFO.sub(rf"\1{REDACTED}@", text) if "://" in text else text


def redact_json(text: str) -> str:
    """Returns JSON text (a call's arguments) without secrets; invalid or huge JSON is treated as plain text.

    Text without secrets stays as it is. But if it may contain more than its value does (names that occur twice, of which the
    last counts, or escapes), then the value is written anew.
    """
    if len(text) > MAX_PARSED:
        return redact_text(text)
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redact_text(text)
    clean = redact(value)
    anew = _encode(clean).decode()
    is_all = "\\" not in text and text.count('"') == anew.count('"')  # each text of it is in the value, as it is
    return text if clean == value and is_all else anew


def is_secret_name(name: str) -> bool:
    """Returns True if a field of that name is secret: `password`, `apiKey`, `X-Auth-Token`; not `tokens`, `token_count`."""
    return _is_secret(name[-_MAX_NAME:])


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and (
        not _SECRET_WORDS.isdisjoint(words)
        or words[-1].endswith(_SECRET_ENDINGS)
        or words[-1] in _SECRET_LAST
        or any(pair in _SECRET_PAIRS for pair in pairwise(words))
    )


def _clean_key(key: Any, others: Mapping[Any, Any]) -> Any:
    """Returns a key without secrets, that none of the `others` has."""
    if not isinstance(key, str) or len(key) < SHORTEST:
        return key
    clean = KNOWN.redact(key) if len(key) <= _MAX_NAME and _is_plain(key) else redact_text(key)
    if clean == key:
        return key
    number, name = 1, clean
    while name in others:
        number += 1
        name = f"{clean} {number}"
    return name


@lru_cache(maxsize=4096)
def _is_plain(key: str) -> bool:
    """Returns True if a key is no secret by its form. Secrets that become known later are not considered."""
    return redact_text(key) == key


def _named_secret(value: Mapping[Any, Any]) -> str | None:
    """Returns the key whose value is secret because of another field, such as `value` in `{"name": "Authorization", "value":
    ...}`; None: there is none."""
    for label, holder in _NAMES:
        if holder in value and isinstance(name := value.get(label), str) and is_secret_name(name):
            return holder
    return None


def _hidden(value: Any) -> Any:
    """Returns `REDACTED`, or the value itself if it is an empty text, a boolean or `null`. Such values are no secrets, and useful
    to readers of the trail."""
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


def _without_assigned(text: str) -> str:
    """Returns the text without the values that are assigned to secret names, as in `password = ...`. The values of other names
    are searched too, because they may contain such assignments."""
    pieces, end = [], 0
    for match in _ASSIGNED.finditer(text):
        if match.start() < end or not is_secret_name(match[1]):
            continue
        value = _VALUE.match(text, match.end())
        if value is None or _stays(match[1], value[0]):
            continue
        pieces += [text[end : match.end()], REDACTED]
        end = value.end()
    return "".join((*pieces, text[end:])) if pieces else text


def _stays(name: str, value: str) -> bool:
    """Returns True if a value needs no redaction: it is redacted already, it is a boolean or null, or it is the value of a header
    that `_HEADERS` has redacted."""
    return (
        value.startswith(REDACTED[:-1])
        or value.lower() in ("null", "none", "true", "false")
        or (name.lower().endswith(("authorization", "cookie")) and value[0] not in "\"'\\")
    )


def _without_paired_value(match: re.Match[str]) -> str:
    """Returns the text of a match of `_PAIRED`, without the value if its name is secret."""
    return match[1] + REDACTED if is_secret_name(match[2]) else match[0]
