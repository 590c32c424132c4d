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

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.util.text import code_pieces, visible

_PACKAGE = "toolcaddie.doors.console"
_HIDDEN = Markup('<span class="hidden-character" title="a character that nobody sees">{}</span>')
_TYPES = {"css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


class Renderer:
    """Renders templates of this package. `navigation`: paths of pages by their names."""

    def __init__(self, navigation: Mapping[str, str]) -> None:
        self._templates = Environment(
            loader=PackageLoader(_PACKAGE),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= {"code": _code, "moment": _moment}
        self._assets = dict(map(_asset, ("console.css", "icon.svg")))
        self._templates.globals |= {
            "navigation": navigation,
            "home": HOME,
            "assets": {name: path for path, (name, _) in self._assets.items()},
        }

    def page(self, template: str, visit: Visit, *, status: int = 200, **values: Any) -> Answer:
        """Returns a page. `values`: what its template needs, besides `visit`."""
        text = self._templates.get_template(template).render(visit=visit, **values)
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
    return Markup("").join(
        _HIDDEN.format(piece) if is_hidden else escape(piece) for piece, is_hidden in code_pieces(text)
    )


def _moment(seconds: float) -> Markup:
    """Returns seconds since the epoch as a date and time."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup("at an unknown time")
    text = f"{moment:%Y-%m-%d %H:%M} UTC"
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), text)
