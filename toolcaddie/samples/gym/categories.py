"""The gym's 30 categories. Their keywords are in `keywords/`, one file per language."""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterable
from importlib.resources import files

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError

LANGUAGES = ("en", "es", "pt")
ALL_LANGUAGES = "all"


def read_categories(language: str = "en") -> tuple[Category, ...]:
    """Returns the categories in catalog order with the keywords of one language, or of all languages. Raises `ConfigError` for an
    unknown language."""
    if language not in (*LANGUAGES, ALL_LANGUAGES):
        raise ConfigError(
            f"the gym has no keywords in {language!r}; choose one of {', '.join((*LANGUAGES, ALL_LANGUAGES))}"
        )
    languages = LANGUAGES if language == ALL_LANGUAGES else (language,)
    lists = [_keywords_in(code) for code in languages]
    return tuple(
        Category(
            name=name,
            description=description,
            keywords=_merged(keywords[name] for keywords in lists),
            related=_RELATED.get(name, ()),
            default=name in _DEFAULTS,
        )
        for name, description in _CATEGORIES.items()
    )


_CATEGORIES = {
    "clients": "Clients (members): find, register, change, activate, count them.",
    "memberships": "Memberships: list, freeze, renew, cancel, figures.",
    "attendance": "Who came and who stayed away; check in and out.",
    "revenue": "Income and membership sales.",
    "trainers": "Trainers and how busy they are.",
    "enquiries": "Questions of people who might join.",
    "staff": "Employees.",
    "salary": "Salaries: due, paid, payroll figures.",
    "facilities": "Rooms, pool, sauna, courts, and amenities.",
    "diets": "Diet and nutrition plans.",
    "plans": "Membership plans and their prices.",
    "offers": "Discounts and promo codes.",
    "leads": "The sales pipeline: possible customers and follow-ups.",
    "referrals": "Friends whom clients brought.",
    "documents": "Waivers, contracts, and what clients signed.",
    "goals": "Clients' fitness goals, progress, milestones.",
    "photos": "Clients' progress photos.",
    "notes": "Notes about clients.",
    "classes": "Group classes: kinds, schedule, bookings.",
    "appointments": "Appointments with trainers: services, free times, bookings.",
    "guests": "Visits of guests and trial visitors.",
    "products": "The shop: products and stock.",
    "campaigns": "Marketing campaigns and their results.",
    "equipment": "Machines and their maintenance.",
    "custom_fields": "Fields the gym added to its records.",
    "engagement": "How engaged clients are, and who may leave.",
    "gamification": "Challenges and leaderboards.",
    "loyalty": "Loyalty points and rewards.",
    "wearables": "Watches and trackers, and what they measured.",
    "surveys": "Surveys and their results.",
}

_RELATED = {
    "clients": ("memberships", "attendance"),
    "salary": ("staff",),
    "trainers": ("staff",),
    "appointments": ("trainers", "clients"),
    "classes": ("clients",),
    "leads": ("clients", "enquiries"),
    "plans": ("offers",),
    "memberships": ("clients",),
    "goals": ("clients",),
    "photos": ("clients",),
    "notes": ("clients",),
    "documents": ("clients",),
}

_DEFAULTS = frozenset({"clients", "memberships", "attendance", "revenue", "plans", "trainers", "enquiries"})


def _keywords_in(language: str) -> dict[str, list[str]]:
    return tomllib.loads(files(__package__).joinpath("keywords", f"{language}.toml").read_text(encoding="utf-8"))


def _merged(lists: Iterable[list[str]]) -> tuple[str, ...]:
    """Returns each keyword once, and each without its accents, as many people type it."""
    keywords = [keyword for keywords in lists for keyword in keywords]
    return tuple(dict.fromkeys(form for keyword in keywords for form in (keyword, _unaccented(keyword))))


def _unaccented(keyword: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFD", keyword) if not unicodedata.combining(letter))
