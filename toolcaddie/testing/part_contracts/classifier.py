"""Checks of a classifier, which names the categories of a conversation. They do not test whether it names the right ones.

Part of the contract suite `CLASSIFIER` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.message import Message
from toolcaddie.core.selection import Classification
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.ports import Classifier
from toolcaddie.testing.contract import Checks, ContractError, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Classifier]] = Checks()

_CATALOG = Catalog.of(
    [
        Tool(name="find_client", description="Find a client.", category="clients", source="contract"),
        Tool(name="send_invoice", description="Send an invoice.", category="invoices", source="contract"),
    ],
    [Category(name="clients", keywords=("client",)), Category(name="invoices", keywords=("invoice",))],
)
_ALL = View(catalog=_CATALOG)
_CLIENTS, _INVOICES, _NOTHING = (View(catalog=_CATALOG, mask=mask) for mask in (b"\1\0", b"\0\1", b"\0\0"))

_CALL = ToolCall(id="call_1", name="find_client", arguments="{}")
_CONVERSATIONS: tuple[tuple[Message, ...], ...] = (
    (Message(role="user", content="send an invoice to the client"),),
    (Message(role="user", content=""),),
    (Message(role="user", content="client " * 5_000),),
    (Message(role="system", content="be brief"), Message(role="assistant", content="How can I help?")),
    (
        Message(role="user", content="which client is it?"),
        Message(role="assistant", tool_calls=(_CALL,)),
        Message(role="tool", tool_call_id=_CALL.id, content="client 7"),
        Message(role="user", content="Überweisung prüfen 会员"),
    ),
)


def _names_of(answer: Sequence[str] | Classification) -> list[str]:
    """Returns the names in an answer. Raises `ContractError` if it has the wrong type."""
    names = answer.categories if isinstance(answer, Classification) else answer
    is_list = isinstance(names, Sequence) and not isinstance(names, str | bytes)
    if not is_list or not all(isinstance(name, str) for name in names):
        raise ContractError(f"it answered {answer!r}, neither a list of category names nor a Classification")
    return list(names)


@CHECKS.add()
async def it_answers_every_conversation_with_a_list_of_names_or_a_classification(subject: Subject[Classifier]) -> None:
    classifier = subject.make()
    for messages in _CONVERSATIONS:
        _names_of(await classifier(messages, _ALL))


@CHECKS.add()
async def it_names_only_categories_that_the_caller_may_see(subject: Subject[Classifier]) -> None:
    classifier = subject.make()
    for view in (_ALL, _CLIENTS, _INVOICES, _NOTHING):
        for messages in _CONVERSATIONS:
            others = set(_names_of(await classifier(messages, view))) - set(view.category_names())
            expect(not others, f"it named {sorted(others)}; the caller may see {list(view.category_names())}")


@CHECKS.add()
async def the_conversation_stays_as_it_was(subject: Subject[Classifier]) -> None:
    for messages in _CONVERSATIONS:
        conversation = list(messages)
        await subject.make()(conversation, _ALL)
        expect_equal(conversation, list(messages), "the conversation after it was classified")


@CHECKS.add()
async def conversations_side_by_side_get_answers_of_their_own(subject: Subject[Classifier]) -> None:
    classifier = subject.make()
    views = [_CLIENTS, _INVOICES] * 4
    try:
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*(classifier(_CONVERSATIONS[0], view) for view in views))
    except TimeoutError as error:
        raise ContractError("eight conversations at once were not answered within 60 s") from error
    for view, answer in zip(views, answers, strict=True):
        others = set(_names_of(answer)) - set(view.category_names())
        expect(not others, f"it named {sorted(others)} to a caller who may see {list(view.category_names())}")


@CHECKS.add()
async def a_cancelled_call_is_cancelled(subject: Subject[Classifier]) -> None:
    task = asyncio.ensure_future(subject.make()(_CONVERSATIONS[0], _ALL))
    await asyncio.sleep(0)
    if task.done():
        task.result()
        return
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    if not task.cancelled():
        cause = task.exception() if task.done() else None
        raise ContractError("it caught the cancellation of its caller and did not raise it again") from cause


@CHECKS.add()
async def closing_it_works_before_and_after_a_call(subject: Subject[Classifier]) -> None:
    for is_used in (False, True):
        classifier = subject.make()
        close = getattr(classifier, "close", None)
        if close is None:
            return
        if is_used:
            await classifier(_CONVERSATIONS[0], _ALL)
        await close()
