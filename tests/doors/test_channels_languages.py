"""The door of the channels speaks the language of the bot."""

from __future__ import annotations

import re
import string
from pathlib import Path

import msgspec
import pytest

from tests.doors.talking import telegram_chat
from toolcaddie import tool
from toolcaddie.core.errors import ProviderError
from toolcaddie.doors.channels.sentences import sentences_in
from toolcaddie.testing import call, say
from toolcaddie.testing.telegram import ScriptedTelegram

pytestmark = pytest.mark.anyio


def texts(server: ScriptedTelegram, chat: int) -> list[str]:
    return [each["text"] for each in server.sent if each["chat_id"] == chat]


async def test_a_spanish_bot_gives_a_code_and_answers_commands_and_failures_in_spanish(tmp_path: Path) -> None:
    script = [ProviderError("the upstream is down"), say(" ")]
    async with telegram_chat(tmp_path, script, allow=("1",), pairing=True, language="es") as (server, _, __):
        server.write("Hola", person=2)
        await server.answers(1)
        for number, text in enumerate(("/help", "/stop", "/new", "/approve", "/approve x", "Hola", "¿Y ahora?", ""), 2):
            server.write(text, person=1)
            await server.answers(number)
    assert re.fullmatch(r"Todavía no te conozco\. Tu código de vinculación es [A-Z0-9]{8}\. .*", texts(server, 2)[0])
    said = texts(server, 1)
    assert said[0].startswith("Escribe un mensaje y te respondo.\n/stop: detiene")
    assert said[1:] == [
        "No hay nada que detener.",
        "Esta es una conversación nueva.",
        "Escribe /approve con el identificador de la pregunta.",
        "No fue posible: no hay ninguna pregunta abierta con este identificador.",
        "Algo salió mal y no tengo respuesta. Inténtalo de nuevo más tarde, por favor.",
        "No tengo respuesta a eso.",
        "No puedo leer este tipo de mensaje. Puedo leer textos, fotos y archivos de texto de hasta 64 kB.",
    ]


async def test_a_spanish_bot_asks_about_calls_in_spanish_with_spanish_buttons(tmp_path: Path) -> None:
    @tool(destructive=True)
    def delete_client(name: str) -> str:
        """Delete a client."""
        return "deleted"

    script = [call("delete_client", {"name": "John"}), say("John está borrado.")]
    settings = {"allow": ("1",), "approvers": ("9",), "language": "es"}
    async with telegram_chat(tmp_path, script, runtime={"sources": [delete_client]}, **settings) as (server, _, __):
        server.write("Borra a John", person=1)
        await server.answers(2)
        server.press("Aprobar", person=9)
        await server.answers(4)
    question, approved = texts(server, 9)
    assert question.startswith(
        "Ann pide una llamada que necesita aprobación.\nLo pide 1 en el chat privado 1 del canal tg.\n"
        "Herramienta: delete_client\nArgumentos: {"
    )
    assert approved == "Aprobado."
    assert texts(server, 1) == [
        "Para esto hay una llamada que otra persona debe aprobar. Ya pregunté, y responderé cuando se decida.",
        "John está borrado.",
    ]


def test_both_languages_fill_in_the_same_words() -> None:
    english, spanish = (msgspec.structs.asdict(sentences_in(language)) for language in ("en", "es"))

    def blanks(text: str) -> list[str]:
        return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)

    assert english.keys() == spanish.keys()
    assert [name for name in english if blanks(english[name]) != blanks(spanish[name])] == []
