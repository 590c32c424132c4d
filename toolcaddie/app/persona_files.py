"""The files and chats of bots in a store, for commands that need no runtime."""

from __future__ import annotations

from toolcaddie.app.runtimes import persona_folders
from toolcaddie.app.settings import Settings
from toolcaddie.personas import StoredPersonas
from toolcaddie.ports import Store


def stored_personas(settings: Settings, store: Store) -> StoredPersonas:
    """Returns the files of all bots. A bot without any gets those of its folder in the settings."""
    return StoredPersonas(store, folders=persona_folders(settings))
