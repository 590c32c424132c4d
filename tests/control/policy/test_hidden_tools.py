"""The attack `python -m security worlds`, smaller."""

from __future__ import annotations

from security import worlds
from toolcaddie import Message, Principal, RunRequest, Runtime, tool
from toolcaddie.testing import ScriptedProvider


def test_hidden_tools_leave_no_trace_in_random_worlds() -> None:
    for goal in worlds.played(24):
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
