"""Asks a first stage for categories. It may be a stranger's: whatever it raises or returns, the run goes on."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from toolcaddie.core.catalog import View
from toolcaddie.core.message import Message
from toolcaddie.core.selection import Classification
from toolcaddie.ports import Classifier
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_SHOWN = 300
_LISTED = 8


async def classified(classifier: Classifier, messages: Sequence[Message], view: View) -> Classification:
    """What it says, with visible categories only. `how` is 'failed' where it raised, or said nothing that can be used."""
    started = time.perf_counter()
    try:
        said = await classifier(messages, view)
    except Exception as error:  # a stranger's code may raise anything; the log has the traceback
        log.exception("classifier_raised", error=str(error)[:_SHOWN])
        return _failed(f"it raised {type(error).__name__}: {error}", started)
    return _read(said, view.category_names(), started)


def _read(said: Any, known: Sequence[str], started: float) -> Classification:
    whole = said if isinstance(said, Classification) else None
    if whole is not None and whole.how == "failed":
        return replace(whole, categories=())
    names = said if whole is None else whole.categories
    if not _are_names(names):
        detail = f"it returned {_described(names)} where a list of category names is wanted"
        log.warning("classifier_failed", detail=detail)
        return _failed(detail, started, whole)
    named = tuple(dict.fromkeys(names))
    visible = tuple(name for name in named if name in known)
    if unknown := [name for name in named if name not in known]:
        log.warning("unknown_categories_dropped", names=[name[:64] for name in unknown[:_LISTED]], count=len(unknown))
    if unknown and not visible:
        return _failed(f"it named only unknown categories, {len(unknown)} of them", started, whole)
    if whole is not None:
        return replace(whole, categories=visible)
    return Classification(categories=visible, seconds=time.perf_counter() - started)


def _are_names(names: Any) -> bool:
    is_list = isinstance(names, Collection) and not isinstance(names, str | bytes | dict)
    return is_list and all(isinstance(name, str) for name in names)


def _described(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} that holds other things than names"
    return "None" if value is None else f"a {type(value).__name__}"


def _failed(detail: str, started: float, whole: Classification | None = None) -> Classification:
    """What was paid for is counted all the same."""
    paid = whole or Classification(seconds=time.perf_counter() - started)
    return replace(paid, categories=(), how="failed", detail=detail[:_SHOWN])
