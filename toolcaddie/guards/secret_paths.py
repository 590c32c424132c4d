"""Which files hold secrets, by their paths: `.env`, private keys, logins, histories, wallets and many more.

`refused_paths.toml` has the classes. A path is compared as another program might understand it: without case, in Unicode's
compatibility form, decoded, and without what marks a copy (`.env.bak`, `.ENV.`, `%2eenv`, `.env::$DATA`, `.id_rsa.swp`).
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

_OPTIONAL = "(.)"
_OTHER_SYSTEMS = frozenset({"private", "host", "hostfs", "rootfs"})
"""First folders of a path below which a whole other system may be mounted."""
_COPY = re.compile(
    r"(?:~\d*~?|[ ._-](?:bak|backup|bck|bk|bkp|back|old|orig|original|save|saved|sav|sw[nopx]|tmp|temp|copy|prev|previous|"
    r"disabled|rpmsave|rpmnew|dpkg-\w+|ucf-\w+|gz|tgz|zip|tar|7z|bz2|xz|zst|rar|lz4|enc|gpg|asc|age|crypt|default|pub|\d{1,14})"
    r"| ?\(\d+\)?| - copy| copy \d+)\Z"
)
_COPY_START = re.compile(r"(?:copy of |backup of |(?:backup|bak|old|copy)[ ._-]|\.?#)")
_MOST_ENDINGS = 6
_DECORATION = " \t\r\n\v\f\0\"'`[](){}<>,;|&"
_LONGEST_KEPT = 256
"""The largest number of characters of a path whose judgement is kept."""
_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One pattern of a class."""

    reason: str
    parts: tuple[str, ...]
    """The names of the pattern, the last of which is the file's or the folder's."""
    folder: bool
    placed: bool
    """True: the pattern begins at the root of the machine."""
    templates: bool = False
    fixtures: bool = False
    projects: bool = False

    @property
    def open_ended(self) -> bool:
        """True if names that begin as those of the class are meant, whatever their ending."""
        return self.parts[-1].endswith("*") and not self.parts[-1].startswith(".")

    def fits(self, before: Sequence[str], *, placed: bool) -> bool:
        """Returns whether the names before the last one fit; the last one does already."""
        wanted = self.parts[:-1]
        if self.placed and not (placed and len(before) == len(wanted)):
            return False
        ending = before[len(before) - len(wanted) :] if wanted else ()
        return len(ending) == len(wanted) and all(map(_like, ending, wanted))


def _like(name: str, pattern: str) -> bool:
    if pattern.startswith(_OPTIONAL):
        return name.lstrip("._") == pattern.removeprefix(_OPTIONAL)
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


class _Index:
    """Rules by their last name."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._names: dict[str, list[_Rule]] = {}
        self._endings: dict[str, list[_Rule]] = {}
        self._others: list[tuple[re.Pattern[str], _Rule]] = []
        for rule in sorted(rules, key=lambda rule: -len(rule.parts)):  # the one that says most of a path comes first
            self._add(rule)
        self._any = re.compile("|".join(pattern.pattern for pattern, _ in self._others) or r"(?!)")

    def _add(self, rule: _Rule) -> None:
        name, ending = rule.parts[-1], rule.parts[-1].removeprefix("*.")
        plain = name.removeprefix(_OPTIONAL)
        if not re.search(r"[*?\[]", plain):
            starts = ("", ".", "_") if plain != name else ("",)
            for start in starts:
                self._names.setdefault(start + plain, []).append(rule)
        elif name.startswith("*.") and re.fullmatch(r"[\w-]+", ending):
            self._endings.setdefault(ending, []).append(rule)
        else:
            pattern = fnmatch.translate(plain)
            start = "[._]?" if plain != name else ""
            self._others.append((re.compile(start + pattern), rule))

    def rules(self, name: str) -> Iterator[_Rule]:
        """Yields the rules whose last name is this one."""
        yield from self._names.get(name, ())
        if "." in name:
            yield from self._endings.get(name.rpartition(".")[2], ())
        if self._any.match(name):
            yield from (rule for pattern, rule in self._others if pattern.match(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shipped:
    """The content of `refused_paths.toml`."""

    rules: tuple[_Rule, ...]
    unwritable: tuple[_Rule, ...]
    """Rules of files that may be read, but not written."""
    words_reason: str
    words: re.Pattern[str]
    data: frozenset[str]
    last_words: frozenset[str]
    word_folders: frozenset[str]
    templates: frozenset[str]
    sources: frozenset[str]
    tests: frozenset[str]
    fixtures: frozenset[str]
    published: frozenset[str]
    project: _Index
    certificates: tuple[_Rule, ...]


@cache
def _shipped() -> _Shipped:
    table: dict[str, Any] = tomllib.loads(files(__package__).joinpath("refused_paths.toml").read_text(encoding="utf-8"))
    words, readable = table["words"], table["readable"]
    return _Shipped(
        rules=tuple(rule for each in table["class"] if not each.get("writing") for rule in _rules_of(each)),
        unwritable=tuple(rule for each in table["class"] if each.get("writing") for rule in _rules_of(each)),
        words_reason=words["reason"],
        words=re.compile("|".join(words["words"])),
        data=frozenset(words["extensions"]),
        last_words=frozenset(words["last"]),
        word_folders=frozenset(words["folders"]),
        templates=frozenset(readable["templates"]),
        sources=frozenset(readable["sources"]),
        tests=frozenset(readable["tests"]),
        fixtures=frozenset(readable["fixtures"]),
        published=frozenset(name.rstrip("/") for name in readable["published"]),
        certificates=tuple(_rule(pattern, "") for pattern in readable["certificates"]),
        project=_Index(_rule(name.rstrip("/"), "") for name in [*readable["project"], *readable["published"]]),
    )


def _rules_of(table: dict[str, Any]) -> Iterator[_Rule]:
    for pattern in table["patterns"]:
        yield replace(
            _rule(pattern, table["reason"]),
            templates=table.get("templates", False),
            fixtures=table.get("fixtures", False),
            projects=table.get("projects", False),
        )


def _rule(pattern: str, reason: str) -> _Rule:
    return _Rule(
        reason=reason,
        parts=tuple(pattern.strip("/").casefold().split("/")),
        folder=pattern.endswith("/"),
        placed=pattern.startswith("/"),
    )


def _own_rules(pattern: str) -> Iterator[_Rule]:
    """Yields the rules of a pattern of the settings: it means files and folders, unless it ends with a slash."""
    rule = _rule(pattern, f"the settings deny {pattern!r}")
    yield replace(rule, folder=True)
    if not rule.folder:
        yield rule


class SecretPaths:
    """Says which paths are refused because their files hold secrets."""

    def __init__(self, rules: Iterable[_Rule], *, base: PurePath | None = None) -> None:
        rules = tuple(rules)
        self._data = _shipped()
        self._base = () if base is None else tuple(_names(_plain(str(base))))
        self._placed = base is not None
        self._files = _Index(rule for rule in rules if not rule.folder)
        self._folders = _Index(rule for rule in rules if rule.folder)
        # A tool asks about a path several times in one call, and many files lie in one folder.
        self._of_path = lru_cache(1_024)(self._reason)
        self._of_folder = lru_cache(4_096)(self._folder_reason)

    @classmethod
    def of(cls, patterns: Iterable[str] = (), *, base: PurePath | None = None, writing: bool = False) -> SecretPaths:
        """Returns the shipped classes and these patterns, whose form `refused_paths.toml` explains.

        `base`: the absolute folder that relative paths start from. Its own names are not judged, because an operator chose it.
        `writing`: files that may be read but not written are refused too.
        """
        shipped = _shipped()
        own = (rule for each in patterns for rule in _own_rules(each))
        return cls([*shipped.rules, *(shipped.unwritable if writing else ()), *own], base=base)

    def reason(self, path: str) -> str | None:
        """Returns why the file of a path is refused; None: it is not. A path that ends with `/` is that of a folder."""
        return self._of_path(path) if len(path) <= _LONGEST_KEPT else self._reason(path)

    def _reason(self, path: str) -> str | None:
        names, placed, own = self._split(path)
        if len(names) <= own:
            return None
        is_folder = path.endswith("/")
        folders = tuple(names if is_folder else names[:-1])
        reason = self._of_folder(folders, placed, own)
        if reason is not None or is_folder:
            return reason
        return self._file_reason(names, placed)

    def _split(self, path: str) -> tuple[list[str], bool, int]:
        """Returns the names of a path, whether they begin at the root of the machine, and the number of names of the base."""
        plain = _plain(path)
        names = _names(plain)
        if plain.startswith("/"):
            inside = self._placed and tuple(names[: len(self._base)]) == self._base
            if names and names[0] in _OTHER_SYSTEMS and not inside:
                del names[0]
            return names, True, len(self._base) if inside else 0
        return [*self._base, *names], self._placed, len(self._base)

    def _folder_reason(self, names: tuple[str, ...], placed: bool, own: int) -> str | None:
        """Returns why everything in a folder is refused. The first `own` names are not judged."""
        for at in range(own, len(names)):
            for rule in self._folders.rules(names[at]):
                if rule.fits(names[:at], placed=placed) and not (rule.projects and self._is_project(names[at])):
                    return rule.reason
        return None

    def _file_reason(self, names: Sequence[str], placed: bool) -> str | None:
        before, name = names[:-1], names[-1]
        fixture = self._is_fixture(before) or self._is_certificate(names)
        public = not self._data.published.isdisjoint(before)
        for variant in _variants(name):
            is_public = public or variant.rpartition(".")[2] in self._data.sources
            for rule in self._files.rules(variant):
                excepted = (
                    (rule.templates and self._is_template(variant))
                    or (rule.fixtures and fixture)
                    or (rule.open_ended and is_public)
                    or (rule.projects and self._is_project(variant))
                )
                if not excepted and rule.fits(before, placed=placed):
                    return rule.reason
            if not public and self._says_secret(variant, before):
                return self._data.words_reason
        return None

    def _says_secret(self, name: str, folders: Sequence[str]) -> bool:
        """Returns whether the name of a file with data, or its folder, says that it holds a secret."""
        stem, dot, ending = name.lstrip(".").rpartition(".")
        stem, ending = (stem, ending) if dot and stem else (name, "")
        if ending not in self._data.data:
            return False
        words = _WORD.split(stem)
        says_it = self._data.words.search("".join(words)) is not None
        says_it = says_it or (bool(folders) and folders[-1] in self._data.word_folders)
        ends_with_it = not ending and len(words) > 1 and words[-1] in self._data.last_words
        return (says_it or ends_with_it) and not self._is_template(name)

    def _is_template(self, name: str) -> bool:
        """Returns whether a name says that its file only shows a form: `.env.example`, `secrets.sample.yaml`."""
        words = [word for word in re.split(r"[._-]", name) if word]
        return bool(words) and not self._data.templates.isdisjoint([words[0], *words[-2:]])

    def _is_fixture(self, folders: Sequence[str]) -> bool:
        for at, name in enumerate(folders):
            if name in self._data.tests:
                return not self._data.fixtures.isdisjoint(folders[at:])
        return False

    def _is_certificate(self, names: Sequence[str]) -> bool:
        rules = self._data.certificates
        return any(rule.parts[-1] == names[-1] and rule.fits(names[:-1], placed=False) for rule in rules)

    def _is_project(self, name: str) -> bool:
        return next(self._data.project.rules(name), None) is not None


def _plain(path: str) -> str:
    """Returns a path as a program may understand it that decodes it and ignores case."""
    if "%" in path:
        path = unquote(unquote(path, errors="surrogateescape"), errors="surrogateescape")
    if not path.isascii():
        path = unicodedata.normalize("NFKC", path)
        path = "".join(character for character in path if unicodedata.category(character) not in ("Cf", "Cc"))
    return path.replace("\\", "/").casefold()


def _names(path: str) -> list[str]:
    """Returns the names of a path, without quotes and brackets around them, and without dots and spaces after them."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif plain := name.strip(_DECORATION).rstrip(". "):
            names.append(plain)
    return names


def _variants(name: str) -> Iterator[str]:
    """Yields a name, and the names of which it may be a copy."""
    yield name
    if ":" in name and (before := name.partition(":")[0].rstrip(". ")):
        yield before  # Windows' name of a stream of the file
    for _ in range(_MOST_ENDINGS):
        start, ending = _COPY_START.match(name), _COPY.search(name)
        shorter = name[start.end() if start else 0 : ending.start() if ending else None].rstrip("# .")
        if shorter in ("", name):
            return
        if ending and ending.group().startswith(".sw") and shorter.startswith("."):
            yield shorter.removeprefix(".")  # editors put a dot before the name
        yield shorter
        name = shorter
