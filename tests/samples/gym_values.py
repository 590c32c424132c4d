"""Values out of a gym's data for tests: found through the gym's own tools, so that no test knows a person or an id."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcaddie.samples.gym import Gym

PRACTICE = Path(__file__).parents[1] / "data" / "practice.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PracticeRequest:
    """A message of a person and the calls for it, in order; further read-only calls between them are fine."""

    category: str
    request: str
    expect: tuple[tuple[str, Mapping[str, Any]], ...]


async def call(gym: Gym, name: str, /, **arguments: Any) -> Any:
    """The answer of a tool; a failure fails the test."""
    tool = next(tool for tool in gym.tools() if tool.name == name)
    result = await gym.call_tool(tool, arguments, None)  # type: ignore[arg-type]
    assert not result.is_error, f"{name}({arguments}): {result.content}"
    return result.structured


async def example_values(gym: Gym) -> dict[str, Any]:
    """A value for every placeholder of practice.jsonl.

    The client is active with an active membership, is not in the gym today, and neither booked a class nor joined a challenge.
    """
    here = {row["client_id"] for row in (await call(gym, "get_attendance_today", limit=100))["attendance"]}
    running = (await call(gym, "get_challenges", status="running"))["challenges"]
    boards = [await call(gym, "get_challenge_leaderboard", challenge_id=row["challenge_id"]) for row in running]
    competing = {row["client_id"] for board in boards for row in board["leaderboard"]}
    clients = (await call(gym, "get_clients_list", status="active", membership_status="active", limit=100))["clients"]
    candidates = [row for row in clients if row["client_id"] not in here | competing]
    bookings = [await call(gym, "get_session_bookings", client_id=row["client_id"]) for row in candidates]
    client = next(row for row, booked in zip(candidates, bookings, strict=True) if not booked["total"])
    salary = (await call(gym, "get_pending_salaries"))["salaries"][0]
    lead = (await call(gym, "get_leads_list", stage="new"))["leads"][0]
    trainer = (await call(gym, "get_trainers_list"))["trainers"][0]
    values: dict[str, Any] = {
        "client": client["name"],
        "client_id": client["client_id"],
        "staff": salary["staff"],
        "staff_id": salary["staff_id"],
        "salary_id": salary["salary_id"],
        "lead": lead["name"],
        "lead_id": lead["lead_id"],
        "trainer": trainer["name"],
        "trainer_id": trainer["trainer_id"],
    }
    for word, tool, key, filters in (
        ("facility", "get_facilities_list", "facilities", {"status": "open"}),
        ("diet", "get_diet_plans", "diets", {}),
        ("plan", "get_membership_plans", "plans", {"search": "Monthly"}),
        ("template", "get_document_templates", "templates", {"search": "Photo consent"}),
        ("product", "get_products", "products", {"kind": "drink"}),
        ("campaign", "get_campaigns", "campaigns", {"status": "running"}),
        ("challenge", "get_challenges", "challenges", {"status": "running"}),
        ("reward", "get_available_rewards", "rewards", {"client_id": client["client_id"]}),
    ):
        row = (await call(gym, tool, **filters))[key][0]
        values[word], values[f"{word}_id"] = row["name"], row[f"{word}_id"]
    survey = (await call(gym, "get_surveys"))["surveys"][0]
    values["survey"], values["survey_id"] = survey["title"], survey["survey_id"]
    values["offer_code"] = (await call(gym, "get_offers_list", status="running"))["offers"][0]["code"]
    return values


def practice_requests(values: Mapping[str, Any]) -> list[PracticeRequest]:
    """The thirty requests, with these people and ids in them."""
    lines = [json.loads(line) for line in PRACTICE.read_text(encoding="utf-8").splitlines()]
    return [
        PracticeRequest(
            category=line["category"],
            request=line["request"].format(**values),
            expect=tuple(
                (step["tool"], {name: _filled(value, values) for name, value in step["arguments"].items()})
                for step in line["expect"]
            ),
        )
        for line in lines
    ]


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """`"{client_id}"` becomes the number itself, not its text."""
    is_placeholder = isinstance(value, str) and value.startswith("{") and value.endswith("}")
    return values[value[1:-1]] if is_placeholder else value
