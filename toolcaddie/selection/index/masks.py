"""The mask of a view as an array."""

from __future__ import annotations

import numpy as np

from toolcaddie.core.catalog import View
from toolcaddie.ports import Visible


def visible_in(view: View) -> Visible | None:
    """Returns the view's own memory as flags, not to be written to; None where the view shows the whole catalog."""
    return None if view.mask is None else np.frombuffer(view.mask, dtype=np.bool_)
