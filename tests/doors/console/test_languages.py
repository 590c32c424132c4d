"""Every text of the console is there in all its languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from jinja2 import Environment

from tests.doors.console.browser import browser
from tests.doors.console.full import ADMIN, console
from toolcaddie.core.key_limits import LIMIT_NAMES
from toolcaddie.doors.asked import STATES
from toolcaddie.doors.console import app, approvals, authored, keys
from toolcaddie.doors.console.languages import NAMES
from toolcaddie.doors.console.runs.stages import STAGES

FOLDER = Path(str(files("toolcaddie.doors.console")))
TEMPLATES = sorted((FOLDER / "templates").rglob("*.html"))
ENGLISH = "en"


def words(language: str) -> dict[str, str]:
    return tomllib.loads((FOLDER / "words" / f"{language}.toml").read_text(encoding="utf-8"))


def texts(template: Path) -> Iterator[str]:
    """The texts of a template as jinja2 extracts them."""
    environment = Environment(extensions=["jinja2.ext.i18n"], trim_blocks=True, lstrip_blocks=True, autoescape=True)
    environment.install_null_translations(newstyle=True)  # type: ignore[attr-defined]
    for _, _, found in environment.extract_translations(template.read_text(encoding="utf-8")):
        yield from (each for each in (found if isinstance(found, tuple) else (found,)) if each)


@pytest.mark.parametrize("language", [name for name in NAMES if name != ENGLISH])
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.relative_to(FOLDER / "templates").as_posix())
def test_every_text_of_a_template_has_a_translation(template: Path, language: str) -> None:
    known = words(language)
    assert [each for each in texts(template) if not known.get(each, "").strip()] == []


@pytest.mark.parametrize("language", [name for name in NAMES if name != ENGLISH])
def test_a_translation_fills_in_the_same_values_and_has_the_same_elements(language: str) -> None:
    for english, translation in words(language).items():
        assert sorted(_marks(english)) == sorted(_marks(translation)), english


def test_titles_states_and_what_pages_say_after_an_act_have_translations() -> None:
    texts = [
        *app._HEADINGS.values(),
        *STATES,
        *STAGES.values(),
        *(text for part in (keys, approvals, authored) for text in part._DONE.values()),
    ]
    wanted = [
        *(each.capitalize() if each in STATES else each for each in texts),
        *(name.replace("_", " ").capitalize() for name in LIMIT_NAMES),
    ]
    for language in ("es", "pt"):
        known = words(language)
        assert [each for each in wanted if each not in known] == []


@pytest.mark.anyio
async def test_the_navigation_speaks_the_language_of_the_browser(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        await ada.signs_in(ADMIN, then="/console/keys")
        english = (await ada.opens("/console/keys")).tree.css(".sections a")
        for language in ("es", "pt"):
            page = await ada.opens("/console/keys", **{"accept-language": language})
            titles = [each.text() for each in page.tree.css(".sections a")]
            known = words(language)
            assert titles == [known[each.text()] for each in english]


def test_the_languages_have_the_same_texts() -> None:
    lists = [set(words(name)) for name in NAMES if name != ENGLISH]
    assert all(each == lists[0] for each in lists)


def _marks(text: str) -> list[str]:
    """Placeholders such as `%(rows)s`, and elements such as `<code>`."""
    return re.findall(r"%\(\w+\)s|</?\w+>", text)


@pytest.mark.anyio
async def test_signing_in_and_choosing_a_language_keep_the_fields_of_the_address(tmp_path: Path) -> None:
    wanted = "/console/runs?status=failed&text=caf%C3%A9"
    async with console(tmp_path) as server, browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=wanted)
        (field,) = page.tree.css("#text")
        assert field.attributes["value"] == "café"
        page = await ada.opens(page.tree.css("footer a[lang=pt]")[0].attributes["href"] or "")
        assert '<html lang="pt">' in page.html
        assert page.tree.css("#text")[0].attributes["value"] == "café"
        token = page.forms()["sign-out"]["token"]
        page = await ada.posts("/console/keys/add", {"token": token, "name": "one", "role": "viewer"})
        page = await ada.opens(page.tree.css("footer a[lang=en]")[0].attributes["href"] or "")
        assert (page.status, page.path) == (200, "/console/keys")
