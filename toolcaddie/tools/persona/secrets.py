"""Removes from a text what must not be remembered: credentials, keys, tokens, card and phone numbers."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

from toolcaddie.audit.redact import redact_text
from toolcaddie.core.errors import RequestError
from toolcaddie.guards.known_secrets import REDACTED

_NAMED = re.compile(
    r"\b(passwords?|passphrase|passcode|pin(?: code)?|access code|api[ -]?key|secret(?: key)?|token|contraseña|clave|senha"
    r"|passwort|mot de passe)\b([^.\n:=]{0,40}?)(\s+(?:is|was|es|ist|é|est)\s+|\s*[:=]\s*)([^\s,;]{3,200})",
    re.IGNORECASE,
)
"""A word for a secret, and the value that it is said to have."""
_PASSWORDS = re.compile(r"password|passphrase|passcode|contraseña|senha|passwort|mot de passe|.* key", re.IGNORECASE)
"""Words for a secret whose value may be an ordinary word."""
_END = re.compile(r"\W*(?:$|[.,;!?])")
_SHORTENED = re.compile(r"•••\d{3}")
"""A phone number as the trail shows it."""
_PLAIN_WORD = re.compile(r"[^\W\d_]+[.!?]?")
_PHONE = re.compile(
    r"(?<![\w.,:/-])"
    r"(?:\+\d[\d ().-]{6,20}\d|\(\d{2,4}\)[ -]?\d[\d -]{4,12}\d|\d{2,4}(?:[ -]\d{2,4}){2,4}|\d{9,11})"
    r"(?![\w:/-]|[.,]\d)"
)
_ABOUT_PHONES = re.compile(
    r"\b(?:phone|mobile|tel|cell|whatsapp|teléfono|telefono|móvil|call)\b[^\d+]{0,30}(\d[\d ().-]{4,18}\d)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:order|invoice|ticket|member|reference|ref|isbn|pedido|factura|number|no)\W{1,3}$", re.IGNORECASE
)
_DATE = re.compile(r"\d{4}[ -]\d{1,2}[ -]\d{1,2}|\d{1,2}[ -]\d{1,2}[ -]\d{4}")
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
_RANDOM = re.compile(
    r"(?<![\w/.-])(?=[A-Za-z0-9+_=-]*\d)(?=[A-Za-z0-9+_=-]*[a-z])(?=[A-Za-z0-9+_=-]*[A-Z])[A-Za-z0-9+_=-]{24,}"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_EMPTY_WORDS = frozenset(
    _WORD.findall(
        "my the is was an his her their our your key api token password pin code secret phone number mobile card access mi el la "
        "es su clave contraseña número teléfono de for of to and at on call"
    )
)
"""Words that say nothing without the secret beside them."""
_LEAST_WORDS = 3


def storable(text: str, *, param: str, before: str = "") -> str:
    """Returns a text as a bot may store it: without secrets. A line with a secret that stands in `before` too, the text of the
    file so far, is left as it is: an operator put it there, such as the number of a helpline.

    Raises `RequestError` if the text is mostly secret. `param`: the argument of the text, for the error.
    """
    present = frozenset(before.split("\n"))
    parts = [
        (is_old, "\n".join(lines))
        for is_old, lines in groupby(text.split("\n"), lambda line: line in present and _without_secrets(line) != line)
    ]
    cleaned = [part if is_old else _without_secrets(part) for is_old, part in parts]
    new = "\n".join(part for (is_old, _), part in zip(parts, cleaned, strict=True) if not is_old)
    clean = "\n".join(cleaned)
    if _hides_secret(new) or (clean != text and _is_mostly_secret(clean)):
        raise RequestError(
            f"Refused: {param} is mostly a password, a key, a token or a phone number, and nothing was saved.",
            param=param,
        )
    return clean


def _without_secrets(text: str) -> str:
    text = _SHORTENED.sub(REDACTED, redact_text(text))
    text = _RANDOM.sub(REDACTED, _NAMED.sub(_without_value, text))
    text = _CARD.sub(lambda match: REDACTED if _is_card(match[0]) else match[0], text)
    text = _ABOUT_PHONES.sub(lambda match: match[0].replace(match[1], REDACTED), text)
    return _PHONE.sub(_without_phone, text)


def _hides_secret(clean: str) -> bool:
    """Returns True if a text has a secret that only a reader who ignores invisible characters and widths would see."""
    folded = "".join(each for each in unicodedata.normalize("NFKC", clean) if unicodedata.category(each) != "Cf")
    return folded != clean and _without_secrets(folded) != folded


def _is_mostly_secret(redacted: str) -> bool:
    """Returns True if too little is left of a text to be worth remembering."""
    words = {word.lower() for word in _WORD.findall(redacted.replace(REDACTED, " "))}
    return len(words - _EMPTY_WORDS) < _LEAST_WORDS


def _without_value(match: re.Match[str]) -> str:
    is_assigned = match[3].strip().startswith((":", "=")) or (
        _PASSWORDS.fullmatch(match[1]) is not None
        and not match[2]
        and _END.match(match.string, match.end()) is not None
    )
    if _PLAIN_WORD.fullmatch(match[4]) and not is_assigned:
        return match[0]
    return f"{match[1]}{match[2]}{match[3]}{REDACTED}"


def _without_phone(match: re.Match[str]) -> str:
    text = match[0]
    is_other = _DATE.fullmatch(text) or _COUNTED.search(match.string[max(0, match.start() - 20) : match.start()])
    return text if is_other or sum(map(str.isdigit, text)) < 7 else REDACTED


def _is_card(text: str) -> bool:
    digits = [int(digit) for digit in text if digit.isdigit()][::-1]
    return sum(digits[::2]) % 10 == -sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2]) % 10
