"""Turns HTML into plain text that a model can read: headings, lists, tables and links stay recognisable.

The tree is walked without recursion, because a page may be nested as deeply as its author likes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

# fmt: off
_REMOVED = frozenset((
    "script", "style", "template", "iframe", "frame", "object", "embed", "applet", "svg", "math", "canvas", "audio", "video",
    "map", "datalist", "head", "dialog",
))
"""Elements that are left out with everything in them. A dialog is shown only if it is open."""
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hgroup", "html", "legend", "li", "main", "menu", "nav", "ol",
    "optgroup", "option", "section", "select", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
))
"""Elements that begin a line and end it."""
_PARAGRAPHS = frozenset((
    "p", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "dl", "blockquote", "article", "section", "figure",
))
"""Elements with an empty line before and behind them."""
# fmt: on
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SHOWN_LINKS = ("http", "https", "mailto")
_LONGEST_LINK = 500
"""Characters of the longest address that is shown."""

_SPACE = re.compile(r"[ \t\r\n\f]+")
_BLANK_LINES = re.compile(r"\n{3,}")
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:opacity|font-size)\s*:\s*0(?:\.0+)?(?![.\d])|"
    r"(?:left|top|text-indent)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as text."""

    title: str
    text: str


def page_of(html: str, url: str) -> Page:
    """Returns the title and the text of a page. `url`: its address, for the links in it."""
    tree = LexborHTMLParser(html)
    title = tree.css_first("title")
    writer = _Writer(_base(tree, url))
    if tree.root is not None:
        _walk(tree.root, writer)
    return Page(title="" if title is None else _SPACE.sub(" ", title.text()).strip(), text=writer.text())


def _base(tree: LexborHTMLParser, url: str) -> str:
    base = tree.css_first("base[href]")
    return url if base is None else _joined(url, base.attributes.get("href") or "")


def _walk(root: LexborNode, writer: _Writer) -> None:
    """Passes each node to the writer when it begins, and each element when it ends."""
    node: LexborNode | None = root
    depth = 0
    while node is not None:
        child = node.first_child if writer.begin(node) else None
        if child is not None:
            node, depth = child, depth + 1
            continue
        writer.end(node)
        while depth and node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            if node is not None:
                writer.end(node)
        node = node.next if depth and node is not None else None


class _Writer:
    """Writes the text of a page, node by node."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._lines: list[str] = []
        self._line: list[str] = []
        self._preformatted = 0
        self._cells: list[int] = [0]
        """For each table around the node, the number of its cells that are open; the first number is always 0."""
        self._lists: list[int | None] = []
        """For each list around the node, the number of its last item, or None for a list without numbers."""
        self._links: list[tuple[str, int, int]] = []
        """For each link around the node, its address and where it began: line, and part of the line."""

    def text(self) -> str:
        self._end_line()
        return _BLANK_LINES.sub("\n\n", "\n".join(self._lines)).strip("\n")

    def begin(self, node: LexborNode) -> bool:
        """Takes a node in. Returns True if what is in it is to be taken in too."""
        tag = node.tag or ""
        if tag == "-text":
            self._add(node.text_content or "")
            return False
        if tag.startswith("-") or not tag:
            return tag == "-document"
        attributes = node.attributes
        if _is_hidden(tag, attributes):
            return False
        self._begin_element(tag, attributes)
        return True

    def _begin_element(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag in _PARAGRAPHS:
            self._end_paragraph()
        elif tag in _BLOCKS:
            self._end_line()
        if tag in _HEADINGS:
            self._line.append(_HEADINGS[tag])
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "table":
            self._cells.append(0)
        elif tag in ("td", "th"):
            self._cells[-1] += 1
        elif tag in ("ul", "ol", "menu"):
            self._lists.append(_first_number(attributes) - 1 if tag == "ol" else None)
        elif tag == "li":
            self._line.append(self._bullet())
        elif tag == "br":
            self._end_line()
        elif tag == "hr":
            self._end_line()
            self._lines.append("---")
        elif tag == "img":
            alt = _SPACE.sub(" ", attributes.get("alt") or "").strip()
            self._add(f"[image: {alt}]" if alt else "")
        elif tag == "a":
            self._links.append((self._shown_link(attributes.get("href")), len(self._lines), len(self._line)))

    def end(self, node: LexborNode) -> None:
        """Takes notice that a node ends."""
        tag = node.tag or ""
        if tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag in ("td", "th") and self._cells[-1]:
            self._cells[-1] -= 1
            self._line.append(" | ")
        elif tag == "pre" and self._preformatted:
            self._end_line()
            self._preformatted -= 1
        elif tag in ("ul", "ol", "menu") and self._lists:
            self._lists.pop()
        if tag in _PARAGRAPHS:
            self._end_paragraph()
        elif tag in _BLOCKS:
            self._end_line()
        if tag == "table" and len(self._cells) > 1:
            self._cells.pop()

    def _add(self, text: str) -> None:
        if self._preformatted:
            first, *others = text.replace("\r\n", "\n").split("\n")
            self._line.append(first)
            for other in others:
                self._end_line()
                self._line.append(other)
            return
        text = _SPACE.sub(" ", text)
        if not self._line or self._line[-1].endswith(" "):
            text = text.removeprefix(" ")
        if text:
            self._line.append(text)

    def _end_line(self) -> None:
        """Ends the line, unless it is empty. In a cell of a table, a space stands for the end of a line."""
        if self._cells[-1]:
            self._add(" ")
            return
        line = "".join(self._line)
        line = line.rstrip() if self._preformatted else line.rstrip().removesuffix("|").rstrip()
        self._line = []
        if line or self._preformatted:
            self._lines.append(line)

    def _end_paragraph(self) -> None:
        self._end_line()
        if not self._cells[-1] and not self._lists:
            self._lines.append("")

    def _bullet(self) -> str:
        if not self._lists:
            return "- "
        indent = "  " * (len(self._lists) - 1)
        number = self._lists[-1]
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _shown_link(self, href: str | None) -> str:
        """Returns the address of a link as it is shown; empty: it is not shown."""
        if not href or href.strip().startswith("#"):
            return ""
        link = _joined(self._base, href.strip())
        return link if link.partition(":")[0].lower() in _SHOWN_LINKS and len(link) <= _LONGEST_LINK else ""

    def _end_link(self, link: str, line: int, part: int) -> None:
        words = "".join(self._line[part:]).strip() if line == len(self._lines) else ""
        if not link or words == link:
            return
        if words:
            self._line.insert(part, "[")
            self._line.append(f"]({link})")
        elif line < len(self._lines):  # the link is larger than a line
            self._lines.append(f"({link})")


def _is_hidden(tag: str, attributes: dict[str, str | None]) -> bool:
    if tag in _REMOVED:
        return not (tag == "dialog" and "open" in attributes)
    style = attributes.get("style") or ""
    return "hidden" in attributes or _HIDDEN_STYLE.search(style) is not None


def _first_number(attributes: dict[str, str | None]) -> int:
    start = attributes.get("start") or ""
    return int(start) if start.isascii() and start.isdecimal() and len(start) < 10 else 1


def _joined(base: str, link: str) -> str:
    try:
        joined = urljoin(base, _SPACE.sub("", link))
        urlsplit(joined)
    except ValueError:
        return ""
    return joined
