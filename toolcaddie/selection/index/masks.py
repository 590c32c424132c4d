"""The mask of a view as an array."""

from __future__ import annotations

import numpy as np

from toolcaddie.core.catalog import View
from toolcaddie.ports import Visible


def visible_in(view: View) -> Visible | None:
    """Returns the view's own memory as flags, not to be written to; None if the view shows the whole catalog."""
    return None if view.mask is None else np.frombuffer(view.mask, dtype=np.bool_)


def all_visible(view: View) -> Visible:
    """Returns the flags of all tools of the catalog, also if the view shows it whole. Not to be written to."""
    return np.ones(len(view.catalog), dtype=np.bool_) if (visible := visible_in(view)) is None else visible
