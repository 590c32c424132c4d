"""Flows: what a bridge does with which packets, and their text, such as `table=0,priority=100,tcp,tp_dst=80,actions=output:2`.

The text is read here and nowhere else. It is never given to a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.host.ovs.actions import MOST_TABLES, Actions, actions_text, parsed_actions
from toolcaddie.tools.host.ovs.fields import number
from toolcaddie.tools.host.ovs.matches import MATCH_WORDS, Match, parsed_match

DEFAULT_PRIORITY = 32768
FLAGS = {"send_flow_rem": 1, "no_packet_counts": 8, "no_byte_counts": 16}
"""Properties of a flow that Open vSwitch shows again."""
MOST_COOKIE = (1 << 64) - 1
_OPTIONS = ("table", "priority", "cookie", "idle_timeout", "hard_timeout")
_TEXT = re.compile(r"[\x20-\x7e]{1,4096}")
_FLOW = re.compile(r"(?:(.*?)[, ])?actions=(.*)")
_TOKEN = re.compile(r"([A-Za-z0-9_]{1,40})(?:=([A-Za-z0-9_.:/]{1,100}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One flow of a bridge. Table, priority and match identify it."""

    table: int = 0
    priority: int = DEFAULT_PRIORITY
    match: Match = field(default_factory=Match)
    actions: Actions = ()
    cookie: int = 0
    idle_timeout: int = 0
    hard_timeout: int = 0
    flags: tuple[str, ...] = ()
    """In the order of `FLAGS`."""

    @property
    def key(self) -> str:
        """The text of table, priority and match."""
        return ",".join(part for part in (f"table={self.table}", f"priority={self.priority}", str(self.match)) if part)

    @property
    def is_foreign(self) -> bool:
        """True: it has a field or action that is not known here, so it can be shown, but not made."""
        return bool(self.match.foreign) or any(action.verb == "unknown" for action in self.actions)

    @property
    def selection(self) -> Selection:
        """The selection of exactly this flow."""
        return Selection(table=self.table, priority=self.priority, match=self.match)

    def __str__(self) -> str:
        options = [f"cookie={self.cookie:#x}"] if self.cookie else []
        times = [f"{name}={getattr(self, name)}" for name in ("idle_timeout", "hard_timeout") if getattr(self, name)]
        return ",".join([*options, *times, *self.flags, self.key, f"actions={actions_text(self.actions)}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Flows of a bridge that are read or removed."""

    table: int | None = None
    """None: all tables."""
    priority: int | None = None
    """A number: exactly the flow with this priority and match. None: all flows whose packets are all in the match."""
    match: Match = field(default_factory=Match)
    cookie: int = 0
    cookie_mask: int = 0

    @property
    def is_wide(self) -> bool:
        """True: it does not depend on packets, so it may be all flows of a table or bridge."""
        return not self.match.terms and self.priority is None

    def includes(self, flow: Flow) -> bool:
        """Returns whether a flow that the switch has sent for this selection belongs to it: a switch is asked for flows without
        their priority, and may send its own ones, which nobody can change."""
        if flow.table > MOST_TABLES:
            return False
        return self.priority is None or (flow.priority == self.priority and flow.match == self.match)

    def __str__(self) -> str:
        options = [] if self.table is None else [f"table={self.table}"]
        if self.priority is not None:
            options.append(f"priority={self.priority}")
        if self.cookie_mask:
            options.append(f"cookie={self.cookie:#x}/{self.cookie_mask:#x}")
        return ",".join([*options, *([str(self.match)] if self.match.terms else [])])


ALL = Selection()
"""All flows of a bridge."""


def parsed_flow(text: str) -> Flow:
    """Returns the flow of a text. Raises `RequestError`, which names what is wrong."""
    _check_text(text, "flow")
    parts = _FLOW.fullmatch(text)
    if parts is None:
        raise RequestError("flow: it has no actions; end it with actions=, such as actions=output:2 or actions=drop")
    tokens = list(_tokens(parts[1] or ""))
    options = _options(tokens)
    table = number(options.get("table", "0"), MOST_TABLES, "table")
    match = parsed_match(token for token in tokens if token[0] not in _OPTIONS and token not in _FLAG_TOKENS)
    return Flow(
        table=table,
        priority=number(options.get("priority", str(DEFAULT_PRIORITY)), 0xFFFF, "priority"),
        match=match,
        actions=parsed_actions(parts[2].strip(), match, table),
        cookie=number(options.get("cookie", "0"), MOST_COOKIE, "cookie"),
        idle_timeout=number(options.get("idle_timeout", "0"), 0xFFFF, "idle_timeout"),
        hard_timeout=number(options.get("hard_timeout", "0"), 0xFFFF, "hard_timeout"),
        flags=tuple(flag for flag in FLAGS if (flag, None) in tokens),
    )


def parsed_selection(text: str) -> Selection:
    """Returns the flows that a text such as `table=0,tcp,tp_dst=80` names. Raises `RequestError`."""
    if not text.strip():
        return ALL
    _check_text(text, "match_str")
    if "actions" in text:
        raise RequestError("match_str: flows are selected by their match, not by their actions; leave actions out")
    tokens = list(_tokens(text))
    options = _options(tokens)
    for name in ("idle_timeout", "hard_timeout"):
        if name in options:
            raise RequestError(f"match_str: flows cannot be selected by {name}; use table, priority, cookie and fields")
    cookie, slash, mask = options.get("cookie", "0").partition("/")
    cookie_mask = number(mask, MOST_COOKIE, "cookie") if slash else (MOST_COOKIE if "cookie" in options else 0)
    return Selection(
        table=number(options["table"], MOST_TABLES, "table") if "table" in options else None,
        priority=number(options["priority"], 0xFFFF, "priority") if "priority" in options else None,
        match=parsed_match(token for token in tokens if token[0] not in _OPTIONS),
        cookie=number(cookie, MOST_COOKIE, "cookie") & cookie_mask,
        cookie_mask=cookie_mask,
    )


_FLAG_TOKENS = frozenset((flag, None) for flag in FLAGS)


def _check_text(text: str, what: str) -> None:
    if not _TEXT.fullmatch(text):
        raise RequestError(f"{what}: it has 1 to 4096 characters, of which each is a printable one of ASCII")


def _tokens(text: str) -> Iterator[tuple[str, str | None]]:
    """Yields the words, and the names with their values, that commas or spaces separate."""
    for part in text.replace(",", " ").split():
        match = _TOKEN.fullmatch(part)
        if match is None:
            raise RequestError(f"{part[:40]!r}: write NAME=VALUE or one of {', '.join(MATCH_WORDS)}")
        yield match[1].lower(), match[2]


def _options(tokens: list[tuple[str, str | None]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in tokens:
        if name in _OPTIONS:
            if name in options:
                raise RequestError(f"{name}: it is given twice")
            if value is None:
                raise RequestError(f"{name}: it has no value; write {name}=NUMBER")
            options[name] = value
    return options
