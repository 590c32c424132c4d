"""The sample gym's tools for people: clients and their memberships, attendance, trainers, staff and salaries.

Each tool is an `Operation`, which `database.py` runs. `TOOLS` has the operations by category.
"""

from __future__ import annotations

from toolcaddie.samples.gym.ids import BRANCH, CLIENT, PLAN, SALARY, STAFF, TRAINER
from toolcaddie.samples.gym.operations import (
    Operation,
    Param,
    act,
    amount,
    choice,
    create,
    day,
    days_back,
    figures,
    free,
    listing,
    month,
    period,
    reading,
    refuse,
    remove,
    row,
    rows,
    search,
    text,
    update,
    whole,
)

_MEMBERSHIP_STATES = ("active", "frozen", "expired", "cancelled")
_ROLES = ("trainer", "receptionist", "manager", "cleaner", "nutritionist")
_CLIENT = row("client", "client_view", "client_id = :client_id")
_MEMBERSHIP = row("membership", "current_membership", "client_id = :client_id")
_NO_MEMBERSHIP = refuse(
    "SELECT name FROM clients WHERE id = :client_id AND id NOT IN (SELECT client_id FROM memberships)",
    "{name} has no membership yet; sell one with renew_membership and a plan_id.",
)


_CONTACT: tuple[Param, ...] = (
    text("email", "E-mail address."),
    text("phone", "Phone number.", most=40),
)
_PERSON: tuple[Param, ...] = (
    *_CONTACT,
    choice("gender", "Gender.", "female", "male", "other"),
    day("birth_date", "Date of birth."),
)

CLIENTS: tuple[Operation, ...] = (
    listing(
        "get_clients_list",
        "Find clients (members, customers) by name, phone or e-mail, or list them by status. Gives each one's client_id, "
        "contact, trainer, plan and membership status; use it first when a person is named.",
        "clients",
        "client_view",
        search("name", "phone", "email"),
        choice("status", "Only clients who are active, or who left.", "active", "inactive"),
        Param(
            name="membership_status",
            schema={
                "type": "string",
                "description": "Only clients whose current membership is so.",
                "enum": list(_MEMBERSHIP_STATES),
            },
            where="membership_status = :membership_status",
        ),
        TRAINER,
        order="name",
        hints=("find member", "look up person", "client id", "customer list", "phone number", "e-mail address"),
    ),
    reading(
        "get_client_details",
        "Get everything about one client: contact, trainer, membership, last visits and payments.",
        _CLIENT,
        rows(
            "last_visits",
            "SELECT day, checked_in_at, checked_out_at FROM attendance WHERE client_id = :client_id ORDER BY day DESC LIMIT 5",
        ),
        rows(
            "last_payments",
            "SELECT paid_on, kind, amount, method FROM payments WHERE client_id = :client_id ORDER BY paid_on DESC LIMIT 5",
        ),
        requires=(CLIENT,),
    ),
    create(
        "create_client",
        "Register a new client (member) of the gym with name and contact.",
        "clients",
        row("client", "client_view", "client_id = :new_id"),
        requires=(text("name", "Full name."),),
        takes=(*_PERSON, TRAINER, BRANCH),
        values={"joined_on": "today()"},
        hints=("add member", "sign up person", "register"),
    ),
    update(
        "update_client",
        "Change a client's personal data: name, e-mail, phone, gender, birth date or branch.",
        "clients",
        _CLIENT,
        CLIENT,
        text("name", "New full name."),
        *_PERSON,
        BRANCH,
        hints=("change phone number", "edit profile"),
    ),
    act(
        "deactivate_client",
        "Mark a client as inactive because they left; their history is kept and they can be reactivated.",
        "UPDATE clients SET status = 'inactive' WHERE id = :client_id",
        show=_CLIENT,
        requires=(CLIENT,),
    ),
    act(
        "reactivate_client",
        "Make an inactive client active again, because they came back.",
        "UPDATE clients SET status = 'active' WHERE id = :client_id",
        show=_CLIENT,
        requires=(CLIENT,),
    ),
    remove(
        "delete_client",
        "Delete a client for good, with memberships, visits, goals and notes. To keep the history use deactivate_client.",
        "clients",
        CLIENT,
    ),
    reading(
        "get_client_stats",
        "Count the clients: how many there are in all, active, inactive, new this month, and by gender and trainer.",
        figures(
            "SELECT count(*) AS clients, sum(status = 'active') AS active, sum(status = 'inactive') AS inactive,"
            " sum(joined_on >= date(today(), 'start of month')) AS new_this_month FROM clients"
        ),
        rows(
            "by_gender",
            "SELECT coalesce(gender, 'unknown') AS gender, count(*) AS clients FROM clients GROUP BY 1 ORDER BY 2 DESC",
        ),
        rows(
            "by_trainer",
            "SELECT coalesce(trainer, 'none') AS trainer, count(*) AS clients FROM client_view GROUP BY 1 ORDER BY 2 DESC",
        ),
        hints=("how many members",),
    ),
    listing(
        "get_new_clients",
        "List clients who joined in the last days, the newest first.",
        "clients",
        "client_view",
        whole(
            "days",
            "How many days back to look.",
            least=1,
            most=3650,
            default=30,
            where="joined_on > date(today(), '-' || :days || ' days')",
        ),
        order="joined_on DESC, name",
    ),
    listing(
        "get_inactive_clients",
        "List clients marked inactive, with their last visit, to win them back.",
        "clients",
        "client_view",
        filters=("status = 'inactive'",),
        order="last_visit DESC, name",
    ),
    listing(
        "get_client_birthdays",
        "List clients whose birthday falls in the next days, the nearest first.",
        "birthdays",
        "(SELECT client_id, name, phone, birth_date, in_days FROM (SELECT *, CAST(julianday(CASE"
        " WHEN strftime('%m-%d', birth_date) >= strftime('%m-%d', today())"
        " THEN strftime('%Y', today()) ELSE strftime('%Y', today()) + 1 END || strftime('-%m-%d', birth_date))"
        " - julianday(today()) AS INTEGER) AS in_days FROM client_view WHERE birth_date IS NOT NULL AND status = 'active'))",
        whole("days", "How many days ahead to look.", least=0, most=366, default=30, where="in_days <= :days"),
        order="in_days, name",
    ),
    act(
        "assign_client_trainer",
        "Give a client a personal trainer, or change the one they have.",
        "UPDATE clients SET trainer_id = :trainer_id WHERE id = :client_id",
        show=_CLIENT,
        requires=(CLIENT, TRAINER),
    ),
)

MEMBERSHIPS: tuple[Operation, ...] = (
    listing(
        "get_memberships_list",
        "List memberships with client, plan, status and dates; filter by status, client, or those that expire soon.",
        "memberships",
        "current_membership",
        CLIENT,
        choice("status", "Only memberships in this state.", *_MEMBERSHIP_STATES),
        whole(
            "expiring_in_days",
            "Only active ones that end within so many days.",
            most=3650,
            where="status = 'active' AND ends_on <= date(today(), '+' || :expiring_in_days || ' days')",
        ),
        PLAN,
        order="ends_on, client",
        hints=("expiring memberships", "ending soon"),
    ),
    reading(
        "get_membership_stats",
        "Count memberships by state (active, frozen, expired, cancelled) and plan, and those that expire within 30 days.",
        figures(
            "SELECT count(*) AS memberships, sum(status = 'active') AS active, sum(status = 'frozen') AS frozen,"
            " sum(status = 'expired') AS expired, sum(status = 'cancelled') AS cancelled,"
            " sum(status = 'active' AND ends_on <= date(today(), '+30 days')) AS expiring_in_30_days FROM current_membership"
        ),
        rows(
            "active_by_plan",
            "SELECT plan, count(*) AS active FROM current_membership WHERE status = 'active' GROUP BY 1 ORDER BY 2 DESC",
        ),
    ),
    act(
        "freeze_membership",
        "Freeze (pause) a client's active membership for some days or until a date; the end moves back by as many days.",
        "UPDATE memberships SET status = 'frozen', frozen_from = today(),"
        " frozen_until = coalesce(:until, date(today(), '+' || :days || ' days')),"
        " ends_on = date(ends_on, '+' || CAST(julianday(coalesce(:until, date(today(), '+' || :days || ' days')))"
        " - julianday(today()) AS INTEGER) || ' days')"
        " WHERE id = (SELECT membership_id FROM current_membership WHERE client_id = :client_id)",
        show=_MEMBERSHIP,
        requires=(CLIENT,),
        takes=(
            whole("days", "For how many days, unless `until` is given.", least=1, most=365, default=30),
            day("until", "Last day of the freeze."),
        ),
        refusals=(
            _NO_MEMBERSHIP,
            refuse(
                "SELECT client, frozen_until FROM current_membership WHERE client_id = :client_id AND status = 'frozen'",
                "{client}'s membership is frozen already, until {frozen_until}; end that first with unfreeze_membership.",
            ),
            refuse(
                "SELECT client, status FROM current_membership WHERE client_id = :client_id AND status <> 'active'",
                "{client}'s membership is {status}, and only an active one can be frozen; use renew_membership first.",
            ),
            refuse("SELECT 1 WHERE :until <= today()", "until ({until}) must be a day after today."),
        ),
        hints=("pause membership", "put on hold", "suspend"),
    ),
    act(
        "unfreeze_membership",
        "End the freeze of a client's membership today; the days not used come off the end date again.",
        "UPDATE memberships SET status = 'active',"
        " ends_on = date(ends_on, '-' || CAST(julianday(frozen_until) - julianday(today()) AS INTEGER) || ' days'),"
        " frozen_from = NULL, frozen_until = NULL"
        " WHERE id = (SELECT membership_id FROM current_membership WHERE client_id = :client_id)",
        show=_MEMBERSHIP,
        requires=(CLIENT,),
        refusals=(
            _NO_MEMBERSHIP,
            refuse(
                "SELECT client, status FROM current_membership WHERE client_id = :client_id AND status <> 'frozen'",
                "{client}'s membership is {status}, not frozen; there is nothing to end.",
            ),
        ),
        hints=("resume membership", "unpause"),
    ),
    act(
        "renew_membership",
        "Renew a client's membership on the same or another plan, or sell the first one. It starts when the running one "
        "ends and the payment is recorded.",
        "INSERT INTO memberships (client_id, plan_id, price, sold_on, starts_on, ends_on)"
        " SELECT :client_id, p.id, p.price, today(), s.day, date(s.day, '+' || p.months || ' months', '-1 day')"
        " FROM plans p, (SELECT max(today(), coalesce((SELECT max(date(v.ends_on, '+1 day')) FROM membership_view v"
        " WHERE v.client_id = :client_id AND v.status IN ('active', 'frozen')), today())) AS day) s"
        " WHERE p.id = coalesce(:plan_id, (SELECT plan_id FROM current_membership WHERE client_id = :client_id))",
        "INSERT INTO payments (client_id, kind, amount, method, paid_on)"
        " SELECT client_id, 'membership', price, :method, today() FROM memberships WHERE id = :new_id",
        show=row("membership", "membership_view", "membership_id = :new_id"),
        requires=(CLIENT,),
        takes=(
            free(
                PLAN, description="Id of the plan, from get_membership_plans; the client's present plan if not given."
            ),
            choice("method", "How it is paid.", "card", "cash", "transfer", default="card"),
        ),
        refusals=(
            refuse(
                "SELECT name FROM clients WHERE id = :client_id AND :plan_id IS NULL"
                " AND id NOT IN (SELECT client_id FROM memberships)",
                "{name} has no membership to renew; give a plan_id from get_membership_plans.",
            ),
            refuse(
                "SELECT name AS plan FROM plans WHERE id = :plan_id AND status <> 'available'",
                "The plan {plan!r} is not sold any more; choose another with get_membership_plans.",
            ),
        ),
        idempotent=False,
        hints=("extend membership", "buy membership", "new membership"),
    ),
    act(
        "cancel_membership",
        "Cancel a client's membership for good, from today. To pause it use freeze_membership.",
        "UPDATE memberships SET status = 'cancelled', ends_on = min(ends_on, today()), cancel_reason = :reason"
        " WHERE id = (SELECT membership_id FROM current_membership WHERE client_id = :client_id)",
        show=_MEMBERSHIP,
        requires=(CLIENT,),
        takes=(text("reason", "Why the client leaves.", most=500),),
        refusals=(
            _NO_MEMBERSHIP,
            refuse(
                "SELECT client, status FROM current_membership"
                " WHERE client_id = :client_id AND status NOT IN ('active', 'frozen')",
                "{client}'s membership is {status} already.",
            ),
        ),
        destructive=True,
        hints=("terminate membership",),
    ),
)

ATTENDANCE: tuple[Operation, ...] = (
    listing(
        "get_attendance_today",
        "List who came to the gym today, with check-in and check-out times.",
        "attendance",
        "attendance_view",
        search("client"),
        filters=("day = today()",),
        order="checked_in_at, client",
        hints=("who came today", "present today", "who is here"),
    ),
    reading(
        "get_attendance_stats",
        "Get attendance figures of the last days: visits, visitors, average a day, and the busiest weekdays and hours.",
        figures(
            "SELECT count(*) AS visits, count(DISTINCT client_id) AS visitors, round(1.0 * count(*) / :days, 1) AS visits_a_day,"
            " sum(day = today()) AS visits_today FROM attendance WHERE day > date(today(), '-' || :days || ' days')"
        ),
        rows(
            "by_weekday",
            "SELECT CASE strftime('%w', day) WHEN '0' THEN 'Sunday' WHEN '1' THEN 'Monday' WHEN '2' THEN 'Tuesday'"
            " WHEN '3' THEN 'Wednesday' WHEN '4' THEN 'Thursday' WHEN '5' THEN 'Friday' ELSE 'Saturday' END AS weekday,"
            " count(*) AS visits FROM attendance WHERE day > date(today(), '-' || :days || ' days')"
            " GROUP BY strftime('%w', day) ORDER BY visits DESC",
        ),
        rows(
            "busiest_hours",
            "SELECT substr(checked_in_at, 1, 2) || ':00' AS hour, count(*) AS visits FROM attendance"
            " WHERE day > date(today(), '-' || :days || ' days') GROUP BY 1 ORDER BY visits DESC, hour LIMIT 3",
        ),
        takes=(days_back("visits"),),
    ),
    listing(
        "get_attendance_list",
        "List check-ins of any period or of one client, the latest first.",
        "attendance",
        "attendance_view",
        CLIENT,
        *period("day", "visits"),
        order="day DESC, checked_in_at DESC",
        hints=("visit history",),
    ),
    act(
        "check_in_client",
        "Check a client in at the door: record that they came to the gym today, now or at a given time.",
        "INSERT INTO attendance (client_id, day, checked_in_at) VALUES (:client_id, today(), coalesce(:time, now_time()))",
        show=row("attendance", "attendance_view", "attendance_id = :new_id"),
        requires=(CLIENT,),
        takes=(
            Param(
                name="time",
                schema={
                    "type": "string",
                    "description": "When they came, HH:MM; now if not given.",
                    "pattern": r"^([01]\d|2[0-3]):[0-5]\d$",
                },
            ),
        ),
        refusals=(
            refuse(
                "SELECT client, checked_in_at FROM attendance_view"
                " WHERE client_id = :client_id AND day = today() AND checked_out_at IS NULL",
                "{client} is checked in since {checked_in_at}; use check_out_client when they leave.",
            ),
        ),
        hints=("arrived", "mark present"),
    ),
    act(
        "check_out_client",
        "Check a client out: record that they left the gym today.",
        "UPDATE attendance SET checked_out_at = max(checked_in_at, now_time())"
        " WHERE client_id = :client_id AND day = today() AND checked_out_at IS NULL",
        show=row(
            "attendance", "attendance_view", "client_id = :client_id AND day = today() ORDER BY checked_in_at DESC"
        ),
        requires=(CLIENT,),
        refusals=(
            refuse(
                "SELECT name FROM clients WHERE id = :client_id AND NOT EXISTS (SELECT 1 FROM attendance"
                " WHERE client_id = :client_id AND day = today() AND checked_out_at IS NULL)",
                "{name} is not checked in at the moment; check_in_client records that they came.",
            ),
        ),
    ),
    listing(
        "get_absent_clients",
        "List active clients who were absent, that is, did not come for some days; who was away longest comes first.",
        "absent_clients",
        "(SELECT client_id, name, phone, last_visit, membership_status FROM client_view WHERE status = 'active')",
        whole(
            "days",
            "Not seen for at least so many days.",
            least=1,
            most=3650,
            default=14,
            where="coalesce(last_visit, '') <= date(today(), '-' || :days || ' days')",
        ),
        order="coalesce(last_visit, ''), name",
        hints=("did not come", "missing members"),
    ),
)

TRAINERS: tuple[Operation, ...] = (
    listing(
        "get_trainers_list",
        "List the gym's trainers (coaches) with trainer_id, speciality and contact; find one by name or speciality.",
        "trainers",
        "trainer_view",
        search("name", "specialty"),
        choice("status", "Only trainers who work here, or who left.", "active", "inactive"),
        order="name",
        hints=("personal trainer", "coach", "instructor"),
    ),
    reading(
        "get_trainers_stats",
        "Compare the trainers: clients, upcoming classes and appointments of each, and the average number of clients.",
        figures(
            "SELECT count(*) AS trainers, sum(clients) AS clients, round(avg(clients), 1) AS clients_each"
            " FROM trainer_view WHERE status = 'active'"
        ),
        rows(
            "by_trainer",
            "SELECT trainer_id, name, clients, upcoming_classes, upcoming_appointments FROM trainer_view"
            " WHERE status = 'active' ORDER BY clients DESC, name",
        ),
    ),
)

_STAFF = row("staff_member", "staff_view", "staff_id = :staff_id")

STAFF_TOOLS: tuple[Operation, ...] = (
    listing(
        "get_staff_list",
        "List the gym's staff (employees) with staff_id, role, contact and monthly salary; find one by name or role.",
        "staff",
        "staff_view",
        search("name", "email", "phone"),
        choice("role", "Only staff of this role.", *_ROLES),
        choice("status", "Only staff who work here, or who left.", "active", "inactive"),
        order="name",
    ),
    reading(
        "get_staff_details",
        "Get everything about one employee: role, contact, salary, hire date and the last salary payments.",
        _STAFF,
        rows(
            "last_salaries",
            "SELECT salary_id, month, total, status, paid_on FROM salary_view WHERE staff_id = :staff_id"
            " ORDER BY month DESC LIMIT 6",
        ),
        requires=(STAFF,),
    ),
    create(
        "create_staff",
        "Add a new employee (staff member) with role, contact and monthly salary.",
        "staff",
        row("staff_member", "staff_view", "staff_id = :new_id"),
        requires=(text("name", "Full name."), choice("role", "What they do.", *_ROLES)),
        takes=(
            *_CONTACT,
            text("specialty", "What they are good at, for trainers."),
            amount("monthly_salary", "Salary a month."),
        ),
        values={"hired_on": "today()"},
        hints=("hire",),
    ),
    update(
        "update_staff",
        "Change an employee's name, role, contact, speciality, monthly salary or status.",
        "staff",
        _STAFF,
        STAFF,
        text("name", "New full name."),
        choice("role", "New role.", *_ROLES),
        *_CONTACT,
        text("specialty", "What they are good at, for trainers."),
        amount("monthly_salary", "New salary a month."),
        choice("status", "Whether they work here.", "active", "inactive"),
    ),
    remove(
        "delete_staff",
        "Delete an employee for good, with their salary records. Someone who only left is set inactive with update_staff.",
        "staff",
        STAFF,
    ),
)

_SALARY = row("salary", "salary_view", "salary_id = :salary_id")

SALARIES: tuple[Operation, ...] = (
    reading(
        "get_salary_stats",
        "Get payroll figures: total salaries paid and pending, this month's bill, the average, and the sums by role.",
        figures(
            "SELECT sum(total) FILTER (WHERE status = 'paid') AS paid, sum(total) FILTER (WHERE status = 'pending') AS pending,"
            " sum(total) FILTER (WHERE month = strftime('%Y-%m', today())) AS this_month,"
            " round(avg(total), 2) AS average FROM salary_view"
        ),
        rows(
            "by_role",
            "SELECT role, count(DISTINCT staff_id) AS staff, sum(total) AS total FROM salary_view GROUP BY 1 ORDER BY 3 DESC",
        ),
    ),
    listing(
        "get_pending_salaries",
        "List salaries that are due and not paid yet, with salary_id, employee, month and total.",
        "salaries",
        "salary_view",
        search("staff"),
        month("month", "Only this month.", where="month = :month"),
        filters=("status = 'pending'",),
        order="month, staff",
        hints=("unpaid wages", "owed"),
    ),
    listing(
        "get_salaries_list",
        "List salary records, paid and pending, by employee, month or status.",
        "salaries",
        "salary_view",
        search("staff"),
        STAFF,
        month("month", "Only this month.", where="month = :month"),
        choice("status", "Only salaries in this state.", "pending", "paid"),
        order="month DESC, staff",
        hints=("salary history",),
    ),
    create(
        "create_salary",
        "Enter a salary that is due to an employee for a month; it stays pending until pay_salary.",
        "salaries",
        row("salary", "salary_view", "salary_id = :new_id"),
        requires=(STAFF, month("month", "The month it is for."), amount("amount", "The salary without bonus.")),
        takes=(amount("bonus", "A bonus on top."),),
        refusals=(
            refuse(
                "SELECT id, status FROM salaries WHERE staff_id = :staff_id AND month = :month",
                "There is already a salary for {month} (salary_id {id}, {status}); change it with update_salary.",
            ),
        ),
    ),
    act(
        "pay_salary",
        "Pay a pending salary: mark it as paid today.",
        "UPDATE salaries SET status = 'paid', paid_on = today() WHERE id = :salary_id",
        show=_SALARY,
        requires=(
            free(
                SALARY,
                description="Id of the pending salary, from get_pending_salaries.",
                finder="get_pending_salaries",
            ),
        ),
        refusals=(
            refuse(
                "SELECT staff, month, paid_on FROM salary_view WHERE salary_id = :salary_id AND status = 'paid'",
                "{staff}'s salary for {month} was paid on {paid_on} already.",
            ),
        ),
    ),
    update(
        "update_salary",
        "Change the amount or bonus of a salary that is not paid yet.",
        "salaries",
        _SALARY,
        SALARY,
        amount("amount", "The salary without bonus."),
        amount("bonus", "A bonus on top."),
        refusals=(
            refuse(
                "SELECT staff, month, paid_on FROM salary_view WHERE salary_id = :salary_id AND status = 'paid'",
                "{staff}'s salary for {month} was paid on {paid_on}; a paid salary cannot be changed.",
            ),
        ),
    ),
)

TOOLS = {
    "clients": CLIENTS,
    "memberships": MEMBERSHIPS,
    "attendance": ATTENDANCE,
    "trainers": TRAINERS,
    "staff": STAFF_TOOLS,
    "salary": SALARIES,
}
