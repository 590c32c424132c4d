"""Telegram as a channel: `api.py` calls its methods, `reading.py` reads its updates, `channel.py` is the channel."""

from __future__ import annotations

from toolcaddie.doors.channels.telegram.channel import Telegram, telegram

__all__ = ["Telegram", "telegram"]
