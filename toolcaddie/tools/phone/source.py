"""The source `phone`: the tool `phone_call`, and what a person sees of a call before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import Field

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import OutboundError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import digest
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.ports import CallOrder, RefusedCall, Telephony
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.phone.calls import CallBook, CallRow
from toolcaddie.tools.phone.contacts import Contacts, key_of, name_of
from toolcaddie.tools.phone.judging import Judge
from toolcaddie.tools.phone.line import Line
from toolcaddie.tools.phone.numbers import masked
from toolcaddie.tools.phone.rules import Rules, spoken
from toolcaddie.tools.phone.targets import Target, Targets, number_of
from toolcaddie.util.log import Logger

log = Logger(__name__)

NAME = "phone_call"
MOST_LOOPS = 3

Action = Literal["call", "add_contact", "list_contacts", "remove_contact"]

_GRACE = 5.0
"""Seconds after which a call of the tool is given up from outside, after the service's time is over."""
_REPORT_KEY = "call"
"""The parameter of the address for reports that names the row of the call."""


class PhoneSource:
    """Implements `ports.OpenableSource` and `ports.AssessingSource`."""

    name = "phone"
    claims = frozenset({NAME})

    def __init__(
        self, telephony: Telephony, *, line: Line, rules: Rules, contacts: Contacts, targets: Targets, book: CallBook
    ) -> None:
        self._telephony = telephony
        self._line = line
        self._rules = rules
        self._contacts = contacts
        self._targets = targets
        self._book = book
        judge = Judge(line, rules, contacts, targets)
        category = Category(
            name="phone",
            description="Call people on the telephone.",
            keywords=("phone", "telephone", "call", "ring", "contact", "teléfono", "llamar", "llamada", "contacto"),
        )
        function = tool(
            self.phone_call,
            destructive=True,
            open_world=True,
            category="phone",
            hints=("dial", "voice", "tell by phone"),
            idempotency_key="idempotency_key",
            timeout=line.timeout + _GRACE,
        )
        self._functions = FunctionSource(self.name, [function], [category], claims=[NAME], assess=judge.assess)

    @property
    def revision(self) -> int:
        return self._functions.revision

    def tools(self) -> Sequence[Tool]:
        return self._functions.tools()

    def categories(self) -> Sequence[Category]:
        return self._functions.categories()

    async def open(self) -> None:
        """Does nothing: a connection is made for each call."""

    async def close(self) -> None:
        await self._telephony.close()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return await self._functions.call_tool(tool, arguments, context)

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        return await self._functions.assess(tool, arguments, context)

    def reported_to(self, path: str, query: str) -> str:
        """Returns the public address, with its query, of a request that a server received at a path. Empty: reports of this
        source go to another path."""
        address = urlsplit(self._line.report_to)
        return address._replace(query=query).geturl() if self._line.report_to and address.path == path else ""

    async def report(self, url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        """Takes what the service has sent to the address for reports; see `Telephony.report`. Returns False for a request that
        the service did not send, or that is about no known call."""
        report = self._telephony.report(url, parameters, headers)
        if report is None:
            return False
        keys = parse_qs(urlsplit(url).query).get(_REPORT_KEY, [])
        return len(keys) == 1 and len(keys[0]) <= 64 and await self._book.reported(keys[0], report)

    # --- the tool ------------------------------------------------------------------------------------------------------

    async def phone_call(
        self,
        context: RunContext,
        action: Action,
        contact: Annotated[
            str,
            Field(description="Name of a contact, or a number that begins with +. For call, empty: the default number"),
        ] = "",
        message: Annotated[str, Field(description="For call: what is read to the person who answers")] = "",
        phone_number: Annotated[
            str, Field(description="For add_contact: the number, with + and the country code")
        ] = "",
        loop: Annotated[int, Field(ge=1, le=MOST_LOOPS, description="How often the message is read")] = 1,
        idempotency_key: Annotated[str, Field(max_length=200, description="Leave this out")] = "",
    ) -> ToolResult:
        """Call a person on the telephone and read a message aloud, or keep contacts. A call rings a real phone and costs
        money. If it is not known whether a call was made, do not make it again.
        """
        try:
            match action:
                case "call":
                    target = await self._targets.of(context.principal, contact, phone_number)
                    return await self._called(context, target, spoken(message), loop, idempotency_key)
                case "add_contact":
                    return await self._added(context, name_of(contact), number_of(phone_number, "phone_number"))
                case "remove_contact":
                    return await self._removed(context, name_of(contact))
                case "list_contacts":
                    return await self._listed(context)
        except RequestError as error:
            return failed(str(error), "invalid_arguments")

    async def _called(self, context: RunContext, target: Target, message: str, loop: int, key: str) -> ToolResult:
        if problem := self._rules.problem(target.number, message):
            return failed(problem, "denied")
        if not key:
            raise RequestError("idempotency_key: a call without one cannot be kept from being made twice")
        bot, day = key_of(context.principal), self._rules.day()
        row_key = digest([bot, key])
        content = digest([target.number, message, loop])
        earlier = await self._book.begin(row_key, content)
        if earlier is not None:
            return _repeated(earlier, content, target)
        if limit := await self._book.count(day, bot, target.number):
            await self._book.refused(row_key, limit)
            return failed(f"The call was not made: {limit}.", "denied")
        order = CallOrder(
            to=target.number,
            caller=self._line.caller,
            message=message,
            language=self._line.language,
            voice=self._line.voice,
            loop=loop,
            seconds=self._rules.limits.seconds_per_call,
            report_to=_with_key(self._line.report_to, row_key),
        )
        try:
            outcome = await self._telephony.place(order, seconds=self._line.timeout)
        except OutboundError as error:
            problem = _without_number(str(error), target)
            log.warning("phone_call_unknown", call=row_key, number=masked(target.number), problem=problem)
            return _unknown(target, problem)
        if isinstance(outcome, RefusedCall):
            reason = _without_number(outcome.reason, target)
            await self._book.refused(row_key, reason)
            await self._book.uncount(day, bot, target.number)
            return failed(f"{target.public} was not called: {reason}")
        await self._book.placed(row_key, outcome.id)
        return ToolResult(
            content=f"Calling {target.public}. Whether somebody answers is not known yet.",
            structured={"status": "placed", "id": outcome.id},
        )

    async def _added(self, context: RunContext, name: str, number: str) -> ToolResult:
        await self._contacts.add(context.principal, name, number)
        return ToolResult(content=f"Saved the contact {name} ({masked(number)}).")

    async def _removed(self, context: RunContext, name: str) -> ToolResult:
        if await self._contacts.remove(context.principal, name):
            return ToolResult(content=f"Removed the contact {name}.")
        raise await self._targets.unknown(context.principal, name)

    async def _listed(self, context: RunContext) -> ToolResult:
        numbers = await self._contacts.all(context.principal)
        lines = [f"- {name} ({masked(number)})" for name, number in sorted(numbers.items())]
        return ToolResult(content="\n".join(lines) or "There are no contacts yet; add_contact saves one.")


def _with_key(address: str, key: str) -> str:
    """Returns the address for reports with the key of a call's row."""
    return address and f"{address}{'&' if '?' in address else '?'}{_REPORT_KEY}={key}"


def _without_number(text: str, target: Target) -> str:
    """Returns the words of a service without the number, which it may repeat."""
    return text.replace(target.number, masked(target.number))


def _unknown(target: Target, problem: str) -> ToolResult:
    return failed(
        f"It is not known whether {target.public} was called: {problem}. Do not call again; tell the person.",
        "unknown_outcome",
    )


def _repeated(row: CallRow, content: str, target: Target) -> ToolResult:
    """Returns the result of a call that was begun before with the same key. It is not made again."""
    if row.order != content:
        return failed("idempotency_key: another call has this key; leave it out", "invalid_arguments")
    match row.status:
        case "placed":
            length = "" if row.seconds is None else f" after {row.seconds} s"
            report = f" It is {row.report}{length}." if row.report else ""
            return ToolResult(
                content=f"This call of {target.public} was made already, and not again.{report}",
                structured={"status": "placed", "id": row.id},
            )
        case "refused":
            return failed(f"{target.public} was not called: {row.reason}")
        case "unknown":
            return _unknown(target, "an earlier attempt had no answer")
