"""Changes of a host's state: what differs, making it so, and undoing it, whatever the state is of (`ports.StatePlugin`)."""

from __future__ import annotations

from toolcaddie.states.changing import Applied, Changing
from toolcaddie.states.differences import decoded, difference, restoring, version_of
from toolcaddie.states.pending import PendingChanges

__all__ = ["Applied", "Changing", "PendingChanges", "decoded", "difference", "restoring", "version_of"]
