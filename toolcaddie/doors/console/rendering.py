"""Makes pages from templates.

Everything that a template prints is escaped, and characters that nobody sees are spelled out, because most of it was written by
strangers. A name that a template misspells is an error, not an empty place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from toolcaddie.doors.console.answers import Answer, json_answer
from toolcaddie.doors.console.languages import NAMES, Languages
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.util.text import code_pieces, visible

_PACKAGE = "toolcaddie.doors.console"
_HIDDEN = Markup('<span class="hidden-character" title="a character that nobody sees">{}</span>')
_TYPES = {"css": "text/css; charset=utf-8", "svg": "image/svg+xml", "js": "text/javascript; charset=utf-8"}


class Renderer:
    """Renders templates of this package."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader(_PACKAGE),
            extensions=["jinja2.ext.i18n"],
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= {"code": _code, "lines": _lines, "moment": _moment}
        self._assets = dict(map(_asset, ("console.css", "console.js", "icon.svg")))
        self._templates.globals |= {
            "home": HOME,
            "languages": NAMES,
            "assets": {name: path for path, (name, _) in self._assets.items()},
        }
        words = Languages()

        @pass_context
        def gettext(context: Context, english: str) -> str:
            """Returns what jinja2 takes for markup with places for values. A text that the console does not have itself, such as
            a state in a stored row, stays as it is."""
            if not words.knows(english):
                return _code(english).replace("%", "%%")
            return words.text(context["visit"].language, english)

        @pass_context
        def ngettext(context: Context, one: str, many: str, number: int) -> str:
            return words.text(context["visit"].language, one if number == 1 else many)

        self._templates.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]

    def page(
        self, template: str, visit: Visit, data: Mapping[str, Any] | None = None, *, status: int = 200, **words: Any
    ) -> Answer:
        """Returns a page, or its data as JSON for a program that asks for JSON.

        `data`: what the page shows, by names that its template uses too. `words`: what only the template needs.
        """
        if visit.request.wants_json:
            return json_answer(data or {}, status=status)
        text = self._templates.get_template(template).render(visit=visit, **(data or {}), **words)
        return Answer(status=status, body=text.encode("utf-8", "replace"))

    def asset(self, path: str) -> Answer | None:
        """Returns a style sheet or a picture; None: this is not the path of one."""
        found = self._assets.get(path)
        return None if found is None else found[1]


def _asset(name: str) -> tuple[str, tuple[str, Answer]]:
    """Returns an asset's path, which changes with its content, its name and its answer."""
    body = files(_PACKAGE).joinpath("static", name).read_bytes()
    stem, _, kind = name.partition(".")
    path = f"{HOME}static/{stem}-{hashlib.sha256(body).hexdigest()[:12]}.{kind}"
    return path, (name, Answer(body=body, type=_TYPES[kind], is_stored=True))


def _shown(value: Any) -> Any:
    """Returns what a template prints for a value."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _code(text: str) -> Markup:
    """Returns a line of source or any other text on one line, with each character spelled out and marked that nobody sees."""
    if text.isascii() and text.isprintable():
        return escape(text)
    return Markup("").join(
        _HIDDEN.format(piece) if is_hidden else escape(piece) for piece, is_hidden in code_pieces(text)
    )


def _lines(text: str) -> Markup:
    """Returns a text of several lines as `_code` does each."""
    return Markup("\n").join(map(_code, text.split("\n")))


def _moment(seconds: float) -> Markup:
    """Returns seconds since the epoch as a date and time."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup("at an unknown time")
    text = f"{moment:%Y-%m-%d %H:%M} UTC"
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), text)
