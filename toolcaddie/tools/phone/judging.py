"""The judgement of a call of the tool before it runs: whether a person must be asked, and what that person reads."""

from __future__ import annotations

from typing import Any

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolAnnotations
from toolcaddie.tools.phone.contacts import Contacts, name_of
from toolcaddie.tools.phone.line import Line
from toolcaddie.tools.phone.numbers import country_of
from toolcaddie.tools.phone.rules import Rules, spoken
from toolcaddie.tools.phone.targets import Target, Targets, number_of

_READING = ToolAnnotations(read_only=True, destructive=False, open_world=False)
_ADDING = ToolAnnotations(read_only=False, destructive=False, open_world=False)
_CHANGING = ToolAnnotations(read_only=False, destructive=True, open_world=False)
_RINGING = ToolAnnotations(read_only=False, destructive=True, idempotent=False, open_world=True)
_ALLOWED = ToolAnnotations(read_only=False, destructive=False, idempotent=False, open_world=True)


class Judge:
    """Judges calls of the tool. What it says to a person has whole numbers: nobody can approve a call of "•••678"."""

    def __init__(self, line: Line, rules: Rules, contacts: Contacts, targets: Targets) -> None:
        self._line = line
        self._rules = rules
        self._contacts = contacts
        self._targets = targets

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns what a person must know about a call, or why it would fail: nobody is asked about a call that fails."""
        try:
            return await self._judged(context, **arguments)
        except RequestError as error:
            return Assessment(refusal=str(error))

    async def _judged(
        self,
        context: RunContext,
        action: str,
        contact: str = "",
        message: str = "",
        phone_number: str = "",
        loop: int = 1,
        **rest: Any,
    ) -> Assessment:
        if action == "list_contacts":
            return Assessment(annotations=_READING)
        if action == "call":
            target = await self._targets.of(context.principal, contact, phone_number)
            return self._judged_call(context, target, spoken(message), loop)
        name, numbers = name_of(contact), await self._contacts.all(context.principal)
        if action == "remove_contact":
            if name not in numbers:
                raise await self._targets.unknown(context.principal, name)
            return Assessment(annotations=_CHANGING, preview=f"Removes the contact {name}, {numbers[name]}.")
        number, before = number_of(phone_number, "phone_number"), numbers.get(name)
        if before in (None, number) and not _is_tainted(context):
            return Assessment(annotations=_ADDING, preview=f"Saves the contact {name}, {number}.")
        instead = "" if before is None else f" in place of {before}"
        return Assessment(annotations=_CHANGING, preview=f"Saves the contact {name}, {number}{instead}.")

    def _judged_call(self, context: RunContext, target: Target, message: str, loop: int) -> Assessment:
        """Returns the judgement of a call: a person is asked, unless the operator allows the number, nothing untrusted was read,
        and a person takes part in the run."""
        if problem := self._rules.problem(target.number, message):
            return Assessment(refusal=problem)
        is_allowed = self._rules.is_allowed(target.number) and not _is_tainted(context)
        limits, who = self._rules.limits, f"{target.name}, " if target.name else ""
        preview = (
            f"Calls {who}{target.number} ({country_of(target.number)}) from {self._line.caller} and reads aloud, "
            f"{'once' if loop == 1 else f'{loop} times'}, in {self._line.language}:\n\n{message}\n\n"
            f"It costs at most ${limits.dollars_per_call:.2f}: {limits.minutes} min at ${limits.price_per_minute:.2f}."
        )
        return Assessment(
            annotations=_ALLOWED if is_allowed and context.mode == "conversation" else _RINGING, preview=preview
        )


def _is_tainted(context: RunContext) -> bool:
    return bool(context.taint or context.inherited.taint)
