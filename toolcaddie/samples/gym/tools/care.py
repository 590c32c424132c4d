"""The sample gym's tools for the care of clients: diets, documents, goals, photos, notes, classes, appointments, wearables.

Each tool is an `Operation`, which `database.py` runs. `TOOLS` has the operations by category.
"""

from __future__ import annotations

from toolcaddie.samples.gym.ids import (
    AUTHOR,
    CLASS_TYPE,
    CLIENT,
    CONNECTION,
    DIET,
    DOCUMENT,
    GOAL,
    NOTE,
    PHOTO,
    SERVICE,
    SESSION,
    TEMPLATE,
    TRAINER,
)
from toolcaddie.samples.gym.operations import (
    Operation,
    act,
    amount,
    choice,
    clock,
    create,
    day,
    days_back,
    figures,
    listing,
    reading,
    refuse,
    remove,
    row,
    rows,
    search,
    text,
    whole,
)

_AIMS = ("lose_weight", "build_muscle", "stay_fit", "endurance")

DIETS: tuple[Operation, ...] = (
    listing(
        "get_diet_plans",
        "List diet (nutrition) plans with aim and calories a day; find one by name or aim.",
        "diets",
        "diet_view",
        search("name", "description"),
        choice("aim", "Only diets with this aim.", *_AIMS),
        order="name",
    ),
    reading(
        "get_diet_plan_details",
        "Get one diet plan with its meals and the clients who follow it.",
        row("diet", "diet_view", "diet_id = :diet_id"),
        rows("meals", "SELECT meal, dish, calories FROM diet_meals WHERE diet_id = :diet_id ORDER BY id"),
        rows(
            "followed_by",
            "SELECT c.id AS client_id, c.name, a.starts_on FROM diet_assignments a JOIN clients c ON c.id = a.client_id"
            " WHERE a.diet_id = :diet_id ORDER BY c.name",
        ),
        requires=(DIET,),
    ),
    create(
        "create_diet",
        "Create a new diet (nutrition) plan with aim and calories a day.",
        "diets",
        row("diet", "diet_view", "diet_id = :new_id"),
        requires=(
            text("name", "Name of the diet."),
            choice("aim", "What it is for.", *_AIMS),
            whole("calories", "Calories a day.", least=500, most=10_000),
        ),
        takes=(text("description", "What it is about.", most=2000),),
        refusals=(
            refuse(
                "SELECT id FROM diets WHERE name = :name",
                "There is already a diet {name!r} (diet_id {id}); use another name.",
            ),
        ),
    ),
    act(
        "assign_diet",
        "Put a client on a diet plan from today, in place of any other one.",
        "INSERT OR REPLACE INTO diet_assignments (client_id, diet_id, starts_on) VALUES (:client_id, :diet_id, today())",
        show=figures(
            "SELECT c.id AS client_id, c.name AS client, d.id AS diet_id, d.name AS diet, a.starts_on FROM diet_assignments a"
            " JOIN clients c ON c.id = a.client_id JOIN diets d ON d.id = a.diet_id WHERE a.client_id = :client_id"
        ),
        requires=(CLIENT, DIET),
    ),
)

DOCUMENTS: tuple[Operation, ...] = (
    listing(
        "get_document_templates",
        "List the templates of documents clients sign (waivers, contracts, consent forms) with template_id.",
        "templates",
        "template_view",
        search("name", "kind"),
        order="name",
        hints=("waiver", "contract", "form"),
    ),
    listing(
        "get_client_documents",
        "List the documents of a client, signed and unsigned, with document_id.",
        "documents",
        "document_view",
        choice("status", "Only documents in this state.", "sent", "signed"),
        requires=(CLIENT,),
        order="sent_on DESC",
    ),
    create(
        "send_document_for_signature",
        "Send a document (waiver, contract, consent form) to a client to be signed.",
        "documents",
        row("document", "document_view", "document_id = :new_id"),
        requires=(CLIENT, TEMPLATE),
        values={"sent_on": "today()"},
        refusals=(
            refuse(
                "SELECT document_id, document, client, sent_on FROM document_view WHERE document_id = (SELECT id FROM documents"
                " WHERE client_id = :client_id AND template_id = :template_id AND status = 'sent')",
                "{document} was sent to {client} on {sent_on} and waits for the signature (document_id {document_id}).",
            ),
        ),
    ),
    reading(
        "get_signed_document_pdf",
        "Get the PDF of a document that a client signed, as base64 with a file name.",
        figures(
            "SELECT v.document_id, v.client, v.document, v.signed_on, 'document-' || v.document_id || '.pdf' AS file_name,"
            " 'application/pdf' AS media_type, d.pdf_base64"
            " FROM document_view v JOIN documents d ON d.id = v.document_id WHERE v.document_id = :document_id"
        ),
        requires=(DOCUMENT,),
        refusals=(
            refuse(
                "SELECT client, sent_on FROM document_view WHERE document_id = :document_id AND status <> 'signed'",
                "{client} has not signed this document yet (sent on {sent_on}), so there is no PDF of it.",
            ),
        ),
    ),
    listing(
        "get_unsigned_documents",
        "List documents that were sent to clients and are still waiting for a signature, the oldest first.",
        "documents",
        "document_view",
        search("client", "document"),
        filters=("status = 'sent'",),
        order="sent_on, client",
    ),
)

_GOAL = row("goal", "goal_view", "goal_id = :goal_id")

GOALS: tuple[Operation, ...] = (
    listing(
        "get_member_goals",
        "List the fitness goals of a client (member) with progress in percent and goal_id.",
        "goals",
        "goal_view",
        choice("status", "Only goals in this state.", "open", "reached"),
        requires=(CLIENT,),
        order="due_on, title",
    ),
    reading(
        "get_goal_details",
        "Get one fitness goal with its progress and milestones.",
        _GOAL,
        rows("milestones", "SELECT * FROM milestone_view WHERE goal_id = :goal_id ORDER BY due_on, milestone_id"),
        requires=(GOAL,),
    ),
    create(
        "create_goal",
        "Set a new fitness goal for a client, for example to lose weight or to lift more.",
        "goals",
        row("goal", "goal_view", "goal_id = :new_id"),
        requires=(CLIENT, text("title", "What is to be reached."), amount("target_value", "The value to reach.")),
        takes=(
            amount("start_value", "The value now.", default=0),
            text("unit", "Unit of the values, such as kg, minutes, km.", most=20),
            day("due_on", "By when."),
        ),
        values={"current_value": ":start_value"},
    ),
    act(
        "update_goal_progress",
        "Record a client's progress on a goal: the value measured now. The goal is reached when the target is.",
        "UPDATE goals SET current_value = :current_value, status = CASE WHEN (target_value >= start_value"
        " AND :current_value >= target_value) OR (target_value < start_value AND :current_value <= target_value)"
        " THEN 'reached' ELSE 'open' END WHERE id = :goal_id",
        show=_GOAL,
        requires=(GOAL, amount("current_value", "The value measured now.")),
    ),
    act(
        "complete_goal",
        "Mark a client's fitness goal as reached.",
        "UPDATE goals SET status = 'reached', current_value = target_value WHERE id = :goal_id",
        show=_GOAL,
        requires=(GOAL,),
    ),
    create(
        "create_goal_milestone",
        "Add a milestone (a step on the way) to a client's goal.",
        "goal_milestones",
        row("milestone", "milestone_view", "milestone_id = :new_id"),
        requires=(GOAL, text("title", "What is to be reached on the way.")),
        takes=(amount("target_value", "The value at this step."), day("due_on", "By when.")),
    ),
    remove("delete_goal", "Delete a client's goal with its milestones for good.", "goals", GOAL),
)

PHOTOS: tuple[Operation, ...] = (
    listing(
        "get_member_photos",
        "List a client's progress photos with date, pose and weight, the latest first.",
        "photos",
        "photo_view",
        choice("pose", "Only photos of this pose.", "front", "side", "back"),
        requires=(CLIENT,),
        order="taken_on DESC, pose",
        hints=("pictures", "before and after"),
    ),
    reading(
        "get_photo_details",
        "Get one progress photo with caption, file and what the client weighed then.",
        row("photo", "photo_view", "photo_id = :photo_id"),
        requires=(PHOTO,),
    ),
)

NOTES: tuple[Operation, ...] = (
    listing(
        "get_member_notes",
        "List the notes staff wrote about a client, the latest first.",
        "notes",
        "note_view",
        choice("kind", "Only notes of this kind.", "general", "medical", "billing"),
        requires=(CLIENT,),
        order="created_on DESC, note_id DESC",
    ),
    create(
        "create_member_note",
        "Write a note about a client, for example an injury or a wish.",
        "notes",
        row("note", "note_view", "note_id = :new_id"),
        requires=(CLIENT, text("text", "The note itself.", most=4000)),
        takes=(choice("kind", "What it is about.", "general", "medical", "billing", default="general"), AUTHOR),
        values={"created_on": "today()"},
    ),
    remove("delete_member_note", "Delete a note that staff wrote about a client for good.", "notes", NOTE),
)

CLASSES: tuple[Operation, ...] = (
    listing(
        "get_class_types",
        "List the kinds of group classes (yoga, zumba, pilates, spinning ...) with level, length and upcoming sessions.",
        "class_types",
        "class_type_view",
        search("name", "description"),
        choice("level", "Only classes of this level.", "beginner", "all", "advanced"),
        order="name",
    ),
    listing(
        "get_class_schedule",
        "Get the schedule of group class sessions, with session_id, day, time, trainer, capacity and places booked.",
        "sessions",
        "session_view",
        search("class", "trainer"),
        CLASS_TYPE,
        TRAINER,
        day("from_date", "Only sessions on or after this day.", default="today", where="day >= :from_date"),
        day("to_date", "Only sessions on or before this day.", where="day <= :to_date"),
        order="day, starts_at",
        hints=("timetable", "upcoming classes"),
    ),
    listing(
        "get_session_bookings",
        "List who booked group class sessions, by session or client.",
        "bookings",
        "booking_view",
        SESSION,
        CLIENT,
        search("class", "client"),
        order="day, starts_at, client",
        hints=("participants of a class",),
    ),
    create(
        "book_class_session",
        "Book a place in a group class session for a client.",
        "bookings",
        row("booking", "booking_view", "booking_id = :new_id"),
        requires=(CLIENT, SESSION),
        values={"booked_on": "today()"},
        refusals=(
            refuse(
                "SELECT class, day FROM booking_view WHERE session_id = :session_id AND client_id = :client_id",
                "This client has a place in {class} on {day} already.",
            ),
            refuse(
                "SELECT class, day, capacity FROM session_view WHERE session_id = :session_id AND booked >= capacity",
                "{class} on {day} is full ({capacity} places); choose another session with get_class_schedule.",
            ),
            refuse(
                "SELECT class, day FROM session_view WHERE session_id = :session_id AND day < today()",
                "{class} on {day} is over; choose a session to come with get_class_schedule.",
            ),
        ),
    ),
)

_SLOTS = (
    "WITH RECURSIVE hours(h) AS (SELECT 8 UNION ALL SELECT h + 1 FROM hours WHERE h < 19)"
    " SELECT t.trainer_id, t.name AS trainer, :day AS day, printf('%02d:00', h) AS starts_at FROM trainer_view t, hours"
    " WHERE t.status = 'active' AND (:trainer_id IS NULL OR t.trainer_id = :trainer_id) AND NOT EXISTS (SELECT 1"
    " FROM appointments a WHERE a.trainer_id = t.trainer_id AND a.day = :day AND a.status = 'booked'"
    " AND a.starts_at = printf('%02d:00', h)) ORDER BY starts_at, trainer LIMIT :limit"
)

_DAY_IS_OVER = refuse("SELECT 1 WHERE :day < today()", "{day} is over; choose today or a later day.")

APPOINTMENTS: tuple[Operation, ...] = (
    listing(
        "get_services",
        "List services that are booked by appointment (personal training, massage, consultation) with price and minutes.",
        "services",
        "service_view",
        search("name", "description"),
        order="name",
    ),
    reading(
        "get_available_slots",
        "List free times of trainers for an appointment on a day.",
        rows("slots", _SLOTS),
        takes=(
            day("day", "The day wanted.", default="tomorrow"),
            TRAINER,
            whole("limit", "How many to return at most.", least=1, most=100, default=20),
        ),
        refusals=(_DAY_IS_OVER,),
        hints=("when is a trainer free",),
    ),
    listing(
        "get_appointments_list",
        "List appointments by client, trainer, status or day, the next ones first.",
        "appointments",
        "appointment_view",
        CLIENT,
        TRAINER,
        choice("status", "Only appointments in this state.", "booked", "done", "cancelled"),
        day("from_date", "Only appointments on or after this day.", default="today", where="day >= :from_date"),
        day("to_date", "Only appointments on or before this day.", where="day <= :to_date"),
        order="day, starts_at",
    ),
    create(
        "book_appointment",
        "Book an appointment for a client with a trainer: a service on a day at a full hour.",
        "appointments",
        row("appointment", "appointment_view", "appointment_id = :new_id"),
        requires=(
            CLIENT,
            SERVICE,
            TRAINER,
            day("day", "The day."),
            clock("starts_at", "The time, as get_available_slots gives it."),
        ),
        refusals=(
            _DAY_IS_OVER,
            refuse(
                "SELECT 1 WHERE :starts_at NOT LIKE '%:00' OR :starts_at NOT BETWEEN '08:00' AND '19:00'",
                "Appointments start at full hours from 08:00 to 19:00, not at {starts_at}; get_available_slots gives free times.",
            ),
            refuse(
                "SELECT trainer FROM appointment_view"
                " WHERE trainer_id = :trainer_id AND day = :day AND starts_at = :starts_at AND status = 'booked'",
                "{trainer} is taken on {day} at {starts_at}; get_available_slots gives free times.",
            ),
        ),
    ),
)

WEARABLES: tuple[Operation, ...] = (
    listing(
        "get_wearable_connections",
        "List clients' connected wearables (watches, trackers) with brand, state, last sync and connection_id.",
        "connections",
        "wearable_view",
        search("client", "brand"),
        CLIENT,
        choice("status", "Only connections in this state.", "connected", "disconnected"),
        order="client",
        hints=("smartwatch", "fitness tracker"),
    ),
    reading(
        "get_user_wearable_data",
        "Get what a client's wearable measured in the last days: steps, calories, sleep, heart rate, with averages.",
        figures(
            "SELECT c.id AS client_id, c.name AS client, count(w.day) AS days_measured, round(avg(w.steps)) AS average_steps,"
            " round(avg(w.sleep_hours), 1) AS average_sleep_hours,"
            " round(avg(w.resting_heart_rate)) AS average_resting_heart_rate FROM clients c LEFT JOIN wearable_data w"
            " ON w.client_id = c.id AND w.day > date(today(), '-' || :days || ' days') WHERE c.id = :client_id GROUP BY c.id"
        ),
        rows(
            "days",
            "SELECT day, steps, calories, sleep_hours, resting_heart_rate FROM wearable_data"
            " WHERE client_id = :client_id AND day > date(today(), '-' || :days || ' days') ORDER BY day DESC",
        ),
        requires=(CLIENT,),
        takes=(days_back("measurements", default=7),),
        hints=("steps", "heart rate", "sleep"),
    ),
    act(
        "disconnect_wearable",
        "Disconnect a client's wearable: no more data is read from it; what was measured stays.",
        "UPDATE wearables SET status = 'disconnected' WHERE id = :connection_id",
        show=row("connection", "wearable_view", "connection_id = :connection_id"),
        requires=(CONNECTION,),
    ),
)

TOOLS = {
    "diets": DIETS,
    "documents": DOCUMENTS,
    "goals": GOALS,
    "photos": PHOTOS,
    "notes": NOTES,
    "classes": CLASSES,
    "appointments": APPOINTMENTS,
    "wearables": WEARABLES,
}
