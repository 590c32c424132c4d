"""The rules that settings write in a word: tools that are denied or asked about, and categories, for everyone or for one bot,
role or channel. They become Cedar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from toolcaddie.control.people import ROLE
from toolcaddie.core.errors import ConfigError

Pattern = Annotated[
    str,
    Meta(
        pattern=r"(?s)^\S(.*\S)?\Z",
        description="without blanks around it: the name of a tool, or a pattern such as pay_*",
    ),
]
EffectPattern = Annotated[
    str,
    Meta(
        pattern=r"(?s)^\S(.*\S)?\Z",
        description="without blanks around it: an effect (systemd.stop sshd.service), its kind (systemd.stop), or a pattern "
        "such as systemd.*",
    ),
]
CategoryName = Annotated[
    str, Meta(pattern=r"(?s)^\S(.*\S)?\Z", description="without blanks around it: the name of a category")
]


class Restrictions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls that some callers may not make. In names of tools and in effects, `*` stands for any characters."""

    deny: tuple[Pattern, ...] = ()
    """Tools that they neither see nor call."""
    ask: tuple[Pattern, ...] = ()
    """Tools whose calls a person must approve."""
    categories: tuple[CategoryName, ...] | None = None
    """The categories whose tools they see and call; None: all."""
    deny_effects: tuple[EffectPattern, ...] = ()
    """Effects that no call of theirs may have, whichever tool has them."""
    ask_effects: tuple[EffectPattern, ...] = ()
    """Effects that a person must approve."""


_APPROVING = 'principal, action == Action::"approve", resource'
_GROUPS = {"bot": "Bot", "role": "Role", "channel": "Channel"}
"""The Cedar type of each kind of caller."""


def rules_of(
    everyone: Restrictions,
    *,
    bots: Mapping[str, Restrictions],
    roles: Mapping[str, Restrictions],
    channels: Mapping[str, Restrictions],
) -> str:
    """Returns the restrictions as Cedar. Raises `ConfigError` for a name that is no pattern."""
    rules = list(_rules("everyone", "principal", everyone))
    for kind, table in (("bot", bots), ("role", roles), ("channel", channels)):
        for name, restrictions in table.items():
            _refuse_blanks(f"policy.{kind}s", name)
            rules += _rules(f"{kind} {name}", f"principal in {_GROUPS[kind]}::{quoted(name)}", restrictions)
    return "\n".join(rules)


def approver_rule(approvers: Sequence[str] | None) -> str:
    """Returns the rule that nobody but these people may approve calls: ids of principals, and roles as `role:NAME`. None: no
    rule."""
    if approvers is None:
        return ""
    return (
        f'@id("approvers") @reason("the settings name other approvers") forbid ({_APPROVING}) '
        f"unless {{ {_people(approvers)} }};"
    )


def naming_rule(approvers: Sequence[str] | None) -> str:
    """Returns the rule that names these people as approvers, also of calls of tools that they cannot see. None: no rule."""
    return "" if approvers is None else f"permit ({_APPROVING}) when {{ {_people(approvers)} }};"


def _people(approvers: Sequence[str]) -> str:
    return " || ".join(map(_person, approvers)) or "false"


def _person(approver: str) -> str:
    role = approver.removeprefix(ROLE)
    if not role or role != role.strip():
        raise ConfigError(f"policy.approvers: {approver!r} names nobody; write the id of a principal, or role:NAME")
    return f"principal.id == {quoted(approver)}" if role == approver else f"principal in Role::{quoted(role)}"


def matching(names: Sequence[str]) -> str:
    """Returns the condition that a tool has one of these names. Raises `ConfigError` for a name that is no pattern."""
    return " || ".join(f"resource.name like {quoted(_pattern(name))}" for name in names) or "false"


def quoted(text: str) -> str:
    """Returns a string literal of Cedar."""
    return '"' + "".join(_literal(character) for character in text) + '"'


def _rules(who: str, scope: str, restrictions: Restrictions) -> Iterator[str]:
    if restrictions.deny:
        yield _rule(f"denied: {who}", "not allowed", scope, "action", matching(restrictions.deny))
    if restrictions.ask:
        action = 'action == Action::"call_unasked"'
        yield _rule(f"asked: {who}", "the settings ask about this tool", scope, action, matching(restrictions.ask))
    if restrictions.categories is not None:
        for category in restrictions.categories:
            _refuse_blanks("policy", category)
        enabled = ", ".join(quoted(category) for category in restrictions.categories)
        outside = f"!(resource has category && [{enabled}].contains(resource.category))"
        yield _rule(f"categories: {who}", "not allowed", scope, "action", outside)

    yield from _effect_rules(who, scope, restrictions)


def _effect_rules(who: str, scope: str, restrictions: Restrictions) -> Iterator[str]:
    """Yields the rules about effects. `context.effects` has the patterns that fit (`CedarPolicy`)."""
    if restrictions.deny_effects:
        condition = _having(restrictions.deny_effects)
        yield _rule(f"denied effects: {who}", "not allowed", scope, 'action == Action::"call"', condition)
    if restrictions.ask_effects:
        action, condition = 'action == Action::"call_unasked"', _having(restrictions.ask_effects)
        yield _rule(f"asked effects: {who}", "the settings ask about this effect", scope, action, condition)


def _having(effects: Sequence[str]) -> str:
    """Returns the condition that a call has one of these effects. Raises `ConfigError` for a name that is no pattern."""
    for effect in effects:
        _refuse_blanks("policy", effect)
    return f"context.effects.containsAny([{', '.join(map(quoted, effects))}])"


def _rule(name: str, reason: str, scope: str, action: str, condition: str) -> str:
    return f"@id({quoted(name)}) @reason({quoted(reason)}) forbid ({scope}, {action}, resource) when {{ {condition} }};"


def _refuse_blanks(key: str, name: str) -> None:
    """Raises `ConfigError` for a name with blanks around it, which nothing has."""
    if name != name.strip():
        raise ConfigError(f"{key}: {name!r} has blanks around it; write {name.strip()!r}")


def _pattern(name: str) -> str:
    _refuse_blanks("policy", name)
    if not name or any(character in "?[]" for character in name):
        raise ConfigError(
            f"policy: {name!r} is no name of a tool; `*` stands for any characters, and nothing else does"
        )
    return name


def _literal(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"
