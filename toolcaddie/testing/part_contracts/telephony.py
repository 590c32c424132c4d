"""Checks of a telephony provider. A part under test rings no real telephone: it speaks to a server of the test.

Part of the contract suite `TELEPHONY` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

from toolcaddie.ports import CallOrder, PlacedCall, RefusedCall, Telephony
from toolcaddie.testing.contract import Checks, expect
from toolcaddie.testing.part_contracts.services import (
    NO_SECONDS,
    SECONDS,
    answer_of,
    expect_cancellation,
    expect_end,
    expect_name,
    expect_use_after_close,
)
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Telephony]] = Checks()

ORDER = CallOrder(
    to="+525587654321", caller="+525512345678", message="The library opens at nine.", language="es-MX", voice=""
)
"""The call of all checks: any server of a test lets this number be called from that one."""

_ODD = (
    "</Say><Dial>+15005550006</Dial><Say>\"'&amp;",
    "]]><!-- <?x?> &#0; &lol;",
    "¿qué tal? 会员 \U0001f600",
    "x" * 1_000,
)


async def _placed(provider: Telephony, order: CallOrder = ORDER) -> PlacedCall | RefusedCall:
    return await answer_of(provider.place(order, seconds=SECONDS))


@CHECKS.add()
async def its_name_is_a_text(subject: Subject[Telephony]) -> None:
    expect_name(subject.make().name)


@CHECKS.add()
async def a_call_is_placed_with_an_id_of_its_own(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    outcomes = [await _placed(provider) for _ in range(2)]
    await provider.close()
    ids = {outcome.id for outcome in outcomes if isinstance(outcome, PlacedCall)}
    expect(len(ids) == 2 and all(ids), f"two calls gave {outcomes!r:.200}")


@CHECKS.add()
async def any_message_is_read_or_the_call_is_refused(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    for message in _ODD:
        order = CallOrder(to=ORDER.to, caller=ORDER.caller, message=message, language="es-MX", voice="", loop=3)
        outcome = await _placed(provider, order)
        expect(isinstance(outcome, PlacedCall | RefusedCall), f"the outcome is {outcome!r:.100}")
    await provider.close()


@CHECKS.add()
async def a_number_that_cannot_be_called_is_refused_with_a_reason(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    order = CallOrder(to="+0", caller=ORDER.caller, message="hello", language="en-US", voice="")
    outcome = await _placed(provider, order)
    await provider.close()
    expect(isinstance(outcome, RefusedCall), f"a call of +0 gave {outcome!r:.200}")
    expect(bool(getattr(outcome, "reason", "")), "a refused call has no reason")


@CHECKS.add()
async def a_call_without_time_ends_soon_and_is_not_said_to_be_refused(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    await expect_end(provider.place(ORDER, seconds=NO_SECONDS))
    await provider.close()


@CHECKS.add()
async def a_cancelled_call_is_cancelled(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    await expect_cancellation(provider.place(ORDER, seconds=SECONDS))
    await provider.close()


@CHECKS.add()
async def a_report_that_nobody_signed_is_none(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    for parameters in ({}, {"CallSid": "CA0", "CallStatus": "completed"}, {"x": "\x00" * 99}):
        for headers in ({}, {"x-twilio-signature": ""}, {"authorization": "Basic x"}):
            for url in ("https://example.com/report?call=1", "", "http://[::1", "https://example.com:x/"):
                report = provider.report(url, parameters, headers)
                expect(report is None, f"it believed {parameters!r} with the headers {headers!r}")
    await provider.close()


@CHECKS.add()
async def it_can_be_closed_twice_and_used_again(subject: Subject[Telephony]) -> None:
    provider = subject.make()
    await expect_use_after_close(provider, lambda: _placed(provider))
