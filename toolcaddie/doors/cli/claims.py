"""The remark about claims of an answer, the same after every command that shows an answer."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.doors.cli.output import note
from toolcaddie.doors.texts import shortened

_SHOWN = 160
"""Characters of a sentence that are shown."""


def note_claims(sentences: Iterable[str]) -> None:
    """Prints a remark for each sentence of an answer which says that something was done that no call did."""
    for sentence in sentences:
        note(f"not verified: no successful call could have done this: {shortened(sentence, _SHOWN)}")
