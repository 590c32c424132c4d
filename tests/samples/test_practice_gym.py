"""The practice model on the gym: through the whole runtime, with other people and ids for every seed."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.practice import attempts
from tests.samples.gym_values import example_values
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.runtime import Runtime
from toolcaddie.samples.gym import Gym, source
from toolcaddie.samples.gym.names import first_names, last_names
from toolcaddie.samples.practice import PracticeModel

pytestmark = pytest.mark.anyio

DAY = date(2026, 3, 18)
ROOM = Path(__file__).parents[2] / "toolcaddie" / "samples" / "practice"


def _runtime(gym: Gym, preset: str = "default") -> Runtime:
    return Runtime(provider=PracticeModel(today=lambda: DAY), sources=[gym], model="practice", preset=preset)


def _calls(result: RunResult) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for message in result.messages for call in message.tool_calls]


@pytest.mark.proves("R001-E4")
async def test_freezing_the_membership_of_the_only_john_takes_two_calls() -> None:
    gym = source(today=DAY)
    result = await _runtime(gym).run("freeze John's membership")
    john = next(person for person in gym.people() if person.name.startswith("John "))
    assert _calls(result) == [
        ("get_clients_list", {"search": "John"}),
        ("freeze_membership", {"client_id": john.id}),
    ]
    assert "practice model" in result.text
    assert json.loads(result.messages[-2].text)["membership"]["status"] == "frozen"


@pytest.mark.parametrize("seed", range(1, 6))
async def test_whoever_the_people_are_their_membership_is_frozen_in_two_calls(seed: int) -> None:
    gym = source(today=DAY, seed=seed)
    values = await example_values(gym)
    result = await _runtime(gym).run(f"freeze {values['client'].split()[0]}'s membership")
    assert _calls(result)[-1] == ("freeze_membership", {"client_id": values["client_id"]})
    assert len(_calls(result)) == 2


@pytest.mark.proves("R001-E6")
async def test_the_first_one_of_a_list_shown_before_is_found_again() -> None:
    runtime = _runtime(source(today=DAY))
    question = Message(role="user", content="show me all active clients")
    listing = await runtime.run(RunRequest(messages=[question]))
    first = json.loads(listing.messages[-2].text)["clients"][0]
    follow_up = Message(role="user", content="freeze the first one")
    result = await runtime.run(RunRequest(messages=[question, *listing.messages, follow_up]))
    assert _calls(result) == [("freeze_membership", {"client_id": first["client_id"]})]


async def test_a_question_about_a_week_is_answered_by_the_tool_that_takes_its_days() -> None:
    """Source: README's own example, which was answered with the kinds of classes instead of the week's schedule."""
    runtime = _runtime(source(today=DAY))
    result = await runtime.run("which classes are there this week?")
    monday = DAY - timedelta(days=DAY.weekday())
    days = {"from_date": monday.isoformat(), "to_date": (monday + timedelta(days=6)).isoformat()}
    assert _calls(result) == [("get_class_schedule", days)]


@pytest.mark.parametrize("seed", range(5))
async def test_of_thirty_everyday_requests_nearly_all_are_done(seed: int) -> None:
    """The issue asks for 24; what is reached is printed by `python -m benchmarks.practice`."""
    made = await attempts(seed)
    wrong = [f"{attempt.request.request}: {attempt.wrong}" for attempt in made if attempt.wrong]
    assert len(made) == 30
    assert len({attempt.request.category for attempt in made}) == 30
    assert len(wrong) <= 6, "\n".join(wrong)
    assert all("practice model" in attempt.answer for attempt in made)
    assert [attempt.answer for attempt in made if attempt.unsupported_claims] == []


async def test_with_the_compact_tools_alone_it_finds_and_executes() -> None:
    gym = source(today=DAY)
    result = await _runtime(gym, "compact").run("freeze John's membership for 10 days")
    assert result.tool_calls[-1] == "freeze_membership"
    assert "practice model" in result.text


def test_its_source_names_no_tool_category_or_person_of_the_gym() -> None:
    gym = source(today=DAY)
    words = {tool.name for tool in gym.tools()}
    words |= {category.name for category in gym.categories()}
    words |= {name for name, _ in first_names()} | set(last_names())
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOM.iterdir()) if path.is_file())
    names = [word for word in words if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)]
    assert names == []
