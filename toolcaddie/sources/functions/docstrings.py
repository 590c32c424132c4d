"""Reads docstrings: the text of a tool, and a sentence for each parameter (Google, NumPy and Sphinx style)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import griffe


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Returns the text before the first section, and parameter -> description; empty without a docstring."""
    text = inspect.getdoc(function)
    if not text:
        return "", {}
    docstring = griffe.Docstring(text)
    style, _ = griffe.infer_docstring_style(docstring)
    sections = _PARSERS[style or griffe.Parser.google](docstring, warnings=False)
    described: dict[str, str] = {}
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.parameters:
            # NumPy lets several parameters share a line: "width, height : int".
            described.update(
                (name.strip().lstrip("*"), " ".join(parameter.description.split()))
                for parameter in section.value
                for name in parameter.name.split(",")
            )
    first = sections[0] if sections else None
    summary = first.value if first and first.kind is griffe.DocstringSectionKind.text else ""
    return summary.strip(), described


_PARSERS: dict[griffe.Parser, Callable[..., list[griffe.DocstringSection]]] = {
    griffe.Parser.google: griffe.parse_google,
    griffe.Parser.numpy: griffe.parse_numpy,
    griffe.Parser.sphinx: griffe.parse_sphinx,
}
