"""The attack `python -m security worlds`, smaller."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from security import worlds
from security.goals import Goal
from toolcaddie import Message, Principal, RunRequest, Runtime, tool
from toolcaddie.testing import ScriptedProvider


@pytest.fixture(scope="module")
def goals() -> Sequence[Goal]:
    return worlds.played(24)


def test_hidden_tools_are_not_named_do_not_run_and_change_no_answer_in_random_worlds(goals: Sequence[Goal]) -> None:
    for goal in goals:
        assert goal.met, goal.line()


def test_tags_narrow_what_a_role_shows() -> None:
    @tool(tags=("inside",))
    def freeze() -> None:
        """Freezes a membership."""

    @tool(roles=("admin",))
    def delete() -> None:
        """Deletes a membership."""

    request = RunRequest(messages=[Message(role="user", content="hi")], principal=Principal(id="ann"), tags=["inside"])
    runtime = Runtime(provider=ScriptedProvider([]), sources=[freeze, delete])
    assert [each.name for each in runtime.view(request)] == ["freeze"]
