"""The people at Telegram: what they do, as the updates that Telegram makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BOT_ID, BOT_NAME = 7_000_000_001, "toolcaddie_test_bot"
BOT: Mapping[str, Any] = {"id": BOT_ID, "is_bot": True, "first_name": "Test", "username": BOT_NAME}

_MEDIA = frozenset({"voice", "audio", "video", "animation"})
"""Fields of media that can have a caption."""


class People:
    """Makes updates. `files` has the files that people have sent, by id; `sent` the messages of the bot, in order."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.sent: list[dict[str, Any]] = []
        self._updates: list[dict[str, Any]] = []
        self._number = 100

    def write(
        self,
        text: str,
        *,
        person: int,
        chat: int | None = None,
        name: str = "Ann",
        entities: list[dict[str, Any]] | None = None,
        reply_to_bot: bool = False,
        photo: bytes | None = None,
        document: tuple[str, str, bytes] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Adds the update of a message. `chat`: a group, whose id is below 0; None: the person's own chat with the bot.
        `document`: name, type and bytes of a file. `more`: fields such as `voice`. The text is the caption of a medium."""
        message = self._message(person, chat, name) | more
        if entities is not None:
            message["entities"] = entities
        if photo is not None:
            message["photo"] = [{**self._file(photo), "width": 90, "height": 90}]
        if document is not None:
            file_name, mime_type, data = document
            message["document"] = {**self._file(data), "file_name": file_name, "mime_type": mime_type}
        if text:
            message["caption" if photo is not None or document is not None or more.keys() & _MEDIA else "text"] = text
        if reply_to_bot:
            message["reply_to_message"] = self._message(BOT_ID, chat, "Bot") | {"from": BOT}
        return self.add({"message": message})

    def edit(self, update: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        """Adds the update of a change of a message."""
        return self.add({"edited_message": {**update["message"], "edit_date": 1_700_000_060, **changes}})

    def press(self, label: str, *, person: int, name: str = "Ann") -> dict[str, Any]:
        """Adds the update of a press on the last button with this label."""
        for message in reversed(self.sent):
            for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
                for button in row:
                    if button["text"] == label:
                        chat = int(message["chat_id"])
                        query = {
                            "id": f"query-{self._number}",
                            "from": _user(person, name),
                            "message": self._message(BOT_ID, chat if chat < 0 else None, "Bot")
                            | {"chat": chat_of(chat), "text": message["text"]},
                            "chat_instance": "1",
                            "data": button["callback_data"],
                        }
                        return self.add({"callback_query": query})
        raise AssertionError(f"no message has a button {label!r}")

    def add(self, update: dict[str, Any]) -> dict[str, Any]:
        """Adds an update; without an `update_id` it gets the next one."""
        self._number += 1
        update = {"update_id": self._number, **update}
        self._updates.append(update)
        self._wake()
        return update

    def _wake(self) -> None:
        """Called after each update."""

    def _file(self, data: bytes) -> dict[str, Any]:
        self.files[file_id := f"file-{len(self.files)}"] = data
        return {"file_id": file_id, "file_unique_id": file_id, "file_size": len(data)}

    def _message(self, person: int, chat: int | None, name: str) -> dict[str, Any]:
        self._number += 1
        chat_fields = chat_of(person if chat is None else chat)
        return {"message_id": self._number, "from": _user(person, name), "chat": chat_fields, "date": 1_700_000_000}


def chat_of(chat: int) -> dict[str, Any]:
    return {"id": chat, "type": "supergroup", "title": "Group"} if chat < 0 else {"id": chat, "type": "private"}


def _user(person: int, name: str) -> dict[str, Any]:
    return {"id": person, "is_bot": False, "first_name": name}
