"""Bots and roles as an operator configures them: the tools of each, and a check of the names in their settings.

A bot is one of several assistants behind the same server; every request is made by one of them. A role is a group of callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolcaddie.core.bots import GROUP_OF, GROUPS, Mode, names_in
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.key_limits import Money
from toolcaddie.core.numbers import Positive
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names, did_you_mean

log = Logger(__name__)

NOT_IN_COLLABORATION = ("delegation", "collaboration", "soul", "goals", "phone", "cron", "create_tool", "improve")
"""Groups that a bot does not have when another bot asks it, unless its settings for the mode name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTools:
    """Restrictions of a bot's tools in one mode, in addition to those of the bot."""

    groups: tuple[str, ...] | None = None
    """Groups of built-in tools that exist in this mode; None: all of the bot's, but in collaboration none that changes the bot or
    begins something: see `NOT_IN_COLLABORATION`."""
    disabled_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBudget:
    """The largest amounts that all runs of a bot may use in a day, from midnight to midnight in UTC; None: no limit."""

    requests: Positive | None = None
    tokens: Positive | None = None
    dollars: Money | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """A bot: who it is, and which tools and categories it may use."""

    description: str = ""
    """A sentence for people and other bots."""
    skills: tuple[str, ...] = ()
    """Words for what it is good at, for other bots."""
    model: str | None = None
    """`provider:model`, or a model of the configured provider; None: that of the settings."""
    persona: str | None = None
    """The folder from which its persona files are read when it has none yet; None: it begins without files."""
    language: Literal["en", "es"] = "en"
    """Language of the instructions in its system prompt, and of what its channels say themselves."""
    groups: tuple[str, ...] | None = None
    """Groups of built-in tools that it may use; None: all. Other tools are not restricted by them."""
    disabled_tools: tuple[str, ...] = ()
    modes: Mapping[Mode, ModeTools] = field(default_factory=dict)
    """Further restrictions in the modes `conversation`, `collaboration` and `autonomous`."""
    budget: DayBudget = DayBudget()
    categories: tuple[str, ...] | None = None
    """Enabled categories; None: all. Tools of other categories are not loaded, listed, searched or run."""
    expandable_categories: tuple[str, ...] | None = None
    """Categories that its model may ask for with `request_more_tools`; None: all it may see."""

    def removes(self, tool: str, category: str | None, mode: Mode, *, key: str) -> str:
        """Returns the setting that keeps a tool from the bot in a mode. `key`: the table of the bot. If none does, it is a
        restriction of the tool itself or a rule of the policy."""
        rules, group = self.modes.get(mode, ModeTools()), GROUP_OF.get(tool)
        if tool in self.disabled_tools:
            return f"{key}.disabled_tools"
        if tool in rules.disabled_tools:
            return f"{key}.modes.{mode}.disabled_tools"
        if group is not None and self.groups is not None and group not in self.groups:
            return f"{key}.groups"
        if group is not None and rules.groups is not None and group not in rules.groups:
            return f"{key}.modes.{mode}.groups"
        if mode == "collaboration" and rules.groups is None and group in NOT_IN_COLLABORATION:
            return f"{key}.modes.collaboration.groups does not name {group}"
        if self.categories is not None and category not in self.categories:
            return f"{key}.categories"
        return "restricted by the tool or the policy"


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
        for name, bot in self._bots.items():
            for key, groups in _groups_of(f"bots.{name}", bot):
                _check_groups(key, groups)
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

    def model_of(self, principal: Principal) -> str | None:
        """Returns the model of the principal's bot; None: it has none of its own."""
        return None if (bot := self.of(principal)) is None else bot.model

    @property
    def all(self) -> Mapping[str, Bot]:
        """The configured bots by name, in the order of the settings."""
        return self._bots

    def disabled_tools(self, principal: Principal, mode: Mode = "conversation") -> frozenset[str]:
        """Returns the names of the tools that the principal's bot may not use in a mode."""
        bot = self.of(principal)
        return frozenset() if bot is None else _disabled(bot, mode)

    def rule_of(self, tool: str, principal: Principal) -> str:
        """Returns the setting that forbids a tool to the principal's bot."""
        bot = self.of(principal)
        return f"bots.{principal.bot}.{'groups' if bot is not None and tool not in bot.disabled_tools else 'disabled_tools'}"

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
            for mode, rules in bot.modes.items():
                yield from unknown_tools(f"bots.{name}.modes.{mode}.disabled_tools", rules.disabled_tools, catalog)
            yield from _unknown_categories(f"bots.{name}.categories", bot.categories, catalog)
            yield from _unknown_categories(f"bots.{name}.expandable_categories", bot.expandable_categories, catalog)
        for name, role in self._roles.items():
            yield from _unknown_categories(f"roles.{name}.expandable_categories", role.expandable_categories, catalog)


def _groups_of(key: str, bot: Bot) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the groups of a bot's settings, each with its key."""
    yield f"{key}.groups", bot.groups or ()
    for mode, rules in bot.modes.items():
        yield f"{key}.modes.{mode}.groups", rules.groups or ()


def _check_groups(key: str, groups: Sequence[str]) -> None:
    for group in groups:
        if group not in GROUPS:
            raise ConfigError(f"{key}: there is no group {group[:64]!r}; {did_you_mean(group, list(GROUPS))}")


def _disabled(bot: Bot, mode: Mode) -> frozenset[str]:
    rules = bot.modes.get(mode, ModeTools())
    disabled = frozenset((*bot.disabled_tools, *rules.disabled_tools))
    for groups in (bot.groups, rules.groups):
        if groups is not None:
            disabled |= frozenset(GROUP_OF) - names_in(groups)
    if mode == "collaboration" and rules.groups is None:
        disabled |= names_in(NOT_IN_COLLABORATION)
    return disabled


def unknown_bot(name: str, bots: Iterable[str]) -> str:
    return f"there is no bot {name[:64]!r}{_suggestion(name, bots)}"


def unknown_tools(key: str, names: Iterable[str], catalog: Catalog) -> Iterator[str]:
    """Yields a sentence for each name that no tool has. Reserved names pass, because built-in tools may be disabled."""
    for name in names:
        if catalog.position(name) is None and name not in RESERVED_NAMES:
            existing = dict.fromkeys((*(tool.name for tool in catalog), *RESERVED_NAMES))
            yield f"{key}: there is no tool {name[:64]!r}{_suggestion(name, existing)}"


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
