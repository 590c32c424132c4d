"""Source 001's catalogue and its table of real results: which of the gym's categories a message brings, and how many tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Literal

import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import preset
from toolcaddie.core.schema import canonical_json, estimate_tokens, wire_definition
from toolcaddie.core.selection import Budget, Selection, SelectionQuery
from toolcaddie.samples.gym import source
from toolcaddie.selection.selector import Selector

Mode = Literal["word", "substring"]
MODES: tuple[Mode, ...] = ("word", "substring")
LANGUAGES = ("en", "all")
DAY = date(2026, 3, 18)

CORE = 8
# Category: tools, related, in defaults, one level, closure. The printed table of source 001, in its order.
TABLE: dict[str, tuple[int, tuple[str, ...], bool, int, int]] = {
    "clients": (12, ("memberships", "attendance"), True, 32, 32),
    "memberships": (6, ("clients",), True, 26, 32),
    "attendance": (6, (), True, 14, 14),
    "revenue": (2, (), True, 10, 10),
    "trainers": (2, ("staff",), True, 15, 15),
    "enquiries": (4, (), True, 12, 12),
    "staff": (5, (), False, 13, 13),
    "salary": (6, ("staff",), False, 19, 19),
    "facilities": (4, (), False, 12, 12),
    "diets": (4, (), False, 12, 12),
    "plans": (4, ("offers",), True, 17, 17),
    "offers": (5, (), False, 13, 13),
    "leads": (10, ("clients", "enquiries"), False, 34, 46),
    "referrals": (5, (), False, 13, 13),
    "documents": (5, ("clients",), False, 25, 37),
    "goals": (7, ("clients",), False, 27, 39),
    "photos": (2, ("clients",), False, 22, 34),
    "notes": (3, ("clients",), False, 23, 35),
    "classes": (4, ("clients",), False, 24, 36),
    "appointments": (4, ("trainers", "clients"), False, 26, 43),
    "guests": (2, (), False, 10, 10),
    "products": (3, (), False, 11, 11),
    "campaigns": (2, (), False, 10, 10),
    "equipment": (3, (), False, 11, 11),
    "custom_fields": (2, (), False, 10, 10),
    "engagement": (3, (), False, 11, 11),
    "gamification": (4, (), False, 12, 12),
    "loyalty": (4, (), False, 12, 12),
    "wearables": (3, (), False, 11, 11),
    "surveys": (3, (), False, 11, 11),
}

NAMED_BY_THE_SOURCE: dict[str, tuple[str, ...]] = {
    "clients": ("get_clients_list", "create_client", "update_client"),
    "memberships": ("get_membership_stats", "freeze_membership"),
    "attendance": ("get_attendance_today", "get_attendance_stats"),
    "revenue": ("get_revenue_stats", "get_membership_sales"),
    "trainers": ("get_trainers_list", "get_trainers_stats"),
    "enquiries": ("get_enquiries_list", "create_enquiry"),
    "staff": ("get_staff_list", "create_staff"),
    "salary": ("get_salary_stats", "get_pending_salaries"),
    "facilities": ("get_amenities_list", "create_facility"),
    "diets": ("get_diet_plans", "create_diet"),
    "plans": ("get_membership_plans", "create_plan"),
    "offers": ("get_offers_list", "validate_offer_code"),
    "leads": ("get_leads_list", "update_lead_stage"),
    "referrals": ("get_referrals_list", "create_referral"),
    "documents": ("get_document_templates", "get_signed_document_pdf"),
    "goals": ("get_member_goals", "create_goal_milestone"),
    "photos": ("get_member_photos", "get_photo_details"),
    "notes": ("get_member_notes", "create_member_note"),
    "classes": ("get_class_types", "get_session_bookings"),
    "appointments": ("get_services", "get_available_slots"),
    "guests": ("get_guest_visits", "get_guest_visit_stats"),
    "products": ("get_products", "get_low_stock_products"),
    "campaigns": ("get_campaigns", "get_campaign_details"),
    "equipment": ("get_equipment", "get_upcoming_maintenance"),
    "custom_fields": ("get_custom_fields", "get_entity_custom_values"),
    "engagement": ("get_engagement_dashboard", "get_churn_alerts"),
    "gamification": ("get_challenges", "get_challenge_leaderboard"),
    "loyalty": ("get_loyalty_dashboard", "get_available_rewards"),
    "wearables": ("get_wearable_connections", "get_user_wearable_data"),
    "surveys": ("get_surveys", "get_survey_analytics"),
}

PRINTED_KEYWORDS: dict[str, str] = {
    "clients": "client, member, customer, person, user, people, who, profile",
    "salary": "salary, pay, wage, payroll, compensation, pending salary",
    "attendance": "attendance, check-in, present, absent, came today, who came, today",
    "classes": "class, session, group class, yoga, zumba, pilates, booking",
    "leads": "lead, crm, pipeline, follow-up, stage, convert lead",
    "memberships": "freeze",
}

LONG_LIST = (
    "clients salary attendance revenue trainers staff facilities diets plans offers leads referrals documents goals photos "
    "notes classes appointments guests products campaigns equipment engagement gamification loyalty wearables surveys"
)

# The word each category is called by, where it is not its name.
OWN_WORD = {"memberships": "freeze", "custom_fields": "custom fields"}

CLOSURE_OF_CLIENTS = {"clients", "memberships", "attendance"}
CLOSURE_OF_LEADS = CLOSURE_OF_CLIENTS | {"leads", "enquiries"}

# Keyword, the category whose list it stands in, words it hits inside of, what that brings in mode `substring`.
TRAPS: tuple[tuple[str, str, str, set[str]], ...] = (
    ("who", "clients", "whole whoever", CLOSURE_OF_CLIENTS),
    ("who", "clients", "wholesale", CLOSURE_OF_CLIENTS | {"products"}),
    ("pay", "salary", "payment payments", {"salary", "staff", "revenue"}),
    ("pay", "salary", "prepay repay PayPal", {"salary", "staff"}),
    ("class", "classes", "classic classify classified first-class", CLOSURE_OF_CLIENTS | {"classes"}),
    ("member", "clients", "remember membership", CLOSURE_OF_CLIENTS),
    (
        "pt",
        "trainers",
        "option script description attempt receipt laptop September accept prompt subscription receptionist",
        {"trainers", "staff"},
    ),
    ("plan", "plans", "explanation plane planet", {"plans", "offers"}),
    ("pos", "products", "position positive post purpose deposit possible suppose", {"products"}),
    ("sign", "documents", "design assign resign signal significant", CLOSURE_OF_CLIENTS | {"documents"}),
    ("code", "offers", "decode barcode", {"offers"}),
    ("deal", "offers", "ideal dealer", {"offers"}),
    ("store", "products", "restore stored", {"products"}),
    ("stock", "products", "Stockholm", {"products"}),
    ("void", "products", "avoid", {"products"}),
    ("shop", "products", "workshop", {"products"}),
    ("sell", "products", "bestseller", {"products"}),
    ("sale", "products", "wholesale", {"products"} | CLOSURE_OF_CLIENTS),
    ("tier", "plans", "frontier prettier", {"plans", "offers"}),
    ("stage", "leads", "backstage hostage", CLOSURE_OF_LEADS),
    ("lead", "leads", "leader mislead", CLOSURE_OF_LEADS),
    ("lead", "leads", "leaderboard", CLOSURE_OF_LEADS | {"gamification"}),
    ("refer", "referrals", "prefer preference reference", {"referrals"}),
    ("earning", "revenue", "learning yearning", {"revenue"}),
    ("eating", "diets", "creating repeating seating", {"diets"}),
    ("rating", "surveys", "generating operating integrating", {"surveys"}),
    ("memo", "notes", "memory memorial", CLOSURE_OF_CLIENTS | {"notes"}),
    ("note", "notes", "keynote notebook", CLOSURE_OF_CLIENTS | {"notes"}),
    ("sync", "wearables", "async", {"wearables"}),
    ("present", "attendance", "presentation represent", {"attendance"}),
    ("trial", "guests", "industrial", {"guests"}),
    ("room", "facilities", "bathroom mushroom", {"facilities"}),
    ("pool", "facilities", "carpool", {"facilities"}),
    ("meal", "diets", "oatmeal", {"diets"}),
    ("team", "staff", "steam", {"staff"}),
)

# The trap word is silent on these in mode `word`, but the word itself belongs to a category of its own.
OWN_MEANING = {"payment": {"revenue"}, "payments": {"revenue"}, "leaderboard": {"gamification"}}
OWN_MEANING |= {"membership": CLOSURE_OF_CLIENTS, "first-class": CLOSURE_OF_CLIENTS | {"classes"}}

TRAP_WORDS = [
    pytest.param(keyword, category, word, effect, id=f"{keyword}-{word}")
    for keyword, category, words, effect in TRAPS
    for word in words.split()
]


@pytest.fixture(scope="module")
def views() -> Iterator[dict[str, View]]:
    gyms = {language: source(language=language, today=DAY) for language in ("en", "es", "pt", "all")}
    yield {name: View(catalog=Catalog.of(gym.tools(), gym.categories())) for name, gym in gyms.items()}
    for gym in gyms.values():
        gym.close()


@pytest.fixture(scope="module")
def catalog(views: dict[str, View]) -> Catalog:
    return views["en"].catalog


_SELECTORS = {
    (mode, depth): Selector(replace(preset("keyword").selection, match=mode, related_depth=depth))
    for mode in MODES
    for depth in (None, 1)
}
_UNCUT = replace(preset("keyword").budget, provider_cap=None)


def select(view: View, mode: Mode, *messages: str, depth: int | None = None, budget: Budget = _UNCUT) -> Selection:
    history = [Message(role="user", content=message) for message in messages]
    return _SELECTORS[mode, depth].select(view, SelectionQuery(messages=history), budget)


def brought(selection: Selection) -> set[str]:
    """The categories of the tools selected; core tools have none."""
    return {candidate.tool.category for candidate in selection.tools if candidate.tool.category is not None}


@pytest.mark.proves("R001-2", "R001-3")
def test_the_gym_has_137_tools_8_of_them_core_and_129_in_30_categories(catalog: Catalog) -> None:
    assert len(catalog) == 137
    assert [category.name for category in catalog.categories] == list(TABLE)
    assert sum(tool.core for tool in catalog) == CORE
    assert sum(tool.category is not None for tool in catalog) == 129


@pytest.mark.proves(*(f"R001-K{number}" for number in range(1, 9)))
def test_the_eight_core_tools_come_first_and_are_in_every_selection(views: dict[str, View]) -> None:
    expected = (
        "change_theme",
        "navigate_to_page",
        "get_gym_info",
        "get_branches_info",
        "get_current_branch",
        "create_branch",
        "get_currencies",
        "convert_currency",
    )
    assert tuple(tool.name for tool in views["en"])[:CORE] == expected
    for message in ("freeze", "hello", LONG_LIST):
        assert select(views["en"], "word", message).names[:CORE] == expected


@pytest.mark.proves(*(f"R001-C{number:02}" for number in range(1, 31)))
@pytest.mark.parametrize("name", TABLE)
def test_a_category_has_the_size_the_tools_the_relations_and_the_totals_of_the_table(
    name: str, catalog: Catalog, views: dict[str, View]
) -> None:
    size, related, default, one_level, closure = TABLE[name]
    category = catalog.category(name)
    assert category is not None
    tools = [catalog.tools[position].name for position in catalog.positions_in(name)]
    assert len(tools) == size
    assert set(NAMED_BY_THE_SOURCE[name]) <= set(tools)
    assert (category.related, category.default) == (related, default)
    word = OWN_WORD.get(name, name)
    assert len(select(views["en"], "word", word, depth=1).tools) == one_level
    assert len(select(views["en"], "word", word).tools) == closure


@pytest.mark.proves("R001-9")
@pytest.mark.parametrize("name", PRINTED_KEYWORDS)
def test_the_keywords_the_source_prints_are_in_the_list(name: str, catalog: Catalog) -> None:
    category = catalog.category(name)
    assert category is not None
    assert set(PRINTED_KEYWORDS[name].split(", ")) <= set(category.keywords)


@pytest.mark.proves("R001-27", "R001-28")
def test_seven_categories_are_defaults_and_eighteen_have_no_relations(catalog: Catalog) -> None:
    defaults = {category.name for category in catalog.categories if category.default}
    assert defaults == {"clients", "memberships", "attendance", "revenue", "plans", "trainers", "enquiries"}
    assert sum(TABLE[name][0] for name in defaults) == 36
    assert sum(not category.related for category in catalog.categories) == 18


ROWS = (
    pytest.param("show me all clients", 32, 32, marks=pytest.mark.proves("R001-T1")),
    pytest.param("what is pending salary?", 19, 19, marks=pytest.mark.proves("R001-T2")),
    pytest.param("hello, how are you?", 44, 44, marks=pytest.mark.proves("R001-T3")),
    pytest.param("show me revenue and attendance stats", 16, 16, marks=pytest.mark.proves("R001-T4")),
    pytest.param("book appointment for client", 38, 43, marks=pytest.mark.proves("R001-T5")),
    pytest.param("show me dashboard", 44, 44, marks=pytest.mark.proves("R001-T6")),
    pytest.param("show me pending salary", 19, 19, marks=pytest.mark.proves("R001-E1")),
    pytest.param("who came today?", 32, 32, marks=pytest.mark.proves("R001-E2")),
    pytest.param("show me all yoga classes this week", 24, 36, marks=pytest.mark.proves("R001-E3")),
    pytest.param("book an appointment for a client with a trainer", 43, 43, marks=pytest.mark.proves("R001-E5")),
    pytest.param("How many clients do I have?", 32, 32, marks=pytest.mark.proves("R001-E7")),
    pytest.param("Show me today's attendance", 14, 14, marks=pytest.mark.proves("R001-E7")),
    pytest.param("freeze", 26, 32),
)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("message", "one_level", "closure"), ROWS)
def test_the_rows_of_the_table_come_out_in_both_modes(
    message: str, one_level: int, closure: int, mode: Mode, language: str, views: dict[str, View]
) -> None:
    assert len(select(views[language], mode, message).tools) == closure
    assert len(select(views[language], mode, message, depth=1).tools) == one_level


@pytest.mark.proves("R001-T7", "R001-1")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mode", MODES)
def test_the_long_list_of_categories_is_cut_to_128(mode: Mode, language: str, views: dict[str, View]) -> None:
    # Nothing in the list names custom fields, and "facilities" holds no keyword as it stands.
    assert len(select(views[language], mode, LONG_LIST).tools) == (135 if mode == "word" else 131)
    cut = select(views[language], mode, LONG_LIST, budget=preset("keyword").budget)
    assert len(cut.tools) == 128
    assert sum(candidate.tool.core for candidate in cut.tools) == CORE


@pytest.mark.proves("R001-T7")
@pytest.mark.parametrize("language", ["en", "es", "pt", "all"])
@pytest.mark.parametrize("mode", MODES)
def test_the_first_keyword_of_every_category_brings_all_137(mode: Mode, language: str, views: dict[str, View]) -> None:
    message = ", ".join(category.keywords[0] for category in views[language].catalog.categories)
    assert len(select(views[language], mode, message).tools) == 137
    assert len(select(views[language], mode, message, budget=preset("keyword").budget).tools) == 128


@pytest.mark.proves("R001-E4")
@pytest.mark.parametrize("mode", MODES)
def test_freezing_a_membership_brings_the_tools_to_find_the_client_too(mode: Mode, views: dict[str, View]) -> None:
    selection = select(views["en"], mode, "freeze John's membership")
    assert len(selection.tools) == 32
    assert {"get_clients_list", "freeze_membership"} <= set(selection.names)


@pytest.mark.proves("R001-E6", "R001-24")
@pytest.mark.parametrize("mode", MODES)
def test_the_first_one_means_a_client_when_clients_were_asked_for_before(mode: Mode, views: dict[str, View]) -> None:
    selection = select(views["en"], mode, "show me all active clients", "freeze the first one")
    assert {"get_clients_list", "freeze_membership"} <= set(selection.names)
    assert len(selection.tools) == 32


@pytest.mark.parametrize(
    ("message", "substring", "word"),
    [
        ("any whole grain meals?", 36, 12),
        ("payment history", 21, 10),
        ("what is the best option?", 15, 44),
        ("he paid", 44, 44),
    ],
)
def test_a_keyword_inside_another_word_misleads_mode_substring_only(
    message: str, substring: int, word: int, views: dict[str, View]
) -> None:
    assert len(select(views["en"], "substring", message).tools) == substring
    assert len(select(views["en"], "word", message).tools) == word


@pytest.mark.parametrize(("keyword", "category", "word", "effect"), TRAP_WORDS)
def test_a_trap_word_fires_in_mode_substring_and_is_silent_in_mode_word(
    keyword: str, category: str, word: str, effect: set[str], views: dict[str, View]
) -> None:
    listed = views["en"].catalog.category(category)
    assert listed is not None
    assert keyword in listed.keywords
    assert brought(select(views["en"], "substring", word)) == effect
    quiet = select(views["en"], "word", word)
    assert (set() if quiet.no_match else brought(quiet)) == OWN_MEANING.get(word, set())


@pytest.mark.parametrize("message", ["facilities", "salaries"])
def test_plurals_in_ies_are_missed_in_mode_substring_and_found_in_mode_word(
    message: str, views: dict[str, View]
) -> None:
    assert select(views["en"], "substring", message).no_match
    assert not select(views["en"], "word", message).no_match


@pytest.mark.parametrize("mode", MODES)
def test_a_keyword_is_not_formed_across_two_messages(mode: Mode, views: dict[str, View]) -> None:
    assert select(views["en"], mode, "please check", "in the evening").no_match


@pytest.mark.parametrize(
    ("language", "message", "category"),
    [
        ("es", "Congela la membresía de Juan", "freeze_membership"),
        ("es", "¿Quién vino hoy?", "get_attendance_today"),
        ("es", "muéstrame las nóminas pendientes", "get_pending_salaries"),
        ("es", "ver encuestas", "get_surveys"),
        ("es", "reserva una cita con el entrenador", "get_available_slots"),
        ("pt", "Congelar a matrícula do João", "freeze_membership"),
        ("pt", "quem veio hoje?", "get_attendance_today"),
        ("pt", "mostre os salarios pendentes", "get_pending_salaries"),
        ("pt", "quais produtos estão com estoque baixo?", "get_low_stock_products"),
        ("pt", "quais desafios temos?", "get_challenges"),
    ],
)
def test_requests_in_spanish_and_portuguese_find_their_tools(
    language: str, message: str, category: str, views: dict[str, View]
) -> None:
    for view in (views[language], views["all"]):
        selection = select(view, "word", message)
        assert not selection.no_match
        assert category in selection.names


@pytest.mark.parametrize("language", ["en", "es", "pt"])
def test_every_language_has_keywords_for_every_category_each_once_and_in_lower_case(
    language: str, views: dict[str, View]
) -> None:
    for category in views[language].catalog.categories:
        assert category.keywords, category.name
        assert Counter(category.keywords).most_common(1)[0][1] == 1
        assert [keyword for keyword in category.keywords if keyword != keyword.lower().strip()] == []


def test_all_languages_together_hold_the_keywords_of_each(views: dict[str, View]) -> None:
    for category in views["all"].catalog.categories:
        for language in ("en", "es", "pt"):
            single = views[language].catalog.category(category.name)
            assert single is not None
            assert set(single.keywords) <= set(category.keywords)


def test_a_language_without_keywords_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"'fr'.*en, es, pt, all"):
        source(language="fr")


@pytest.mark.proves("R001-7")
def test_the_rows_of_the_table_send_a_third_of_the_tools_and_save_three_quarters_of_the_tokens(
    catalog: Catalog, views: dict[str, View]
) -> None:
    everything = sum(estimate_tokens(canonical_json(wire_definition(tool))) for tool in catalog)
    rows = [select(views["en"], "word", str(row.values[0])) for row in ROWS[:6]]
    counts = [len(selection.tools) for selection in rows]
    assert (min(counts), max(counts)) == (16, 44)
    assert 30 <= sum(counts) / len(counts) <= 50
    assert sum(selection.tokens_selected for selection in rows) / len(rows) < 0.3 * everything
