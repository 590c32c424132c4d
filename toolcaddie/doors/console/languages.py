"""The languages of the console. Templates are written in English, and `words/LANGUAGE.toml` has what they say in another one.

Errors, and everything that others have written, stay as they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from toolcaddie.doors.console.requests import Request

NAMES: Mapping[str, str] = {"en": "English", "es": "Español", "pt": "Português"}
"""Names of the languages, in themselves."""

COOKIE = "toolcaddie-language"
"""The cookie with the language that a person has chosen."""

_ENGLISH = "en"
_MOST_PREFERENCES = 20


class Languages:
    """The translations of all texts."""

    def __init__(self) -> None:
        folder = files("toolcaddie.doors.console").joinpath("words")
        self._texts: Mapping[str, Mapping[str, str]] = {
            name: tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
            for name in NAMES
            if name != _ENGLISH
        }
        self._known = frozenset(english for texts in self._texts.values() for english in texts)

    def knows(self, english: str) -> bool:
        """Returns True for a text of the console itself."""
        return english in self._known

    def text(self, language: str, english: str) -> str:
        """Returns a text in a language; in English if there is no translation."""
        return self._texts.get(language, {}).get(english, english)


def language_of(request: Request) -> str:
    """Returns the language that a person has chosen, or else the first one of the browser's that the console has."""
    chosen = request.cookie(COOKIE)
    if chosen in NAMES:
        return chosen
    header = request.header(b"accept-language") or ""
    preferences = [_preference(each) for each in header.split(",")[:_MOST_PREFERENCES]]
    known = [(weight, name) for name, weight in preferences if name in NAMES and weight > 0]
    return max(known, key=lambda pair: pair[0], default=(0.0, _ENGLISH))[1]


def _preference(text: str) -> tuple[str, float]:
    """Returns the language and the weight of an element such as `pt-BR;q=0.8`."""
    name, _, weight = text.strip().partition(";q=")
    try:
        return name.strip().lower().partition("-")[0], float(weight or 1)
    except ValueError:
        return "", 0.0
