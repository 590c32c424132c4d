"""The sample gym's tools for the house: the eight core tools, which every request gets, and those for rooms, machines and the
fields that the gym added to its records.

Each tool is an `Operation`, which `database.py` runs. `TOOLS` has the operations by category.
"""

from __future__ import annotations

from toolcaddie.samples.gym.ids import CLIENT, EQUIPMENT, FACILITY
from toolcaddie.samples.gym.operations import (
    Operation,
    act,
    amount,
    choice,
    clock,
    create,
    day,
    figures,
    free,
    listing,
    reading,
    refuse,
    row,
    rows,
    search,
    text,
    update,
    whole,
)

PAGES = (
    "dashboard", "clients", "memberships", "attendance", "revenue", "staff", "salary", "classes", "appointments", "leads",
    "products", "equipment", "campaigns", "surveys", "settings",
)  # fmt: skip
CURRENCIES = ("USD", "EUR", "GBP", "INR", "BRL", "MXN", "JPY", "CHF")

_ROOM_KINDS = ("room", "pool", "sauna", "court", "studio", "floor")
_FACILITY_STATES = ("open", "closed", "maintenance")
_MACHINE_STATES = ("working", "needs_service", "out_of_order")

CORE: tuple[Operation, ...] = (
    act(
        "change_theme",
        "Switch the look of the gym's app between light, dark and the system's own theme.",
        "INSERT OR REPLACE INTO settings VALUES ('theme', :theme)",
        show=figures("SELECT value AS theme FROM settings WHERE key = 'theme'"),
        requires=(choice("theme", "The theme to show.", "light", "dark", "system"),),
    ),
    act(
        "navigate_to_page",
        "Open a page of the gym's app on the user's screen, for example the dashboard or the settings.",
        "INSERT OR REPLACE INTO settings VALUES ('page', :page)",
        show=figures("SELECT value AS page, '/' || value AS path FROM settings WHERE key = 'page'"),
        requires=(choice("page", "The page to open.", *PAGES),),
    ),
    reading(
        "get_gym_info",
        "Get the gym's own name, contact, opening hours, currency and today's date, with how many clients and staff it has.",
        figures(
            "SELECT (SELECT value FROM settings WHERE key = 'name') AS name,"
            " (SELECT value FROM settings WHERE key = 'email') AS email,"
            " (SELECT value FROM settings WHERE key = 'currency') AS currency,"
            " (SELECT min(opens_at) FROM branches) AS opens_at, (SELECT max(closes_at) FROM branches) AS closes_at,"
            " (SELECT count(*) FROM branches) AS branches, (SELECT count(*) FROM clients) AS clients,"
            " (SELECT count(*) FROM staff WHERE status = 'active') AS staff, today() AS today"
        ),
    ),
    reading(
        "get_branches_info",
        "List all branches of the gym with address, phone, opening hours and number of clients.",
        rows("branches", "SELECT * FROM branch_view ORDER BY name"),
    ),
    reading(
        "get_current_branch",
        "Get the branch the user is working in now, with its address and opening hours.",
        row("branch", "branch_view", "branch_id = (SELECT CAST(value AS INTEGER) FROM settings WHERE key = 'branch')"),
    ),
    create(
        "create_branch",
        "Add a new branch (location) of the gym with its name, city and address.",
        "branches",
        row("branch", "branch_view", "branch_id = :new_id"),
        requires=(
            text("name", "Name of the branch."),
            text("city", "City it is in."),
            text("address", "Street and number."),
        ),
        takes=(
            text("phone", "Phone number.", most=40),
            clock("opens_at", "When it opens."),
            clock("closes_at", "When it closes."),
        ),
        refusals=(
            refuse(
                "SELECT id FROM branches WHERE name = :name",
                "There is already a branch {name!r}; give the new one another name.",
            ),
        ),
    ),
    reading(
        "get_currencies",
        "List the currencies the gym works with, their symbols and the rate of each to one US dollar.",
        rows("currencies", "SELECT code, name, symbol, per_usd FROM currencies ORDER BY code"),
    ),
    reading(
        "convert_currency",
        "Convert an amount of money from one currency into another at the gym's stored rates.",
        figures(
            "SELECT :amount AS amount, a.code AS from_currency, b.code AS to_currency,"
            " round(b.per_usd / a.per_usd, 6) AS rate, round(:amount * b.per_usd / a.per_usd, 2) AS converted"
            " FROM currencies a, currencies b WHERE a.code = :from_currency AND b.code = :to_currency"
        ),
        requires=(
            amount("amount", "How much to convert."),
            choice("from_currency", "Currency of the amount.", *CURRENCIES),
            choice("to_currency", "Currency wanted.", *CURRENCIES),
        ),
    ),
)

FACILITIES: tuple[Operation, ...] = (
    listing(
        "get_amenities_list",
        "List the amenities members can use (lockers, towels, parking, wifi ...) with their fee and where they are.",
        "amenities",
        "amenity_view",
        search("name", "description"),
        order="name",
    ),
    listing(
        "get_facilities_list",
        "List the gym's facilities (rooms, pool, sauna, courts, studios) with capacity, hours and whether they are open.",
        "facilities",
        "facility_view",
        search("name", "description"),
        choice("kind", "Only facilities of this kind.", *_ROOM_KINDS),
        choice("status", "Only facilities in this state.", *_FACILITY_STATES),
        order="name",
    ),
    create(
        "create_facility",
        "Add a new facility such as a room, studio, court, pool or sauna.",
        "facilities",
        row("facility", "facility_view", "facility_id = :new_id"),
        requires=(text("name", "Name of the facility."), choice("kind", "What it is.", *_ROOM_KINDS)),
        takes=(
            whole("capacity", "How many people fit in.", least=1, most=10_000),
            clock("opens_at", "When it opens."),
            clock("closes_at", "When it closes."),
            text("description", "What is special about it.", most=1000),
        ),
        refusals=(
            refuse(
                "SELECT id FROM facilities WHERE name = :name",
                "There is already a facility {name!r} (facility_id {id}); change it with update_facility.",
            ),
        ),
    ),
    update(
        "update_facility",
        "Change a facility: open or close it, put it under maintenance, or change its hours, capacity or description.",
        "facilities",
        row("facility", "facility_view", "facility_id = :facility_id"),
        FACILITY,
        choice("status", "New state.", *_FACILITY_STATES),
        whole("capacity", "How many people fit in.", least=1, most=10_000),
        clock("opens_at", "When it opens."),
        clock("closes_at", "When it closes."),
        text("description", "What is special about it.", most=1000),
    ),
)

EQUIPMENT_TOOLS: tuple[Operation, ...] = (
    listing(
        "get_equipment",
        "List the gym's equipment and machines (treadmills, bikes, racks ...) with state and next service date.",
        "equipment",
        "equipment_view",
        search("name", "kind"),
        choice("status", "Only machines in this state.", *_MACHINE_STATES),
        order="name",
    ),
    listing(
        "get_upcoming_maintenance",
        "List machines whose service is due within the next days, or overdue, the most urgent first.",
        "maintenance",
        "equipment_view",
        whole(
            "days",
            "How many days ahead to look.",
            least=0,
            most=365,
            default=30,
            where="next_service_on <= date(today(), '+' || :days || ' days')",
        ),
        order="next_service_on",
    ),
    act(
        "log_equipment_maintenance",
        "Record that a machine was serviced or repaired: it is working again and its next service is set.",
        "INSERT INTO maintenance (equipment_id, day, work, cost)"
        " VALUES (:equipment_id, coalesce(:day, today()), :work, coalesce(:cost, 0))",
        "UPDATE equipment SET status = 'working', last_service_on = coalesce(:day, today()),"
        " next_service_on = date(coalesce(:day, today()), '+' || :next_in_days || ' days') WHERE id = :equipment_id",
        show=row("equipment", "equipment_view", "equipment_id = :equipment_id"),
        requires=(EQUIPMENT, text("work", "What was done.", most=500)),
        takes=(
            amount("cost", "What it cost."),
            day("day", "When it was done; today if not given."),
            whole("next_in_days", "Days until the next service.", least=1, most=3650, default=90),
        ),
        idempotent=False,
    ),
)

CUSTOM_FIELDS: tuple[Operation, ...] = (
    listing(
        "get_custom_fields",
        "List the custom fields the gym has defined for its records, with type and allowed options.",
        "custom_fields",
        "(SELECT id AS custom_field_id, entity, label, type, options FROM custom_fields)",
        choice("entity", "Only fields of this kind of record.", "client", "staff", "lead"),
        order="entity, label",
    ),
    reading(
        "get_entity_custom_values",
        "Get the values of a client's custom fields, for example shirt size or emergency contact.",
        rows(
            "custom_values",
            "SELECT f.id AS custom_field_id, f.label, v.value FROM custom_values v JOIN custom_fields f ON f.id = v.field_id"
            " WHERE f.entity = 'client' AND v.entity_id = :client_id ORDER BY f.label",
        ),
        requires=(free(CLIENT),),
    ),
)

TOOLS = {"facilities": FACILITIES, "equipment": EQUIPMENT_TOOLS, "custom_fields": CUSTOM_FIELDS}
