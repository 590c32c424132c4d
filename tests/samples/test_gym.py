"""The gym's tools do what they say: every one of them runs, what they write is there afterwards, and nonsense is refused."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.samples.gym_values import call, example_values, practice_requests
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.schema import argument_errors
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.samples.gym import Gym, source

DAY = date(2026, 3, 18)
NAMES = tuple(tool.name for tool in source(today=DAY).tools())


def day(days: int) -> str:
    return (DAY + timedelta(days=days)).isoformat()


@pytest.fixture
def gym() -> Iterator[Gym]:
    made = source(today=DAY)
    yield made
    made.close()


def tool_of(gym: Gym, name: str) -> Tool:
    return next(tool for tool in gym.tools() if tool.name == name)


async def result_of(gym: Gym, name: str, /, **arguments: Any) -> ToolResult:
    return await gym.call_tool(tool_of(gym, name), arguments, None)  # type: ignore[arg-type]


async def refusal(gym: Gym, name: str, /, **arguments: Any) -> str:
    """Returns the message of a refused call."""
    result = await result_of(gym, name, **arguments)
    assert result.is_error, result.content
    assert result.error == "failed"
    return result.content


async def values_of(gym: Gym) -> dict[str, Any]:
    """An id of everything that has one."""
    values = await example_values(gym)
    client = values["client_id"]
    for name, tool, key, filters in (
        ("branch_id", "get_branches_info", "branches", {}),
        ("enquiry_id", "get_enquiries_list", "enquiries", {}),
        ("equipment_id", "get_equipment", "equipment", {}),
        ("offer_id", "get_offers_list", "offers", {}),
        ("referral_id", "get_referrals_list", "referrals", {}),
        ("document_id", "get_client_documents", "documents", {"client_id": client, "status": "signed"}),
        ("goal_id", "get_member_goals", "goals", {"client_id": client}),
        ("photo_id", "get_member_photos", "photos", {"client_id": client}),
        ("note_id", "get_member_notes", "notes", {"client_id": client}),
        ("class_type_id", "get_class_types", "class_types", {}),
        ("session_id", "get_class_schedule", "sessions", {}),
        ("service_id", "get_services", "services", {}),
        ("connection_id", "get_wearable_connections", "connections", {"client_id": client}),
    ):
        values[name] = (await call(gym, tool, **filters))[key][0][name]
    return {**values, "owner_id": values["staff_id"], "author_id": values["staff_id"]}


def example(name: str, schema: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """A valid argument, from the schema and the data."""
    if name.endswith("_id"):
        return values[name]
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] in ("integer", "number"):
        return schema.get("default", max(7, schema["minimum"]))
    pattern = schema.get("pattern", "")
    samples = ("tomorrow", "09:00", day(0)[:7], "SPRING5", "Newcomer")
    return next(sample for sample in samples if re.search(pattern, sample))


# The few tools whose arguments a schema alone does not give, and what must be done before.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "validate_offer_code": {"code": "{offer_code}"},
    "create_salary": {"month": "2031-01"},
    "delete_plan": {"plan_id": "{new_plan_id}"},
    "send_document_for_signature": {"template_id": "{template_id}"},
    "update_offer": {"starts_on": "today", "ends_on": "tomorrow"},
    "create_offer": {"starts_on": "today", "ends_on": "tomorrow"},
    "create_challenge": {"starts_on": "today", "ends_on": "tomorrow"},
    "get_attendance_list": {"from_date": "yesterday", "to_date": "today"},
}
BEFORE: dict[str, tuple[str, ...]] = {
    "unfreeze_membership": ("freeze_membership",),
    "check_out_client": ("check_in_client",),
}


@pytest.mark.anyio
@pytest.mark.proves(*(f"R001-K{number}" for number in range(1, 9)))
@pytest.mark.parametrize("optional", [False, True], ids=["required", "everything"])
@pytest.mark.parametrize("name", NAMES)
async def test_every_tool_runs_with_its_required_arguments_and_with_all_of_them(
    name: str, optional: bool, gym: Gym
) -> None:
    values = await values_of(gym)
    plan = await call(gym, "create_plan", name="Trial week", months=1, price=10)
    values["new_plan_id"] = plan["plan"]["plan_id"]
    for earlier in BEFORE.get(name, ()):
        await call(gym, earlier, client_id=values["client_id"])
    schema = tool_of(gym, name).input_schema
    required = schema.get("required", [])
    keys = schema["properties"] if optional else required
    if len(keys) < schema.get("minProperties", 0):
        keys = list(schema["properties"])[: schema["minProperties"]]
    arguments = {key: example(key, schema["properties"][key], values) for key in keys}
    fixed = ARGUMENTS.get(name, {}).items()
    arguments |= {key: str(value).format(**values) for key, value in fixed if key in keys}
    arguments = {key: int(value) if key.endswith("_id") else value for key, value in arguments.items()}
    assert argument_errors(schema, arguments) == []
    result = await result_of(gym, name, **arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content) == result.structured
    assert result.structured


@pytest.mark.parametrize("name", NAMES)
def test_every_tool_tells_a_model_what_it_does_and_what_it_takes(name: str, gym: Gym) -> None:
    tool = tool_of(gym, name)
    assert 40 <= len(tool.description) <= 250
    assert tool.description.endswith(".")
    assert tool.input_schema["additionalProperties"] is False
    for parameter in tool.input_schema["properties"].values():
        assert parameter["description"].endswith(".")
    assert tool.annotations.read_only is name.startswith(("get_", "validate_", "convert_currency"))
    assert tool.annotations.destructive is (name.startswith("delete_") or name == "cancel_membership")
    assert tool.annotations.open_world is False
    assert not (name.startswith(("create_", "add_", "book_")) and tool.annotations.idempotent)
    assert not (name.startswith("update_") and not tool.annotations.idempotent)


def test_no_two_tools_have_the_same_description(gym: Gym) -> None:
    assert len({tool.description for tool in gym.tools()}) == len(gym.tools())


def test_ids_and_days_have_rules_in_the_schema(gym: Gym) -> None:
    schema = tool_of(gym, "book_appointment").input_schema
    fine = {"client_id": 1, "service_id": 1, "trainer_id": 1, "day": "tomorrow", "starts_at": "09:00"}
    assert argument_errors(schema, fine) == []
    for wrong in (
        {"client_id": "1; DROP TABLE clients"},
        {"client_id": True},
        {"client_id": 10**30},
        {"day": "next week"},
        {"starts_at": "25:00"},
        {"price": 1},
    ):
        assert argument_errors(schema, {**fine, **wrong}), wrong


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_an_id_that_is_not_there_is_refused_with_the_tool_that_gives_ids(name: str, gym: Gym) -> None:
    values = await values_of(gym)
    tool = tool_of(gym, name)
    names = {each.name for each in gym.tools()}
    properties = tool.input_schema["properties"]
    for wrong in [key for key in properties if key.endswith("_id")]:
        needed = {*tool.input_schema.get("required", []), wrong}
        arguments = {key: example(key, properties[key], values) for key in needed}
        message = await refusal(gym, name, **{**arguments, wrong: 999_999})
        finder = re.fullmatch(rf"There is no {wrong} 999999; (\w+) returns the ids that exist\.", message)
        assert finder is not None, message
        assert finder[1] in names


@pytest.mark.anyio
@pytest.mark.proves("R001-E4")
async def test_john_smith_is_found_and_his_membership_frozen_and_unfrozen(gym: Gym) -> None:
    listing = await call(gym, "get_clients_list", search="John")
    assert [row["name"] for row in listing["clients"]] == ["John Smith"]
    john = listing["clients"][0]
    assert john["membership_status"] == "active"
    frozen = (await call(gym, "freeze_membership", client_id=john["client_id"], days=14))["membership"]
    assert (frozen["status"], frozen["frozen_from"], frozen["frozen_until"]) == ("frozen", day(0), day(14))
    before, after = date.fromisoformat(john["membership_ends_on"]), date.fromisoformat(frozen["ends_on"])
    assert after - before == timedelta(days=14)
    assert (await call(gym, "get_clients_list", search="smith"))["clients"][0]["membership_status"] == "frozen"
    message = await refusal(gym, "freeze_membership", client_id=john["client_id"])
    assert "John Smith's membership is frozen already, until" in message
    assert "unfreeze_membership" in message
    back = (await call(gym, "unfreeze_membership", client_id=john["client_id"]))["membership"]
    assert (back["status"], back["ends_on"]) == ("active", john["membership_ends_on"])


@pytest.mark.anyio
async def test_a_membership_is_frozen_until_a_day_that_is_given(gym: Gym) -> None:
    values = await example_values(gym)
    frozen = await call(gym, "freeze_membership", client_id=values["client_id"], until=day(5))
    assert frozen["membership"]["frozen_until"] == day(5)


@pytest.mark.anyio
async def test_freezing_until_the_past_or_what_is_not_active_is_refused(gym: Gym) -> None:
    values = await example_values(gym)
    assert "after today" in await refusal(gym, "freeze_membership", client_id=values["client_id"], until="yesterday")
    over = (await call(gym, "get_memberships_list", status="expired"))["memberships"][0]
    assert "expired" in await refusal(gym, "freeze_membership", client_id=over["client_id"])
    new = await call(gym, "create_client", name="Nobody Yet")
    message = await refusal(gym, "freeze_membership", client_id=new["client"]["client_id"])
    assert "Nobody Yet has no membership yet" in message


@pytest.mark.anyio
async def test_a_new_client_buys_a_membership_renews_it_cancels_it_and_the_payments_count(gym: Gym) -> None:
    values = await example_values(gym)
    client = (await call(gym, "create_client", name="Nadja Newcomer"))["client"]["client_id"]
    assert "give a plan_id" in await refusal(gym, "renew_membership", client_id=client)
    revenue = (await call(gym, "get_revenue_stats"))["total"]
    first = (await call(gym, "renew_membership", client_id=client, plan_id=values["plan_id"]))["membership"]
    assert (first["starts_on"], first["ends_on"]) == (day(0), "2026-04-17")
    second = (await call(gym, "renew_membership", client_id=client))["membership"]
    assert second["starts_on"] == "2026-04-18"
    assert (await call(gym, "get_revenue_stats"))["total"] == revenue + 2 * first["price"]
    assert (await call(gym, "get_membership_sales", from_date="today"))["total"] == 2
    cancelled = (await call(gym, "cancel_membership", client_id=client, reason="moved"))["membership"]
    assert cancelled["status"] == "cancelled"
    assert "cancelled already" in await refusal(gym, "cancel_membership", client_id=client)


@pytest.mark.anyio
async def test_who_came_today_is_who_was_checked_in(gym: Gym) -> None:
    values = await example_values(gym)
    client = values["client_id"]
    before = await call(gym, "get_attendance_today", limit=100)
    await call(gym, "check_in_client", client_id=client, time="08:30")
    after = await call(gym, "get_attendance_today", limit=100)
    assert after["total"] == before["total"] + 1
    assert client in [row["client_id"] for row in after["attendance"]]
    assert "is checked in since 08:30" in await refusal(gym, "check_in_client", client_id=client)
    assert (await call(gym, "check_out_client", client_id=client))["attendance"]["checked_out_at"]
    assert "is not checked in" in await refusal(gym, "check_out_client", client_id=client)
    assert (await call(gym, "get_attendance_stats", days=1))["visits"] == after["total"]


@pytest.mark.anyio
async def test_clients_who_stayed_away_are_absent_and_at_risk(gym: Gym) -> None:
    absent = (await call(gym, "get_absent_clients", days=14))["absent_clients"]
    assert absent
    assert all((row["last_visit"] or "") <= day(-14) for row in absent)
    alerts = (await call(gym, "get_churn_alerts", risk="high", limit=100))["alerts"]
    away = (await call(gym, "get_absent_clients", days=30))["absent_clients"]
    assert {row["client_id"] for row in away} == {row["client_id"] for row in alerts}


# What makes a row, the list in which it shows then, the list's name, and how the new row is told.
CREATED: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("create_branch", "get_branches_info", {}, "branches"),
    ("create_client", "get_clients_list", {"limit": 100}, "clients"),
    ("create_enquiry", "get_enquiries_list", {"limit": 100}, "enquiries"),
    ("create_staff", "get_staff_list", {"limit": 100}, "staff"),
    ("create_salary", "get_salaries_list", {"limit": 100}, "salaries"),
    ("create_facility", "get_facilities_list", {}, "facilities"),
    ("create_diet", "get_diet_plans", {}, "diets"),
    ("create_plan", "get_membership_plans", {}, "plans"),
    ("create_offer", "get_offers_list", {}, "offers"),
    ("create_lead", "get_leads_list", {}, "leads"),
    ("add_lead_follow_up", "get_lead_follow_ups", {}, "follow_ups"),
    ("create_referral", "get_referrals_list", {}, "referrals"),
    ("send_document_for_signature", "get_unsigned_documents", {}, "documents"),
    ("create_goal", "get_member_goals", {"client_id": "{client_id}"}, "goals"),
    ("create_goal_milestone", "get_goal_details", {"goal_id": "{goal_id}"}, "milestones"),
    ("create_member_note", "get_member_notes", {"client_id": "{client_id}"}, "notes"),
    ("book_class_session", "get_session_bookings", {"client_id": "{client_id}"}, "bookings"),
    ("book_appointment", "get_appointments_list", {"client_id": "{client_id}"}, "appointments"),
    ("create_challenge", "get_challenges", {}, "challenges"),
    ("join_challenge", "get_challenge_leaderboard", {"challenge_id": "{challenge_id}"}, "leaderboard"),
    ("create_survey", "get_surveys", {}, "surveys"),
)


@pytest.mark.anyio
@pytest.mark.parametrize(("create", "listing", "templates", "key"), CREATED, ids=[row[0] for row in CREATED])
async def test_what_was_created_is_in_the_list(
    create: str, listing: str, templates: dict[str, Any], key: str, gym: Gym
) -> None:
    values = await values_of(gym)
    filters = {
        name: int(value.format(**values)) if isinstance(value, str) else value for name, value in templates.items()
    }
    schema = tool_of(gym, create).input_schema
    arguments = {name: example(name, schema["properties"][name], values) for name in schema["required"]}
    arguments |= {name: value for name, value in ARGUMENTS.get(create, {}).items() if "{" not in value}
    before = (await call(gym, listing, **filters))[key]
    (made,) = (await call(gym, create, **arguments)).values()
    after = (await call(gym, listing, **filters))[key]
    assert [row for row in after if row not in before] == [made]


@pytest.mark.anyio
async def test_updates_change_the_fields_given_and_no_others(gym: Gym) -> None:
    values = await values_of(gym)
    before = (await call(gym, "get_client_details", client_id=values["client_id"]))["client"]
    changed = (await call(gym, "update_client", client_id=values["client_id"], phone="555-1"))["client"]
    assert changed == {**before, "phone": "555-1"}
    assert (await call(gym, "get_client_details", client_id=values["client_id"]))["client"] == changed


UPDATED: tuple[tuple[str, dict[str, Any], str, Any], ...] = (
    ("deactivate_client", {}, "status", "inactive"),
    ("assign_client_trainer", {"trainer_id": "{trainer_id}"}, "trainer_id", "{trainer_id}"),
    ("update_enquiry", {"status": "closed"}, "status", "closed"),
    ("update_staff", {"monthly_salary": 4321}, "monthly_salary", 4321),
    ("update_salary", {"bonus": 77}, "bonus", 77),
    ("pay_salary", {}, "status", "paid"),
    ("update_facility", {"status": "closed"}, "status", "closed"),
    ("assign_diet", {"diet_id": "{diet_id}"}, "diet_id", "{diet_id}"),
    ("update_plan", {"price": 75}, "price", 75),
    ("update_offer", {"discount_percent": 33}, "discount_percent", 33),
    ("update_lead", {"value": 999}, "value", 999),
    ("update_lead_stage", {"stage": "trial"}, "stage", "trial"),
    ("update_referral_status", {"status": "rewarded"}, "status", "rewarded"),
    ("update_goal_progress", {"current_value": 62}, "current_value", 62),
    ("complete_goal", {}, "status", "reached"),
    ("update_product_stock", {"stock": 40}, "stock", 40),
    ("log_equipment_maintenance", {"work": "New belt", "next_in_days": 10}, "next_service_on", day(10)),
    ("disconnect_wearable", {}, "status", "disconnected"),
)


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "change", "field", "expected"), UPDATED, ids=[row[0] for row in UPDATED])
async def test_a_change_is_in_the_answer_and_stays_when_it_is_made_again(
    name: str, change: dict[str, Any], field: str, expected: Any, gym: Gym
) -> None:
    values = await values_of(gym)
    tool = tool_of(gym, name)
    ids = {key: values[key] for key in tool.input_schema["required"] if key.endswith("_id")}
    arguments = {**ids, **{key: values.get(str(value)[1:-1], value) for key, value in change.items()}}
    answer = await call(gym, name, **arguments)
    row = next((value for value in answer.values() if isinstance(value, dict)), answer)
    assert row[field] == values.get(str(expected)[1:-1], expected)
    again = await result_of(gym, name, **arguments)
    assert again.structured == answer or again.is_error


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("delete_client", "client_id"),
        ("delete_staff", "staff_id"),
        ("delete_offer", "offer_id"),
        ("delete_lead", "lead_id"),
        ("delete_goal", "goal_id"),
        ("delete_member_note", "note_id"),
    ],
)
async def test_what_was_deleted_is_gone(name: str, key: str, gym: Gym) -> None:
    values = await values_of(gym)
    assert await call(gym, name, **{key: values[key]}) == {key: values[key], "status": "deleted"}
    assert f"There is no {key} {values[key]}" in await refusal(gym, name, **{key: values[key]})


@pytest.mark.anyio
async def test_a_plan_that_was_sold_is_not_deleted(gym: Gym) -> None:
    values = await example_values(gym)
    message = await refusal(gym, "delete_plan", plan_id=values["plan_id"])
    assert "update_plan" in message


@pytest.mark.anyio
async def test_a_lead_becomes_a_client_once(gym: Gym) -> None:
    values = await example_values(gym)
    client = (await call(gym, "convert_lead", lead_id=values["lead_id"]))["client"]
    assert client["name"] == values["lead"]
    lead = (await call(gym, "get_lead_details", lead_id=values["lead_id"]))["lead"]
    assert (lead["stage"], lead["client_id"]) == ("won", client["client_id"])
    assert "converted already" in await refusal(gym, "convert_lead", lead_id=values["lead_id"])


@pytest.mark.anyio
async def test_a_salary_is_paid_once_and_leaves_the_pending_ones(gym: Gym) -> None:
    values = await example_values(gym)
    pending = (await call(gym, "get_pending_salaries"))["total"]
    assert (await call(gym, "pay_salary", salary_id=values["salary_id"]))["salary"]["paid_on"] == day(0)
    assert (await call(gym, "get_pending_salaries"))["total"] == pending - 1
    assert f"paid on {day(0)} already" in await refusal(gym, "pay_salary", salary_id=values["salary_id"])


@pytest.mark.anyio
async def test_a_reward_costs_points_and_nobody_redeems_what_they_cannot_afford(gym: Gym) -> None:
    values = await example_values(gym)
    client, reward = values["client_id"], values["reward_id"]
    points = (await call(gym, "get_loyalty_points", client_id=client))["balance"]["points"]
    done = await call(gym, "redeem_reward", client_id=client, reward_id=reward)
    assert done["points_left"] == points - done["cost"]
    for _ in range(points // done["cost"] - 1):
        await call(gym, "redeem_reward", client_id=client, reward_id=reward)
    assert "points and" in await refusal(gym, "redeem_reward", client_id=client, reward_id=reward)


@pytest.mark.anyio
async def test_a_full_or_past_class_and_a_second_place_are_refused(gym: Gym) -> None:
    clients = (await call(gym, "get_clients_list", limit=100))["clients"]
    session = (await call(gym, "get_class_schedule", from_date="tomorrow"))["sessions"][0]
    booked = 0
    while booked < session["capacity"] - session["booked"]:
        client = clients.pop()["client_id"]
        result = await result_of(gym, "book_class_session", client_id=client, session_id=session["session_id"])
        booked += not result.is_error
        assert not result.is_error or "already" in result.content
    again = await refusal(gym, "book_class_session", client_id=client, session_id=session["session_id"])
    assert "has a place" in again
    new = (await call(gym, "create_client", name="Late Comer"))["client"]["client_id"]
    assert "is full" in await refusal(gym, "book_class_session", client_id=new, session_id=session["session_id"])
    past = (await call(gym, "get_class_schedule", from_date=day(-3), to_date="yesterday"))["sessions"][0]
    assert "is over" in await refusal(gym, "book_class_session", client_id=new, session_id=past["session_id"])


@pytest.mark.anyio
async def test_a_free_slot_can_be_booked_once(gym: Gym) -> None:
    values = await values_of(gym)
    slot = (await call(gym, "get_available_slots", day="tomorrow"))["slots"][0]
    place = {key: slot[key] for key in ("trainer_id", "day", "starts_at")}
    who = {"client_id": values["client_id"], "service_id": values["service_id"]}
    await call(gym, "book_appointment", **who, **place)
    assert "is taken" in await refusal(gym, "book_appointment", **who, **place)
    free = await call(gym, "get_available_slots", day="tomorrow", limit=100)
    assert slot not in free["slots"]
    assert "full hours" in await refusal(gym, "book_appointment", **who, **{**place, "starts_at": "09:30"})
    assert "is over" in await refusal(gym, "book_appointment", **who, **{**place, "day": "yesterday"})


@pytest.mark.anyio
async def test_an_offer_code_is_valid_expired_or_unknown(gym: Gym) -> None:
    assert (await call(gym, "validate_offer_code", code=" summer20 "))["verdict"] == "valid"
    assert (await call(gym, "validate_offer_code", code="NEWYEAR30"))["verdict"] == "not valid: expired"
    assert "no offer with the code 'FREEBIE'" in await refusal(gym, "validate_offer_code", code="FREEBIE")
    message = await refusal(gym, "create_offer", code="SUMMER20", title="Again", discount_percent=5)
    assert "is taken" in message


@pytest.mark.anyio
async def test_a_signed_document_is_a_pdf_and_an_unsigned_one_is_none_yet(gym: Gym) -> None:
    values = await values_of(gym)
    document = await call(gym, "get_signed_document_pdf", document_id=values["document_id"])
    content = base64.b64decode(document["pdf_base64"])
    assert content.startswith(b"%PDF-1.4\n")
    assert content.endswith(b"%%EOF\n")
    unsigned = (await call(gym, "get_unsigned_documents"))["documents"][0]
    assert "has not signed" in await refusal(gym, "get_signed_document_pdf", document_id=unsigned["document_id"])


@pytest.mark.anyio
async def test_a_goal_is_reached_when_its_value_is(gym: Gym) -> None:
    values = await example_values(gym)
    made = await call(
        gym, "create_goal", client_id=values["client_id"], title="Lighter", start_value=90, target_value=80
    )
    goal = made["goal"]["goal_id"]
    half = (await call(gym, "update_goal_progress", goal_id=goal, current_value=85))["goal"]
    assert (half["percent_done"], half["status"]) == (50.0, "open")
    assert (await call(gym, "update_goal_progress", goal_id=goal, current_value=79))["goal"]["status"] == "reached"


@pytest.mark.anyio
async def test_money_is_converted_at_the_stored_rates(gym: Gym) -> None:
    there = await call(gym, "convert_currency", amount=100, from_currency="USD", to_currency="EUR")
    assert there["converted"] == 92.0
    back = await call(gym, "convert_currency", amount=92, from_currency="EUR", to_currency="USD")
    assert back["converted"] == 100.0


@pytest.mark.anyio
async def test_settings_of_the_app_are_kept(gym: Gym) -> None:
    assert await call(gym, "change_theme", theme="dark") == {"theme": "dark"}
    assert await call(gym, "navigate_to_page", page="leads") == {"page": "leads", "path": "/leads"}
    info = await call(gym, "get_gym_info")
    assert (info["today"], info["branches"]) == (day(0), 2)


@pytest.mark.anyio
@pytest.mark.parametrize("search", ["john", "JOHN SMITH", "smith joh", "John's", "john.smith@example.com", "Jöhn"])
async def test_a_person_is_found_by_any_part_in_any_case(search: str, gym: Gym) -> None:
    listing = await call(gym, "get_clients_list", search=search)
    assert [row["name"] for row in listing["clients"]] == ["John Smith"]


@pytest.mark.anyio
async def test_a_list_comes_in_pages_with_its_total(gym: Gym) -> None:
    everything = await call(gym, "get_clients_list", limit=100)
    pages = [await call(gym, "get_clients_list", limit=10, offset=offset) for offset in range(0, 40, 10)]
    assert [row for page in pages for row in page["clients"]] == everything["clients"]
    assert {page["total"] for page in pages} == {len(everything["clients"])}


HOSTILE = (
    "'; DROP TABLE clients; --",
    '" OR 1=1 --',
    "%' OR '1'='1",
    "Robert'); DELETE FROM clients;--",
    "{client_id}",
    "{0.__class__}",
    "🏋️ \u0627\u0633\u0645 \u202egnp",
    "x" * 150,
)


@pytest.mark.anyio
@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_text_is_text(words: str, gym: Gym) -> None:
    clients = (await call(gym, "get_clients_list"))["total"]
    assert (await call(gym, "get_clients_list", search=words))["total"] in (0, clients, 1)
    made = (await call(gym, "create_client", name=words))["client"]
    assert made["name"] == words
    assert (await call(gym, "get_clients_list"))["total"] == clients + 1
    assert "There is already" in await refusal(
        gym,
        "create_facility",
        name=(await call(gym, "create_facility", name=words, kind="room"))["facility"]["name"],
        kind="room",
    )


@pytest.mark.anyio
@pytest.mark.parametrize(("words", "message"), [("\ud800", "Unicode"), ("a\0b", "NUL"), ("   ", "blank")])
async def test_text_that_is_no_text_is_refused(words: str, message: str, gym: Gym) -> None:
    assert message in await refusal(gym, "create_client", name=words)


@pytest.mark.anyio
async def test_a_day_that_does_not_exist_and_a_number_that_is_none_are_refused(gym: Gym) -> None:
    values = await example_values(gym)
    message = await refusal(gym, "add_lead_follow_up", lead_id=values["lead_id"], due_on="2026-02-31")
    assert "no day '2026-02-31'" in message
    assert "must be a number" in await refusal(gym, "update_plan", plan_id=values["plan_id"], price=float("nan"))


@pytest.mark.anyio
async def test_a_refused_call_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gym.db"
    gym = source(str(path), today=DAY)
    values = await example_values(gym)
    before = "\n".join(sqlite3.connect(path).iterdump())
    await refusal(gym, "redeem_reward", client_id=values["client_id"], reward_id=1)
    await refusal(gym, "renew_membership", client_id=values["client_id"], plan_id=1)
    await refusal(gym, "create_plan", name="Monthly", months=1, price=1)
    assert "\n".join(sqlite3.connect(path).iterdump()) == before
    gym.close()


@pytest.mark.anyio
async def test_calls_at_the_same_time_do_not_lose_a_write(gym: Gym) -> None:
    before = (await call(gym, "get_clients_list"))["total"]
    async with anyio.create_task_group() as group:
        for number in range(60):
            group.start_soon(lambda n=number: call(gym, "create_client", name=f"Twin {n}"))
            group.start_soon(lambda: call(gym, "get_client_stats"))
    assert (await call(gym, "get_clients_list", search="Twin"))["total"] == 60
    assert (await call(gym, "get_clients_list"))["total"] == before + 60


@pytest.mark.anyio
async def test_a_tool_the_gym_never_had_is_answered_as_revoked(gym: Gym) -> None:
    result = await gym.call_tool(Tool(name="get_rich"), {}, None)  # type: ignore[arg-type]
    assert (result.is_error, result.error) == (True, "revoked")


def test_the_tools_make_a_catalog_that_is_the_same_every_time(gym: Gym) -> None:
    versions = {Catalog.of(each.tools(), each.categories()).version for each in (gym, source(seed=3), source())}
    assert len(versions) == 1


@pytest.mark.anyio
async def test_the_same_seed_and_day_give_the_same_gym_and_another_seed_another_one(gym: Gym) -> None:
    assert source(today=DAY).people() == gym.people()
    assert await example_values(source(today=DAY)) == await example_values(gym)
    other = source(today=DAY, seed=1).people()
    assert len({person.name for person in other} & {person.name for person in gym.people()}) < 5
    assert {(person.kind, person.id) for person in other} != {(person.kind, person.id) for person in gym.people()}


@pytest.mark.parametrize("seed", range(5))
def test_a_first_name_finds_one_person(seed: int) -> None:
    gym = source(today=DAY, seed=seed)
    words = [(person, word.lower()) for person in gym.people() for word in person.name.split()]
    for person in gym.people():
        first = person.name.split()[0].lower()
        assert {owner.name for owner, word in words if word.startswith(first)} == {person.name}


@pytest.mark.anyio
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 50])
@pytest.mark.parametrize("today", [date(2024, 2, 29), date(2025, 12, 31), date(2026, 1, 1), None])
async def test_the_thirty_everyday_requests_can_be_carried_out_in_every_gym(seed: int, today: date | None) -> None:
    gym = source(today=today, seed=seed)
    requests = practice_requests(await example_values(gym))
    assert [request.category for request in requests] == [category.name for category in gym.categories()]
    for request in requests:
        for name, arguments in request.expect:
            assert tool_of(gym, name).category == request.category
            assert argument_errors(tool_of(gym, name).input_schema, dict(arguments)) == []
            await call(gym, name, **arguments)
    gym.close()


@pytest.mark.anyio
async def test_a_gym_lives_on_the_day_it_is_told(gym: Gym) -> None:
    today = await call(gym, "get_attendance_today", limit=100)
    assert today["total"] > 5
    assert {row["day"] for row in today["attendance"]} == {day(0)}
    real = source()
    assert (await call(real, "get_gym_info"))["today"] == date.today().isoformat()
    assert (await call(real, "get_attendance_today"))["total"] > 5


@pytest.mark.anyio
async def test_a_gym_in_a_file_is_there_again_and_moves_on_with_the_calendar(tmp_path: Path) -> None:
    path = str(tmp_path / "gym.db")
    first = source(path, today=DAY)
    await call(first, "create_client", name="Perma Nent")
    first.close()
    second = source(path, today=DAY + timedelta(days=1), seed=9)
    assert (await call(second, "get_clients_list", search="Perma"))["total"] == 1
    assert (await call(second, "get_attendance_today"))["total"] == 0
    assert (await call(second, "get_clients_list", search="John Smith"))["total"] == 1
    second.close()


def test_a_file_of_something_else_or_out_of_reach_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    text = tmp_path / "letter.txt"
    text.write_text("Dear Sir or Madam, " * 500)
    for path in (other, text, tmp_path / "nowhere" / "gym.db"):
        with pytest.raises(ConfigError, match=re.escape(path.name)):
            source(str(path))
    assert text.read_text().startswith("Dear Sir")


def test_an_empty_gym_file_of_a_broken_start_is_filled_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "gym.db"
    path.touch()
    assert len(source(str(path), today=DAY).people()) > 50
