"""The proposals of the source `improve`, with the settings of the bots."""

from __future__ import annotations

from pathlib import Path

from toolcaddie.app.settings import Settings
from toolcaddie.parts import Parts
from toolcaddie.personas import StoredPersonas
from toolcaddie.ports import Store
from toolcaddie.tools.improve import Proposals, proposals_of


def stored_proposals(settings: Settings, store: Store) -> Proposals:
    """Returns the proposals in a store, and the files of the bots that they change."""
    folders = {name: Path(bot.persona) for name, bot in settings.bots.items() if bot.persona is not None}
    return proposals_of(Parts(store=store, personas=StoredPersonas(store, folders=folders)))
