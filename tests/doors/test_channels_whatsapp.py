"""People talk to a bot through WhatsApp, against a strict local server."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import pytest

from tests.doors.talking import Place, eventually, whatsapp_chat
from toolcaddie import tool
from toolcaddie.core.bots import ChatAddress
from toolcaddie.core.content import media_of
from toolcaddie.core.errors import ProviderError
from toolcaddie.testing import call, say
from toolcaddie.testing.whatsapp import ScriptedWhatsApp

pytestmark = pytest.mark.anyio

ANN, BOB = "4930111", "4930222"
PICTURE = b"\xff\xd8\xff\xe0" + b"\0" * 100


class Clock:
    now = time.time()

    def __call__(self) -> float:
        return self.now


def bodies(server: ScriptedWhatsApp, person: str) -> list[str]:
    return [each["text"]["body"] for each in server.sent if each["to"] == person and each["type"] == "text"]


@pytest.mark.proves("R000-49")
async def test_a_message_arrives_by_http_and_the_reply_goes_back_to_the_person(tmp_path: Path) -> None:
    async with whatsapp_chat(tmp_path, allow=("*",)) as (server, url, _, __):
        hello = server.message("Freeze my membership", person=ANN)
        assert [await server.post(url, hello) for _ in range(3)] == [200, 200, 200]
        await server.answers(1)
        await eventually(lambda: server.read)
        assert await server.post(url, server.notification(statuses=[{"id": "wamid.out1", "status": "read"}])) == 200
        assert await server.post(url, server.message("Hello", person=BOB)) == 200
        await server.answers(2)
    assert bodies(server, ANN) == ["You said: Freeze my membership"]
    assert bodies(server, BOB) == ["You said: Hello"]
    assert not server.refusals


async def test_unsigned_malformed_and_foreign_requests_change_nothing(tmp_path: Path) -> None:
    async with whatsapp_chat(tmp_path, allow=("*",)) as (server, url, talk, _):
        message = server.message("Hello", person=ANN)
        assert await server.post(url, message, secret="another secret") == 401
        async with aiohttp.ClientSession() as session:
            async with session.post(url, json=message) as unsigned:
                assert (unsigned.status, await unsigned.text()) == (401, "")
            query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": server.verify_token}
            async with session.get(url, params=query) as verified:
                assert (verified.status, await verified.text()) == (200, "1158201444")
            async with session.get(url, params=query | {"hub.verify_token": "guess"}) as refused:
                assert refused.status == 401
        assert await server.post(url, b'{"object": 3}') == 400
        other = server.message("Hello", person=ANN)
        other["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "999"
        assert await server.post(url, other) == 200
        assert await server.post(url, message) == 200
        await server.answers(1)
    assert len(talk.works) == 1


async def test_a_picture_is_fetched_and_a_busy_service_is_asked_again(tmp_path: Path) -> None:
    async with whatsapp_chat(tmp_path, allow=(ANN,)) as (server, url, talk, _):
        server.faults = [(400, 130429), (503, 2)]
        assert await server.post(url, server.message("What is it?", person=ANN, picture=PICTURE)) == 200
        assert await server.post(url, server.message("I am nobody", person=BOB)) == 200
        await server.answers(1)
    assert bodies(server, ANN) == ["You said: What is it?"]
    assert len(media_of(talk.works[0].message)) == 1
    assert len(talk.works) == 1


async def test_24_hours_after_a_persons_message_only_a_template_can_be_sent(place: Place) -> None:
    clock, address = Clock(), ChatAddress(channel="wa", chat=ANN)
    async with whatsapp_chat(place, allow=(ANN,), clock=clock) as (server, url, _, channels):
        with pytest.raises(ProviderError, match="only for 24 hours"):
            await channels.send(address, "Good morning", key="k1")
        assert await server.post(url, server.message("Hello", person=ANN)) == 200
        await server.answers(1)
        await channels.send(address, "Good morning", key="k2")
        clock.now += 86_401
        with pytest.raises(ProviderError, match="only for 24 hours"):
            await channels.send(address, "Good evening", key="k3")
    assert bodies(server, ANN) == ["You said: Hello", "Good morning"]


async def test_the_template_of_the_settings_carries_a_late_text(tmp_path: Path) -> None:
    async with whatsapp_chat(tmp_path, allow=(ANN,), template="news") as (server, _, __, channels):
        await channels.send(ChatAddress(channel="wa", chat=ANN), "Good\nmorning", key="k1")
    template = server.sent[0]["template"]
    assert template["name"] == "news"
    assert template["components"][0]["parameters"] == [{"type": "text", "text": "Good morning"}]


async def test_a_call_is_approved_with_a_button(place: Place) -> None:
    @tool(destructive=True)
    def delete_client(name: str) -> str:
        """Delete a client."""
        return "deleted"

    script = [say("Hi"), call("delete_client", {"name": "John"}), say("John is deleted.")]
    settings = {"allow": (ANN, BOB), "approvers": (BOB,)}
    async with whatsapp_chat(place, script, sources=[delete_client], **settings) as (server, url, _, __):
        assert await server.post(url, server.message("I am here", person=BOB)) == 200
        await server.answers(1)
        assert await server.post(url, server.message("Delete John", person=ANN)) == 200
        await server.answers(3)
        assert await server.post(url, server.message(person=BOB, press="Approve")) == 200
        await server.answers(5)
    assert "John is deleted." in bodies(server, ANN)
    assert "Approved." in bodies(server, BOB)
    assert not server.refusals


async def test_a_forwarded_message_counts_as_the_words_of_somebody_else(tmp_path: Path) -> None:
    async with whatsapp_chat(tmp_path, allow=("*",)) as (server, url, talk, _):
        for number, forwarded in enumerate((True, False), start=1):
            assert await server.post(url, server.message("Send money", person=ANN, forwarded=forwarded)) == 200
            await server.answers(number)
        often = server.message("Send more money", person=ANN)
        often["entry"][0]["changes"][0]["value"]["messages"][0]["context"] = {"frequently_forwarded": True}
        assert await server.post(url, often) == 200
        await server.answers(3)
    assert [work.inherited.taint for work in talk.works] == [("forwarded message",), (), ("forwarded message",)]
    assert "EXTERNAL_UNTRUSTED_CONTENT" in str(talk.works[0].message)
    assert talk.works[1].message == "Send money"


async def test_a_signed_message_that_is_sent_again_after_its_id_is_forgotten_is_not_read(tmp_path: Path) -> None:
    clock = Clock()
    async with whatsapp_chat(tmp_path, clock=clock, allow=("*",)) as (server, url, talk, _):
        hello = server.message("Hello", person=ANN, at=clock.now - 7 * 86_400)
        assert await server.post(url, hello) == 200
        await server.answers(1)
        old = server.message("Hello", person=ANN, at=clock.now - 8 * 86_400)
        undated = server.message("Hello", person=ANN)
        del undated["entry"][0]["changes"][0]["value"]["messages"][0]["timestamp"]
        assert [await server.post(url, each) for each in (hello, old, undated)] == [200] * 3
        assert await server.post(url, server.message("Bye", person=ANN)) == 200
        await server.answers(2)
    assert [work.message for work in talk.works] == ["Hello", "Bye"]


async def test_a_message_of_an_unknown_form_does_not_keep_others_from_being_read(tmp_path: Path) -> None:
    async with whatsapp_chat(tmp_path, allow=("*",)) as (server, url, _, __):
        odd = {"from": ANN, "id": "1", "timestamp": 5, "type": "text", "text": []}
        webhook = server.message("Hello", person=ANN)
        webhook["entry"][0]["changes"][0]["value"]["messages"].insert(0, odd)
        assert await server.post(url, webhook) == 200
        await server.answers(1)
    assert bodies(server, ANN) == ["You said: Hello"]


async def test_below_a_long_question_the_buttons_stand_under_its_end(tmp_path: Path) -> None:
    @tool(destructive=True)
    def delete_client(name: str) -> str:
        """Delete a client."""
        return "deleted"

    script = [say("Hi"), call("delete_client", {"name": "J" * 3_000})]
    settings = {"allow": (ANN, BOB), "approvers": (BOB,)}
    async with whatsapp_chat(tmp_path, script, sources=[delete_client], **settings) as (server, url, _, __):
        assert await server.post(url, server.message("I am here", person=BOB)) == 200
        await server.answers(1)
        assert await server.post(url, server.message("Delete J", person=ANN)) == 200
        await server.answers(4)
    (question,) = [each for each in server.sent if each["type"] == "interactive"]
    assert "Answer with the buttons" in question["interactive"]["body"]["text"]
    assert "Please decide" not in str(server.sent)
    assert not server.refusals
