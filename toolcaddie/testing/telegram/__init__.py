"""A local server that speaks Telegram's Bot API and refuses what Telegram would refuse.

    async with ScriptedTelegram() as server:
        channel = telegram(url=server.url, parts=Parts(secrets=Secrets({"TELEGRAM_BOT_TOKEN": server.token})))
        server.write("Hello", person=1)
        await server.answers(1)

`people.py` makes the updates for what people do, `rules.py` says what Telegram refuses, and `server.py` is the server.
"""

from __future__ import annotations

from toolcaddie.testing.telegram.people import BOT_ID, BOT_NAME
from toolcaddie.testing.telegram.server import Fault, ScriptedTelegram

__all__ = ["BOT_ID", "BOT_NAME", "Fault", "ScriptedTelegram"]
