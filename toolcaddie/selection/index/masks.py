"""The mask of a view (the tools that a caller may see) as an array of flags, one for each tool of the catalog."""

from __future__ import annotations

import numpy as np

from toolcaddie.core.catalog import View
from toolcaddie.ports import Visible


def visible_in(view: View) -> Visible | None:
    """Returns the flags of the visible tools; None if the view shows the whole catalog. Do not write to the array: it is the
    memory of the view."""
    return None if view.mask is None else np.frombuffer(view.mask, dtype=np.bool_)


def all_visible(view: View) -> Visible:
    """Returns the flags of the visible tools, also if the view shows the whole catalog. Do not write to the array."""
    return np.ones(len(view.catalog), dtype=np.bool_) if (visible := visible_in(view)) is None else visible
