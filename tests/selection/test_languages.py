"""Requests in another language than the tools: which language they are in, and English words for them."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import LEXICAL, SelectionSettings
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.selection.languages.tables import LanguageTables, language_tables
from toolcaddie.selection.languages.words import LANGUAGES
from toolcaddie.selection.selector import Selector

TOOLS = (
    Tool(name="get_weather", description="Returns the weather forecast of a city."),
    Tool(name="delete_customer", description="Deletes a customer and all invoices of the customer."),
    Tool(name="create_invoice", description="Creates an invoice for a customer."),
    Tool(name="play_music", description="Plays a song or an album."),
    Tool(name="turn_on_light", description="Turns on the light in a room."),
    Tool(name="change_password", description="Changes the password of a user."),
    Tool(name="book_flight", description="Books a flight to another country."),
    Tool(name="add_calendar_event", description="Adds an event to the calendar."),
)


def _view(tools=TOOLS, **more):
    return View(catalog=Catalog.of(tools, check_schemas=False, **more))


def _best(text, view=None, rankers=None, history=()):
    settings = SelectionSettings() if rankers is None else SelectionSettings(rankers=rankers)
    messages = tuple(Message(role="user", content=each) for each in (*history, text))
    hits = Selector(settings).ranked(view or _view(), SelectionQuery(messages=messages), 5).tools
    return [hit.tool.name for hit in hits]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("¿Qué tiempo hará mañana en la ciudad?", "get_weather"),
        ("Qual é a previsão do tempo para amanhã?", "get_weather"),
        ("Quelle est la météo pour demain ?", "get_weather"),
        ("Ändere bitte mein Passwort", "change_password"),
        ("Riproduci una canzone", "play_music"),
        ("Speel een liedje af", "play_music"),
        ("Tænd lyset i rummet", "turn_on_light"),
        ("Tänd ljuset i rummet", "turn_on_light"),
        ("Jaka jest pogoda jutro w mieście?", "get_weather"),
        ("Jaké bude zítra počasí?", "get_weather"),
        ("Какая завтра погода в городе?", "get_weather"),
        ("Змініть мій пароль", "change_password"),
        ("Şifremi değiştirmek istiyorum", "change_password"),
        ("ما هي حالة الطقس غدا؟", "get_weather"),
        ("מה מזג האוויר מחר?", "get_weather"),
        ("آب و هوای فردا چطور است؟", "get_weather"),
        ("कल मौसम कैसा रहेगा?", "get_weather"),
        ("Ubah kata sandi saya", "change_password"),
        ("Thời tiết ngày mai thế nào?", "get_weather"),
        ("เปลี่ยนรหัสผ่านของฉัน", "change_password"),
        ("내일 날씨 어때?", "get_weather"),
        ("明天天气怎么样", "get_weather"),
        ("明日の天気を教えて", "get_weather"),
    ],
)
def test_a_request_in_another_language_gets_the_tool_that_it_needs(text, tool):
    assert _best(text)[0] == tool


def test_there_are_tables_of_every_language_that_is_promised():
    promised = {
        "es",
        "pt",
        "fr",
        "de",
        "it",
        "nl",
        "da",
        "sv",
        "no",
        "pl",
        "cs",
        "ru",
        "uk",
        "tr",
        "ar",
        "he",
        "fa",
        "hi",
        "id",
        "vi",
    }
    promised |= {"th", "ko", "zh", "ja"}
    assert promised <= set(LANGUAGES)
    assert all(language_tables().of(code).translated("") == [] for code in promised)


def test_without_the_table_of_word_vectors_the_rankers_by_words_compare_english_words_too():
    assert _best("Ändere bitte mein Passwort", rankers=LEXICAL)[0] == "change_password"


def test_names_and_identifiers_of_a_foreign_request_stay_what_they_are():
    view = _view((*TOOLS, Tool(name="open_zendesk_ticket", description="Opens a ticket at Zendesk.")))
    assert _best("Bitte öffne das in Zendesk", view)[0] == "open_zendesk_ticket"


def test_an_english_title_does_not_hide_the_language_of_a_request():
    assert language_tables().guess.of("Spiele bitte The House of the Rising Sun ab") == "de"


@pytest.mark.parametrize(
    "text", ["turn on the light", "TSLA", "Ok, bye.", "pay", "spell aaron", "café near me", "0x3f", "", "!!!", "\ud800"]
)
def test_in_doubt_a_text_is_english(text):
    assert language_tables().guess.of(text) == "en"


@pytest.mark.parametrize("text", ["Ертең ауа райы қандай болады?", "ქართული ტექსტი", "ਪੰਜਾਬੀ ਵਿੱਚ"])
def test_a_language_without_a_table_is_no_language_that_has_one(text):
    assert language_tables().guess.of(text) == ""


def test_a_short_answer_is_in_the_language_of_the_conversation():
    """Alone, "ja" is nothing; the request before it is German."""
    assert _best("ja bitte", history=("Ändere bitte mein Passwort",))[:1] == ["change_password"]


def test_a_request_in_the_language_of_the_catalog_is_compared_word_by_word():
    spanish = (
        Tool(name="consultar_clima", description="Consulta el pronóstico del tiempo de una ciudad."),
        Tool(name="borrar_cliente", description="Borra un cliente y todas sus facturas del sistema."),
        Tool(name="crear_factura", description="Crea una factura nueva para un cliente del sistema."),
    )
    hits = Selector().ranked(_view(spanish), SelectionQuery(text="borra el cliente"), 3).tools
    assert hits[0].tool.name == "borrar_cliente"
    assert any("words: borra, cliente" in reason for reason in hits[0].reasons)
    assert _best("delete the customer", _view(spanish))[0] == "borrar_cliente"


def test_the_keywords_of_categories_match_in_the_language_of_the_request_and_in_english():
    tools = (Tool(name="one", description="Does the first thing.", category="pay"), *TOOLS)
    view = _view(tools, categories=[Category(name="pay", description="Salaries", keywords=("password", "nómina"))])
    assert _best("¿cuándo llega mi nómina?", view, rankers=("categories",)) == ["one"]
    assert _best("ich habe mein Passwort vergessen", view, rankers=("categories",))[0] == "one"


def test_hidden_tools_do_not_change_the_language_of_the_catalog():
    german = tuple(Tool(name=f"t{i}", description=f"Zeigt die Rechnungen der Kunden {i} an.") for i in range(30))
    masked = View(catalog=Catalog.of([*TOOLS, *german]), mask=np.array([True] * len(TOOLS) + [False] * 30))
    query = SelectionQuery(text="Ändere bitte mein Passwort")
    one, other = (Selector().ranked(view, query, 5).tools for view in (_view(), masked))
    assert [(hit.tool.name, hit.reasons) for hit in one] == [(hit.tool.name, hit.reasons) for hit in other]


def test_a_damaged_file_of_tables_says_what_to_do(tmp_path):
    (tmp_path / "tables.npz").write_bytes(b"PK nothing")
    with pytest.raises(ConfigError, match="install toolcaddie again"):
        LanguageTables(tmp_path / "tables.npz")
