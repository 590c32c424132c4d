"""Channels in the settings and at the command line."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.databases import database_url
from tests.doors.commandline import CommandLine
from tests.doors.talking import running, talking, telegram_station
from toolcaddie.app.settings import load_settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.channels.setup import channels_of, stations_of
from toolcaddie.parts import Parts, Secrets
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing.telegram import ScriptedTelegram

FILE = """
database_url = "sqlite:///data.sqlite"

[bots.anna]

[[channel]]
type = "telegram"
name = "tg"
token_env = "MY_TOKEN"
bot = "anna"
allow = ["1"]
pairing = true

[[channel]]
type = "webhook"
name = "hook"
secret_env = "HOOK_SECRET"
reply_url = "http://127.0.0.1:9/replies"
bot = "anna"
"""
SECRETS = {"MY_TOKEN": "1:token", "HOOK_SECRET": "long enough to sign with"}


def written(folder: Path, text: str = FILE) -> Path:
    (path := folder / "toolcaddie.toml").write_text(text)
    return path


def test_each_table_becomes_a_channel_with_its_people_and_its_bot(tmp_path: Path) -> None:
    spanish = FILE.replace("[bots.anna]", '[bots.anna]\nlanguage = "es"')
    settings = load_settings(written(tmp_path, spanish), environ={})
    telegram, hook = stations_of(settings, Parts(secrets=Secrets(SECRETS)), Registry())
    assert (telegram.name, telegram.type, telegram.settings.allow, telegram.settings.bot) == (
        "tg",
        "telegram",
        ("1",),
        "anna",
    )
    assert (hook.name, hook.settings.allow) == ("hook", ())
    assert (telegram.language, hook.language) == ("es", "es")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            'allow = ["1"]',
            'allowed = ["1"]',
            "toolcaddie.toml:11: unknown key 'channel.1.allowed'; did you mean 'allow'",
        ),
        ('name = "tg"', 'name = "T g"', "toolcaddie.toml:8: channel.1.name"),
        ('name = "tg"', 'name = "gateway"', "toolcaddie.toml:8: channel.1.name"),
        ('name = "tg"\n', "", "missing required field `name`"),
        ('type = "telegram"', 'type = "telegrams"', "toolcaddie.toml:7: channel.1.type: no channel 'telegrams'"),
        ('token_env = "MY_TOKEN"', 'token = "7:AAAA"', "token"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, error: str) -> None:
    path = written(tmp_path, FILE.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        load_settings(path, environ={})
    assert error in str(refused.value)


def test_two_channels_of_one_name_and_an_unknown_bot_are_refused(tmp_path: Path) -> None:
    parts = Parts(secrets=Secrets(SECRETS))
    twice = load_settings(written(tmp_path, FILE.replace('"hook"', '"tg"')), environ={})
    with pytest.raises(ConfigError, match="two channels have the same name"):
        channels_of(twice, None, store=MemoryStore(), parts=parts)  # type: ignore[arg-type]
    unknown = load_settings(written(tmp_path, FILE.replace('bot = "anna"', 'bot = "anne"')), environ={})
    with pytest.raises(ConfigError, match="anna"):
        channels_of(unknown, None, store=MemoryStore(), parts=parts)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="MY_TOKEN is not set"):
        channels_of(load_settings(written(tmp_path), environ={}), None, store=MemoryStore(), parts=Parts())  # type: ignore[arg-type]


WHATSAPP = """
[[channel]]
type = "whatsapp"
name = "{name}"
phone_number_id = "{number}"
bot = "anna"
"""


@pytest.mark.parametrize(
    ("added", "shared"),
    [
        (
            '[[channel]]\ntype = "webhook"\nname = "two"\nsecret_env = "OTHER_SECRET"\nreply_url = "http://127.0.0.1:9/x"\n'
            'bot = "anna"\n',
            "'hook' and 'two' have the same secret",
        ),
        (
            '[[channel]]\ntype = "telegram"\nname = "two"\ntoken_env = "MY_TOKEN"\nbot = "anna"\n',
            "'tg' and 'two' have the same token",
        ),
        (
            WHATSAPP.format(name="one", number=7) + WHATSAPP.format(name="two", number=7),
            "'one' and 'two' have the same phone_number_id",
        ),
        (WHATSAPP.format(name="one", number=7) + WHATSAPP.format(name="two", number=8), ""),
    ],
    ids=["webhook", "telegram", "whatsapp", "two numbers"],
)
def test_two_channels_that_would_accept_the_same_messages_are_refused_by_name(
    tmp_path: Path, added: str, shared: str
) -> None:
    """The variables may have different names. Two numbers of an app of WhatsApp have the same secrets."""
    whatsapp = dict.fromkeys(("WHATSAPP_TOKEN", "WHATSAPP_APP_SECRET", "WHATSAPP_VERIFY_TOKEN"), "a secret of the app")
    secrets = Secrets(SECRETS | whatsapp | {"OTHER_SECRET": SECRETS["HOOK_SECRET"]})
    settings = load_settings(written(tmp_path, FILE + added), environ={})
    if not shared:
        assert len(stations_of(settings, Parts(secrets=secrets), Registry())) == 4
        return
    with pytest.raises(ConfigError, match=shared):
        stations_of(settings, Parts(secrets=secrets), Registry())


def test_an_operator_pairs_lists_and_unpairs_people(toolcaddie: CommandLine) -> None:
    url = database_url(toolcaddie.home / "data.sqlite")
    written(toolcaddie.home, FILE.replace("sqlite:///data.sqlite", url))

    async def stranger() -> str:
        async with ScriptedTelegram() as server, talking() as talk:
            station = telegram_station(server, pairing=True)
            async with running([station], talk, url):
                server.write("Hello", person=42, name="Eve\x1b[2J")
                (offer,) = await server.answers(1)
                return re.findall(r"code is (\w{8})", offer["text"])[0]

    code = asyncio.run(stranger())
    assert toolcaddie.json("channels", "list")["channels"][0]["paired"] == []
    assert "42 (Eve\\x1b[2J) may talk to the bot of tg" in toolcaddie.ok("channels", "pair", code)
    assert "no person has the pairing code" in toolcaddie("channels", "pair", code).stderr
    assert toolcaddie.json("channels", "list")["channels"][0]["paired"][0]["person"] == "42"
    assert "42 (Eve" in toolcaddie.ok("channels", "list")
    assert toolcaddie.json("channels", "unpair", "tg", "42") == {"channel": "tg", "person": "42", "paired": False}
    assert "is not paired" in toolcaddie("channels", "unpair", "tg", "42").stderr
    assert "there is no channel 'tgg'; did you mean 'tg'?" in toolcaddie.refused("channels", "unpair", "tgg", "42")


def test_test_asks_the_service_for_its_bot(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRETS["HOOK_SECRET"])
    written(toolcaddie.home)
    assert "reply_url: http://127.0.0.1:9/replies" in toolcaddie.ok("channels", "test", "hook")
    assert "MY_TOKEN is not set" in toolcaddie("channels", "test", "tg").stderr
    assert "there is no channel 'tgg'" in toolcaddie("channels", "test", "tgg").stderr


def test_a_service_that_cannot_be_reached_is_named_without_its_address(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "123456:a-token-that-nobody-may-read")
    (toolcaddie.home / "toolcaddie.toml").write_text(
        '[bots.assistant]\n[[channel]]\ntype = "telegram"\nname = "tg"\nbot = "assistant"\ntoken_env = "MY_TOKEN"\n'
        'url = "http://127.0.0.1:9"\n'
    )
    error = toolcaddie("channels", "test", "tg").stderr
    assert "Telegram cannot be reached: nothing answers at port 9 of 127.0.0.1" in error
    assert "123456" not in error


def test_without_channels_the_list_says_how_to_add_one(toolcaddie: CommandLine) -> None:
    assert "[[channel]]" in toolcaddie("channels", "list").stderr
