"""WhatsApp as a channel: `reading.py` reads its webhooks, `channel.py` is the channel."""

from __future__ import annotations

from toolcaddie.doors.channels.whatsapp.channel import WhatsApp, whatsapp

__all__ = ["WhatsApp", "whatsapp"]
