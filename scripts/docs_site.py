"""Parts of the site of the docs beside the pages in docs/: README as its first page, the icon of the console, and the pictures of
the console that `make docs` takes when it builds the site.

`mkdocs.yml` names this file as its hooks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_ICON = ROOT / "toolcaddie" / "doors" / "console" / "static" / "icon.svg"
_PICTURES = ROOT / "build" / "pictures"
_TO_DOCS = re.compile(r"\]\(docs/")
_TO_CODE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?!docs/)[^)]+)\)")
"""A link to a file that is not among the pages. The site shows its path instead."""
_KIND = re.compile(r"^```(\w+) .+$", re.MULTILINE)
"""The beginning of a block with a word for the tests of the docs, such as `python gateway`, which MkDocs does not understand."""


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the parts that are not in docs/, and puts new pictures in the place of those there."""
    readme = _TO_DOCS.sub("](", (ROOT / "README.md").read_text(encoding="utf-8"))
    files.append(File.generated(config, "index.md", content=readme))
    files.append(File.generated(config, "icon.svg", content=_ICON.read_text(encoding="utf-8")))
    for picture in sorted(_PICTURES.glob("*.png")):
        place = f"pictures/console/{picture.name}"
        if known := files.get_file_from_path(place):
            files.remove(known)
        files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces what only works outside of the site."""
    return _KIND.sub(r"```\1", _TO_CODE.sub(r"\1 (`\2`)", markdown))
