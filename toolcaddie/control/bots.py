"""Bots and roles as an operator configures them: the tools of each, and a check of the names in their settings.

A bot is one of several assistants behind the same server; every request is made by one of them. A role is a group of callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names

log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """Tools and categories that one bot may use."""

    disabled_tools: tuple[str, ...] = ()
    categories: tuple[str, ...] | None = None
    """Enabled categories; None: all. Tools of other categories are not loaded, listed, searched or run."""
    expandable_categories: tuple[str, ...] | None = None
    """Categories that its model may ask for with `request_more_tools`; None: all it may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Categories that the model may ask for if a caller has this role."""

    expandable_categories: tuple[str, ...] | None = None
    """Categories that the model may ask for with `request_more_tools`; None: all the caller may see."""


class Bots:
    """The configured bots and roles, and the categories enabled for everyone.

    If there are bots, every request is made by one of them: the bot it names, or `default`. Raises `ConfigError` for a
    default that is no bot.
    """

    def __init__(
        self,
        bots: Mapping[str, Bot] | None = None,
        roles: Mapping[str, Role] | None = None,
        *,
        default: str | None = None,
        categories: Sequence[str] | None = None,
        expandable: Sequence[str] | None = None,
    ) -> None:
        self._bots = dict(bots or {})
        self._roles = dict(roles or {})
        if default is not None and default not in self._bots:
            raise ConfigError(f"default_bot: there is no bot {default!r}{_suggestion(default, self._bots)}")
        self._default = default
        self._categories = categories
        self._expandable = expandable
        self._checked_catalog: Catalog | None = None

    def identified(self, principal: Principal) -> Principal:
        """Returns the principal with its bot. Raises `RequestError` for an unknown bot, and for no bot without a default."""
        if not self._bots or principal.bot in self._bots:
            return principal
        if principal.bot is not None:
            raise RequestError(unknown_bot(principal.bot, self._bots), param="bot", code="unknown_bot")
        if self._default is None:
            raise RequestError(
                "the request names no bot; name one (a key made with --bot, --bot on the command line, `Principal(bot=...)` "
                "in Python), or set default_bot",
                param="bot",
                code="unknown_bot",
            )
        return replace(principal, bot=self._default)

    def of(self, principal: Principal) -> Bot | None:
        """Returns the settings of the principal's bot; None: there are none."""
        return None if principal.bot is None else self._bots.get(principal.bot)

    def disabled_tools(self, principal: Principal) -> frozenset[str]:
        bot = self.of(principal)
        return frozenset(bot.disabled_tools if bot else ())

    def categories(self, principal: Principal) -> frozenset[str] | None:
        """Returns the categories enabled both for everyone and for this bot; None: all."""
        bot = self.of(principal)
        return _common(self._categories, bot.categories if bot else None)

    def expandable(self, principal: Principal, preset: Sequence[str] | None) -> frozenset[str] | None:
        """Returns the categories that preset, bot and role all let a model ask for; None: all that the caller may see."""
        if not self._bots and not self._roles:
            return None if preset is None else frozenset(preset)
        bot = self.of(principal)
        role = None if principal.role is None else self._roles.get(principal.role)
        return _common(preset, bot.expandable_categories if bot else None, role.expandable_categories if role else None)

    def check(self, catalog: Catalog) -> None:
        """Raises `ConfigError` for every configured name that neither a tool nor a category has.

        With an empty catalog there is no check, because a gateway may serve only the tools of its clients.
        """
        self._checked_catalog = catalog
        if len(catalog) and (unknown := list(self._unknown_names(catalog))):
            raise ConfigError("\n".join(unknown))

    def notice(self, catalog: Catalog) -> None:
        """Logs what `check` would raise, after the sources have changed: requests in progress must not fail."""
        if catalog is self._checked_catalog:
            return
        self._checked_catalog = catalog
        for unknown in self._unknown_names(catalog):
            log.warning("setting_names_nothing", problem=unknown)

    def _unknown_names(self, catalog: Catalog) -> Iterator[str]:
        """Yields a sentence for each configured name that neither a tool nor a category has."""
        yield from _unknown_categories("catalog.categories", self._categories, catalog)
        yield from _unknown_categories("selection.expandable_categories", self._expandable, catalog)
        for name, bot in self._bots.items():
            yield from unknown_tools(f"bots.{name}.disabled_tools", bot.disabled_tools, catalog)
            yield from _unknown_categories(f"bots.{name}.categories", bot.categories, catalog)
            yield from _unknown_categories(f"bots.{name}.expandable_categories", bot.expandable_categories, catalog)
        for name, role in self._roles.items():
            yield from _unknown_categories(f"roles.{name}.expandable_categories", role.expandable_categories, catalog)


def unknown_bot(name: str, bots: Iterable[str]) -> str:
    return f"there is no bot {name[:64]!r}{_suggestion(name, bots)}"


def unknown_tools(key: str, names: Iterable[str], catalog: Catalog) -> Iterator[str]:
    """Yields a sentence for each name that no tool has. Reserved names pass, because built-in tools may be disabled."""
    for name in names:
        if catalog.position(name) is None and name not in RESERVED_NAMES:
            yield f"{key}: there is no tool {name[:64]!r}{_suggestion(name, (tool.name for tool in catalog))}"


def _unknown_categories(key: str, names: Iterable[str] | None, catalog: Catalog) -> Iterator[str]:
    for name in names or ():
        if catalog.category(name) is None:
            existing = (category.name for category in catalog.categories)
            yield f"{key}: there is no category {name[:64]!r}{_suggestion(name, existing)}"


def _suggestion(name: str, names: Iterable[str]) -> str:
    close = close_names(name, names)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""


def _common(*limits: Sequence[str] | None) -> frozenset[str] | None:
    """Returns the names that all of the limits allow; None: there is no limit."""
    sets = [frozenset(limit) for limit in limits if limit is not None]
    return frozenset.intersection(*sets) if sets else None
