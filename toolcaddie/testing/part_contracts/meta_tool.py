"""Checks of the definition of a meta tool, a tool about tools. They do not call the meta tool, because its answer needs a run.

Part of the contract suite `META_TOOL` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

from toolcaddie.core.catalog import check_tool
from toolcaddie.core.schema import wire_definition
from toolcaddie.ports.meta import CallWrapper, MetaOffer, MetaTool
from toolcaddie.ports.programs import ProgramTool
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

AnyMetaTool = MetaTool | CallWrapper | ProgramTool
"""A `MetaTool` answers a call itself, by `answer()`. A call of a `CallWrapper`, such as `execute_tool`, stands for the call of
another tool, which `unwrapped()` returns. A call of a `ProgramTool` contains a program, which `code()` returns."""

CHECKS: Checks[Subject[AnyMetaTool]] = Checks()

_OFFERS = (MetaOffer(), MetaOffer(categories=("clients", "invoices")))


@CHECKS.add()
async def its_definition_is_a_valid_tool_of_its_own_name(subject: Subject[AnyMetaTool]) -> None:
    tool = subject.make()
    for offer in _OFFERS:
        definition = tool.definition(offer)
        check_tool(definition)
        expect_equal(definition.name, tool.name, "the name in the definition")
        expect(
            bool(definition.description.strip()),
            "the definition has no description, so a model cannot know when to call it",
        )


@CHECKS.add()
async def the_same_offer_gives_the_same_definition(subject: Subject[AnyMetaTool]) -> None:
    for offer in _OFFERS:
        first, second = subject.make().definition(offer), subject.make().definition(offer)
        expect_equal(
            wire_definition(second),
            wire_definition(first),
            "the definition for an equal offer (it is part of the cached prompt)",
        )


@CHECKS.add()
async def it_answers_or_stands_for_a_call_or_has_a_program(subject: Subject[AnyMetaTool]) -> None:
    tool = subject.make()
    expect(
        sum(hasattr(tool, name) for name in ("answer", "unwrapped", "code")) == 1,
        "it must have one of answer(), unwrapped() and code(), and only one",
    )
