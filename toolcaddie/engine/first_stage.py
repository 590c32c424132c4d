"""Asks a first stage (a classifier, which names the categories of tools that a request needs). A classifier may be anyone's code,
so its errors are logged and wrong answers refused; the run continues without categories."""

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
"""The largest number of characters of an error or a wrong answer in the log."""
_LISTED = 8
"""The largest number of unknown names in a log line."""


async def classified(classifier: Classifier, messages: Sequence[Message], view: View) -> Classification:
    """Returns the classification with visible categories only. Its `how` is 'failed' if the classifier raised an error or its
    answer is unusable."""
    started = time.perf_counter()
    try:
        answer = await classifier(messages, view)
    except Exception as error:  # it may raise anything; the log has the traceback
        log.exception("classifier_raised", error=str(error)[:_SHOWN])
        return _failed(f"it raised {type(error).__name__}: {error}", started)
    return _checked(answer, view.category_names(), started)


def _checked(answer: Any, visible_names: Sequence[str], started: float) -> Classification:
    """Returns the answer without categories that the caller may not see; a failed classification if the answer is unusable."""
    classification = answer if isinstance(answer, Classification) else None
    if classification is not None and classification.how == "failed":
        return replace(classification, categories=())
    names = answer if classification is None else classification.categories
    if not _are_names(names):
        detail = f"it returned {_described(names)} where a list of category names is wanted"
        log.warning("classifier_failed", detail=detail)
        return _failed(detail, started, classification)
    unique = tuple(dict.fromkeys(names))
    visible = tuple(name for name in unique if name in visible_names)
    if unknown := [name for name in unique if name not in visible_names]:
        log.warning("unknown_categories_dropped", names=[name[:64] for name in unknown[:_LISTED]], count=len(unknown))
    if unknown and not visible:
        return _failed(f"it named only unknown categories, {len(unknown)} of them", started, classification)
    if classification is not None:
        return replace(classification, categories=visible)
    return Classification(categories=visible, seconds=time.perf_counter() - started)


def _are_names(names: Any) -> bool:
    is_list = isinstance(names, Collection) and not isinstance(names, str | bytes | dict)
    return is_list and all(isinstance(name, str) for name in names)


def _described(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} that holds other things than names"
    return "None" if value is None else f"a {type(value).__name__}"


def _failed(detail: str, started: float, classification: Classification | None = None) -> Classification:
    """Returns a failed classification. Its usage still counts, because it was paid for."""
    classification = classification or Classification(seconds=time.perf_counter() - started)
    return replace(classification, categories=(), how="failed", detail=detail[:_SHOWN])
