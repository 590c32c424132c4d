"""The files and chats of bots, as documents of a store. Implements `ports.PersonaFiles` and `ports.Chats`."""

from __future__ import annotations

from toolcaddie.personas.chats import StoredChats
from toolcaddie.personas.files import StoredPersonas

__all__ = ["StoredChats", "StoredPersonas"]
