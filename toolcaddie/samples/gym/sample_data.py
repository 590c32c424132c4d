"""The made-up data of the sample gym. The same seed and day give the same data; all dates are relative to that day.

Every active client has a goal, photo, note, document, diet, wearable, and points, so that a request about any of these finds
something.
"""

from __future__ import annotations

import base64
import random
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from toolcaddie.samples.gym.names import first_names, last_names

_CLIENTS, _ACTIVE, _LEADS, _ENQUIRIES, _GUESTS, _FRIENDS = 36, 30, 14, 8, 10, 9
_HISTORY_DAYS = 45

Row = dict[str, Any]


def fill(connection: sqlite3.Connection, today: date, seed: int) -> None:
    """Writes the sample data into empty tables."""
    _Sample(connection, today, seed).write()


class _Sample:
    """Writer of the sample data: assigns names and ids, and writes rows. An id is never used in two tables, so that a call with
    an id of the wrong kind fails."""

    def __init__(self, connection: sqlite3.Connection, today: date, seed: int) -> None:
        self._connection = connection
        self._today = today
        self._random = random.Random(seed)
        self._names = self._shuffled_names(seed)
        self._tables = 0

    def _shuffled_names(self, seed: int) -> list[tuple[str, str]]:
        """Returns full names and genders in the order of their use."""
        first, last = first_names(), last_names()
        if seed:
            self._random.shuffle(first)
            self._random.shuffle(last)
        return [(f"{name} {last[position % len(last)]}", gender) for position, (name, gender) in enumerate(first)]

    def write(self) -> None:
        people = [
            {"gender": self._names[0][1], **self._person()} for _ in range(_CLIENTS)
        ]  # first, so that seed 0 has the first name as a client
        branches = self._house()
        plans = self._plans()
        staff = self._staff()
        trainers = staff[:5]
        clients = self._clients(people, trainers, branches)
        active = clients[:_ACTIVE]
        self._memberships(clients, plans)
        self._attendance(clients)
        self._prospects(staff, clients)
        self._care(active, staff)
        self._classes(active, trainers)
        self._shop()
        self._keeping(clients, active)

    # Helpers

    def _day(self, days: int) -> str:
        return (self._today + timedelta(days=days)).isoformat()

    def _month(self, back: int) -> str:
        month = self._today.year * 12 + self._today.month - 1 - back
        return f"{month // 12}-{month % 12 + 1:02d}"

    def _insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Writes rows without ids, and returns their new ids in order."""
        self._tables += 1
        least = self._tables * 1000
        ids = self._random.sample(range(least + 1, least + 1000), len(rows))
        self._write(table, [{"id": number, **row} for number, row in zip(ids, rows, strict=True)])
        return ids

    def _write(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = list(rows[0])
        places = ", ".join(f":{column}" for column in columns)
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)

    def _person(self) -> Row:
        """Returns name, e-mail address and phone number of the next person."""
        name, _ = self._names.pop(0)
        number = self._random.randrange(100, 999)
        return {
            "name": name,
            "email": f"{name.lower().replace(' ', '.')}@example.com",
            "phone": f"555-{number}-{self._random.randrange(1000, 9999)}",
        }

    # The house

    def _house(self) -> list[int]:
        """Writes branches, settings, currencies, rooms, amenities and machines. Returns the ids of the branches."""
        branches = self._insert(
            "branches",
            [
                {"name": "Riverside", "city": "Springfield", "address": "12 River Road", "phone": "555-100-2000"},
                {"name": "Old Town", "city": "Springfield", "address": "3 Market Square", "phone": "555-100-2001"},
            ],
        )
        self._write(
            "settings",
            [
                {"key": key, "value": value}
                for key, value in (
                    ("name", "Iron Oak Fitness"),
                    ("email", "hello@ironoak.example"),
                    ("currency", "USD"),
                    ("theme", "light"),
                    ("page", "dashboard"),
                    ("branch", str(branches[0])),
                )
            ],
        )
        self._write(
            "currencies", [dict(zip(("code", "name", "symbol", "per_usd"), row, strict=True)) for row in _CURRENCIES]
        )
        rooms = self._insert(
            "facilities",
            [dict(zip(("name", "kind", "capacity", "status", "description"), row, strict=True)) for row in _FACILITIES],
        )
        self._insert(
            "amenities",
            [
                {"name": name, "description": text, "fee": fee, "facility_id": rooms[room]}
                for name, text, fee, room in _AMENITIES
            ],
        )
        machines = self._insert(
            "equipment",
            [
                {
                    "name": name,
                    "kind": kind,
                    "facility_id": rooms[0],
                    "bought_on": self._day(-400 - 30 * position),
                    "status": status,
                    "last_service_on": self._day(due - 90),
                    "next_service_on": self._day(due),
                }
                for position, (name, kind, status, due) in enumerate(_EQUIPMENT)
            ],
        )
        self._insert(
            "maintenance",
            [
                {"equipment_id": machine, "day": self._day(due - 90), "work": "Regular service", "cost": 60}
                for machine, (_, _, _, due) in zip(machines, _EQUIPMENT, strict=True)
            ],
        )
        return branches

    def _plans(self) -> list[tuple[int, int, float]]:
        """Returns id, months and price of each plan."""
        ids = self._insert(
            "plans", [dict(zip(("name", "months", "price", "description"), row, strict=True)) for row in _PLANS]
        )
        self._insert(
            "offers",
            [
                {
                    "code": code,
                    "title": title,
                    "discount_percent": percent,
                    "plan_id": None if plan is None else ids[plan],
                    "starts_on": self._day(start),
                    "ends_on": self._day(end),
                    "uses": uses,
                    "max_uses": most,
                }
                for code, title, percent, plan, start, end, uses, most in _OFFERS
            ],
        )
        return [(number, months, price) for number, (_, months, price, _) in zip(ids, _PLANS, strict=True)]

    # The people

    def _staff(self) -> list[int]:
        """Writes employees and their salaries of three months; every third employee's salary of this month is not paid yet.
        Returns the ids of the employees."""
        rows = [
            {
                **self._person(),
                "role": role,
                "specialty": specialty,
                "monthly_salary": salary,
                "hired_on": self._day(-200 - 60 * position),
            }
            for position, (role, specialty, salary) in enumerate(_STAFF_ROLES)
        ]
        ids = self._insert("staff", rows)
        self._insert(
            "salaries",
            [
                {
                    "staff_id": member,
                    "month": self._month(back),
                    "amount": row["monthly_salary"],
                    "bonus": self._random.choice((0, 0, 100)),
                    "status": "pending" if back == 0 and position % 3 == 0 else "paid",
                    "paid_on": None if back == 0 and position % 3 == 0 else f"{self._month(back)}-01",
                }
                for position, (member, row) in enumerate(zip(ids, rows, strict=True))
                for back in range(3)
            ],
        )
        return ids

    def _clients(self, people: Sequence[Row], trainers: Sequence[int], branches: Sequence[int]) -> list[int]:
        return self._insert(
            "clients",
            [
                {
                    **person,
                    "birth_date": self._day(-self._random.randrange(18 * 365, 60 * 365)),
                    "joined_on": self._day(-self._random.randrange(5, 900)),
                    "status": "active" if position < _ACTIVE else "inactive",
                    "trainer_id": self._random.choice([*trainers, None]),
                    "branch_id": self._random.choice(branches),
                }
                for position, person in enumerate(people)
            ],
        )

    def _memberships(self, clients: Sequence[int], plans: Sequence[tuple[int, int, float]]) -> None:
        """Writes a membership for each client, and payments. Two memberships are frozen and one is cancelled; those of two active
        clients and of all inactive ones have expired."""
        rows, payments = [], []
        for position, client in enumerate(clients):
            plan, months, price = plans[0] if position == 0 else self._random.choice(plans)
            days_left = self._random.randrange(3, months * 30)
            frozen = position in (5, 9)
            start = days_left - months * 30
            over = position >= _ACTIVE or position in (11, 17)
            start -= 0 if not over else days_left + 20
            rows.append(
                {
                    "client_id": client,
                    "plan_id": plan,
                    "price": price,
                    "sold_on": self._day(start),
                    "starts_on": self._day(start),
                    "ends_on": self._day(start + months * 30),
                    "status": "frozen" if frozen else "cancelled" if position == 13 else "active",
                    "frozen_from": self._day(-3) if frozen else None,
                    "frozen_until": self._day(11) if frozen else None,
                }
            )
            payments.append(self._payment(client, "membership", price, start))
        payments += [
            self._payment(self._random.choice(clients), kind, amount, -self._random.randrange(60))
            for kind, amount in (("product", 25.0), ("class", 15.0), ("appointment", 60.0)) * 12
        ]
        self._insert("memberships", rows)
        self._connection.execute(  # a membership cannot begin before its client joined
            "UPDATE clients SET joined_on ="
            " min(joined_on, (SELECT min(m.starts_on) FROM memberships m WHERE m.client_id = clients.id))"
        )
        self._insert("payments", payments)

    def _payment(self, client: int, kind: str, amount: float, days: int) -> Row:
        method = self._random.choice(("card", "card", "cash", "transfer"))
        return {"client_id": client, "kind": kind, "amount": amount, "method": method, "paid_on": self._day(days)}

    def _attendance(self, clients: Sequence[int]) -> None:
        """Writes visits. Half of the clients came today. The first client did not; the seventh and eighth have been away for a
        month."""
        rows = []
        for back in range(_HISTORY_DAYS):
            for position, client in enumerate(clients[:_ACTIVE]):
                away = position in (6, 7) and back < 30
                came = position % 2 == 1 if back == 0 else self._random.random() < 0.1 + 0.1 * (position % 5)
                if came and not away:
                    hour = self._random.randrange(6, 20 if back else 9)
                    rows.append(
                        {
                            "client_id": client,
                            "day": self._day(-back),
                            "checked_in_at": f"{hour:02d}:{self._random.randrange(60):02d}",
                            "checked_out_at": None if back == 0 and position % 4 == 1 else f"{hour + 1:02d}:59",
                        }
                    )
        self._insert("attendance", rows)

    def _prospects(self, staff: Sequence[int], clients: Sequence[int]) -> None:
        """Writes people who may become clients: leads with follow-ups, enquiries, referred friends and guests."""
        interests = ("personal training", "yoga", "swimming", "weight loss", "family plan")
        stages = ("new", "contacted", "trial", "negotiation", "won", "lost")
        leads = self._insert(
            "leads",
            [
                {
                    **self._person(),
                    "interest": self._random.choice(interests),
                    "channel": self._random.choice(("walk_in", "website", "phone", "social_media", "referral")),
                    "stage": stages[position % len(stages)],
                    "value": self._random.randrange(100, 900, 50),
                    "owner_id": self._random.choice(staff),
                    "created_on": self._day(-3 * position - 1),
                }
                for position in range(_LEADS)
            ],
        )
        self._insert(
            "follow_ups",
            [
                {
                    "lead_id": lead,
                    "due_on": self._day(position - 2),
                    "method": "call",
                    "remark": "Ask how the visit was",
                }
                for position, lead in enumerate(leads[:8])
            ],
        )
        self._insert(
            "enquiries",
            [
                {
                    **self._person(),
                    "interest": self._random.choice(interests),
                    "message": "Please call me back.",
                    "status": ("new", "contacted", "closed")[position % 3],
                    "created_on": self._day(-2 * position),
                }
                for position in range(_ENQUIRIES)
            ],
        )
        friends = [self._person() for _ in range(_FRIENDS)]
        self._insert(
            "referrals",
            [
                {
                    "client_id": clients[position % 4],
                    "friend_name": friend["name"],
                    "friend_phone": friend["phone"],
                    "status": ("invited", "joined", "rewarded", "declined")[position % 4],
                    "created_on": self._day(-5 * position),
                }
                for position, friend in enumerate(friends)
            ],
        )
        self._insert(
            "guests",
            [
                {
                    "name": guest["name"],
                    "phone": guest["phone"],
                    "client_id": self._random.choice(clients) if position % 3 == 2 else None,
                    "day": self._day(-4 * position),
                    "kind": ("day_pass", "trial", "friend")[position % 3],
                    "joined": "yes" if position % 4 == 1 else "no",
                }
                for position, guest in enumerate(self._person() for _ in range(_GUESTS))
            ],
        )

    # What clients have

    def _care(self, active: Sequence[int], staff: Sequence[int]) -> None:
        """Writes diets, documents, goals, photos and notes of the active clients."""
        diets = self._insert(
            "diets", [dict(zip(("name", "aim", "calories", "description"), row, strict=True)) for row in _DIETS]
        )
        self._insert(
            "diet_meals",
            [
                {"diet_id": diet, "meal": meal, "dish": dish, "calories": calories}
                for diet in diets
                for meal, dish, calories in _MEALS
            ],
        )
        self._insert(
            "diet_assignments",
            [
                {"client_id": client, "diet_id": self._random.choice(diets), "starts_on": self._day(-20)}
                for client in active
            ],
        )
        self._documents(active)
        self._goals(active)
        self._insert(
            "photos",
            [
                {
                    "client_id": client,
                    "taken_on": self._day(-30 * back - 2),
                    "pose": pose,
                    "weight_kg": 70.0 + 2 * back,
                    "caption": f"{pose.capitalize()}, month {3 - back}",
                    "file": f"photos/{client}-{pose}-{back}.jpg",
                }
                for client in active
                for back, pose in ((0, "front"), (1, "side"))
            ],
        )
        self._insert(
            "notes",
            [
                {
                    "client_id": client,
                    "author_id": self._random.choice(staff),
                    "kind": kind,
                    "text": text,
                    "created_on": self._day(-10 - position),
                }
                for position, client in enumerate(active)
                for kind, text in (self._random.choice(_NOTES),)
            ],
        )

    def _documents(self, active: Sequence[int]) -> None:
        """Writes a signed document for each active client, and an unsigned one for the first six."""
        templates = self._insert(
            "document_templates",
            [{"name": name, "kind": kind, "version": version} for name, kind, version in _TEMPLATES],
        )
        self._insert(
            "documents",
            [
                {
                    "template_id": templates[0],
                    "client_id": client,
                    "status": "signed",
                    "sent_on": self._day(-60),
                    "signed_on": self._day(-58),
                    "pdf_base64": base64.b64encode(_pdf(f"{_TEMPLATES[0][0]}, signed {self._day(-58)}")).decode(),
                }
                for client in active
            ]
            + [
                {
                    "template_id": templates[1],
                    "client_id": client,
                    "status": "sent",
                    "sent_on": self._day(-4),
                    "signed_on": None,
                    "pdf_base64": None,
                }
                for client in active[:6]
            ],
        )

    def _goals(self, active: Sequence[int]) -> None:
        """Writes a goal with a milestone for each active client. No goal is reached yet."""
        goals = self._insert(
            "goals",
            [
                {
                    "client_id": client,
                    "title": title,
                    "unit": unit,
                    "start_value": start,
                    "current_value": round(start + (target - start) * self._random.random() * 0.8, 1),
                    "target_value": target,
                    "due_on": self._day(self._random.randrange(20, 120)),
                }
                for client in active
                for title, unit, start, target in (self._random.choice(_GOALS),)
            ],
        )
        self._insert(
            "goal_milestones",
            [{"goal_id": goal, "title": "Half way", "due_on": self._day(15)} for goal in goals],
        )

    def _classes(self, active: Sequence[int], trainers: Sequence[int]) -> None:
        """Writes group classes with bookings, and services with appointments."""
        kinds = self._insert(
            "class_types",
            [dict(zip(("name", "description", "minutes", "level"), row, strict=True)) for row in _CLASS_TYPES],
        )
        sessions = self._insert(
            "class_sessions",
            [
                {
                    "class_type_id": kind,
                    "trainer_id": self._random.choice(trainers),
                    "day": self._day(ahead),
                    "starts_at": f"{7 + 2 * position:02d}:00",
                    "capacity": 12,
                }
                for ahead in range(-3, 8)
                for position, kind in enumerate(kinds)
            ],
        )
        # Only clients from the fourth on: the first three are free to book any session.
        self._insert(
            "bookings",
            [
                {"session_id": session, "client_id": client, "booked_on": self._day(-3)}
                for session in sessions
                for client in self._random.sample(list(active[3:]), 4)
            ],
        )
        services = self._insert(
            "services", [dict(zip(("name", "minutes", "price", "description"), row, strict=True)) for row in _SERVICES]
        )
        self._insert(
            "appointments",
            [
                {
                    "service_id": self._random.choice(services),
                    "client_id": client,
                    "trainer_id": trainers[position % len(trainers)],
                    "day": self._day(position // len(trainers) - 1),
                    "starts_at": f"{9 + position % 8:02d}:00",
                    "status": "done" if position < len(trainers) else "booked",
                }
                for position, client in enumerate(active[:20])
            ],
        )

    # The shop, and keeping clients

    def _shop(self) -> None:
        """Writes products and marketing campaigns."""
        self._insert(
            "products",
            [dict(zip(("name", "kind", "price", "stock", "reorder_level"), row, strict=True)) for row in _PRODUCTS],
        )
        self._insert(
            "campaigns",
            [
                {
                    "name": name,
                    "channel": channel,
                    "status": status,
                    "starts_on": self._day(start),
                    "ends_on": self._day(start + 21),
                    "budget": budget,
                    "sent": sent,
                    "opened": sent * 2 // 5,
                    "clicked": sent // 10,
                    "joined": sent // 80,
                    "message": message,
                }
                for name, channel, status, start, budget, sent, message in _CAMPAIGNS
            ],
        )

    def _keeping(self, clients: Sequence[int], active: Sequence[int]) -> None:
        """Writes what binds clients to the gym: custom fields, challenges, loyalty points, rewards, wearables and surveys."""
        self._custom_fields(clients)
        self._challenges(active)
        self._insert(
            "points",
            [
                {"client_id": client, "points": points, "reason": reason, "day": self._day(-days)}
                for client in active
                for points, reason, days in ((200, "Welcome", 300), (self._random.randrange(10, 60) * 10, "Visits", 5))
            ],
        )
        self._insert(
            "rewards",
            [dict(zip(("name", "points", "stock", "description"), row, strict=True)) for row in _REWARDS],
        )
        self._insert(
            "wearables",
            [
                {
                    "client_id": client,
                    "brand": self._random.choice(("Fitbit", "Garmin", "Apple Watch", "Polar")),
                    "connected_on": self._day(-90),
                    "last_synced_on": self._day(-self._random.randrange(3)),
                }
                for client in active
            ],
        )
        self._write(
            "wearable_data",
            [
                {
                    "client_id": client,
                    "day": self._day(-back),
                    "steps": self._random.randrange(3000, 15000),
                    "calories": self._random.randrange(1700, 3100),
                    "sleep_hours": round(self._random.uniform(5, 9), 1),
                    "resting_heart_rate": self._random.randrange(48, 75),
                }
                for client in active
                for back in range(14)
            ],
        )
        self._surveys(clients)

    def _custom_fields(self, clients: Sequence[int]) -> None:
        fields = self._insert(
            "custom_fields",
            [dict(zip(("entity", "label", "type", "options"), row, strict=True)) for row in _CUSTOM_FIELDS],
        )
        self._write(
            "custom_values",
            [
                {"field_id": fields[field], "entity_id": client, "value": self._random.choice(values)}
                for client in clients
                for field, values in enumerate((("S", "M", "L", "XL"), ("Parent", "Partner", "Friend")))
            ],
        )

    def _challenges(self, active: Sequence[int]) -> None:
        challenges = self._insert(
            "challenges",
            [
                {
                    "name": name,
                    "metric": metric,
                    "target": target,
                    "prize": prize,
                    "starts_on": self._day(start),
                    "ends_on": self._day(end),
                }
                for name, metric, target, prize, start, end in _CHALLENGES
            ],
        )
        # As with bookings, the first three clients are free to join.
        self._write(
            "challenge_entries",
            [
                {"challenge_id": challenge, "client_id": client, "score": score, "joined_on": self._day(-5)}
                for challenge in challenges[:2]
                for client, score in zip(
                    self._random.sample(list(active[3:]), 10), self._random.sample(range(1, 60), 10), strict=True
                )
            ],
        )

    def _surveys(self, clients: Sequence[int]) -> None:
        surveys = self._insert(
            "surveys",
            [
                {"title": title, "question": question, "status": status, "created_on": self._day(-days)}
                for title, question, status, days in _SURVEYS
            ],
        )
        self._write(
            "survey_answers",
            [
                {
                    "survey_id": survey,
                    "client_id": client,
                    "score": self._random.randrange(3, 11),
                    "comment": self._random.choice(_COMMENTS),
                    "day": self._day(-self._random.randrange(1, 20)),
                }
                for survey in surveys
                for client in self._random.sample(list(clients), 15)
            ],
        )


def _pdf(text: str) -> bytes:
    """Returns a PDF file of one page with one line of text."""
    stream = f"BT /F1 14 Tf 72 760 Td ({text}) Tj ET".encode("ascii")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return (
        body
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (
            size,
            table,
            size,
            len(body),
        )
    )


_CURRENCIES = (
    ("USD", "US dollar", "$", 1.0),
    ("EUR", "Euro", "€", 0.92),
    ("GBP", "Pound sterling", "£", 0.79),
    ("INR", "Indian rupee", "₹", 83.5),
    ("BRL", "Brazilian real", "R$", 5.1),
    ("MXN", "Mexican peso", "MX$", 17.2),
    ("JPY", "Japanese yen", "¥", 151.0),
    ("CHF", "Swiss franc", "CHF", 0.88),
)
_FACILITIES = (
    ("Weights floor", "floor", 60, "open", "Free weights, racks and machines"),
    ("Main pool", "pool", 25, "open", "25 metres, four lanes"),
    ("Finnish sauna", "sauna", 10, "open", "90 degrees"),
    ("Yoga studio", "studio", 20, "open", "Mats are there"),
    ("Squash court", "court", 2, "maintenance", "New floor until next week"),
    ("Spinning room", "room", 18, "open", "18 bikes"),
)
_AMENITIES = (
    ("Lockers", "Bring your own padlock", 0, 0),
    ("Towels", "Fresh at the desk", 2, 1),
    ("Wifi", "Network Iron Oak", 0, 0),
    ("Parking", "Two hours free", 0, 0),
    ("Showers", "With soap", 0, 1),
    ("Childcare", "Weekday mornings", 5, 3),
)
_EQUIPMENT = (
    ("Treadmill 1", "treadmill", "working", 4),
    ("Treadmill 2", "treadmill", "out_of_order", -2),
    ("Rowing machine", "rower", "working", 20),
    ("Spin bike 3", "bike", "needs_service", 1),
    ("Leg press", "strength", "working", 55),
    ("Cable tower", "strength", "working", 12),
    ("Squat rack", "rack", "working", 80),
)
_PLANS = (
    ("Annual Gold", 12, 540.0, "Everything, all branches, pool and sauna"),
    ("Half-year Silver", 6, 300.0, "Weights floor and classes"),
    ("Quarterly", 3, 165.0, "Weights floor and classes"),
    ("Monthly", 1, 60.0, "Weights floor"),
    ("Student Annual", 12, 380.0, "With a valid student card"),
)
_OFFERS = (
    ("SUMMER20", "20 percent off the annual plan", 20, 0, -10, 20, 12, 100),
    ("WELCOME10", "10 percent off for new members", 10, None, -200, 200, 55, 500),
    ("STUDENT15", "15 percent off with a student card", 15, 4, -60, 90, 7, 50),
    ("NEWYEAR30", "30 percent off in January", 30, None, -190, -150, 80, 80),
    ("AUTUMN25", "25 percent off from next month", 25, 1, 30, 60, 0, 100),
)
_STAFF_ROLES = (
    ("trainer", "strength", 2800.0),
    ("trainer", "yoga", 2600.0),
    ("trainer", "boxing", 2700.0),
    ("trainer", "swimming", 2650.0),
    ("trainer", "rehabilitation", 2900.0),
    ("manager", None, 4200.0),
    ("receptionist", None, 2100.0),
    ("receptionist", None, 2050.0),
    ("cleaner", None, 1800.0),
    ("cleaner", None, 1850.0),
    ("nutritionist", None, 3000.0),
    ("manager", None, 3900.0),
)
_DIETS = (
    ("Lean Start", "lose_weight", 1600, "Plenty of vegetables, little sugar"),
    ("Muscle Fuel", "build_muscle", 3000, "High in protein"),
    ("Mediterranean", "stay_fit", 2200, "Fish, olive oil, vegetables"),
    ("Endurance Base", "endurance", 2800, "Carbohydrates around training"),
    ("Vegan Balance", "stay_fit", 2100, "Without animal products"),
)
_MEALS = (
    ("breakfast", "Porridge with fruit", 420),
    ("lunch", "Rice, beans and vegetables", 650),
    ("snack", "Yogurt and nuts", 250),
    ("dinner", "Grilled fish with salad", 560),
)
_TEMPLATES = (
    ("Liability waiver", "waiver", 3),
    ("Membership contract", "contract", 5),
    ("Photo consent", "consent", 1),
)
_GOALS = (
    ("Lose weight", "kg", 85.0, 75.0),
    ("Bench press", "kg", 50.0, 80.0),
    ("Run 10 km faster", "minutes", 65.0, 50.0),
    ("Visits this month", "visits", 0.0, 12.0),
)
_NOTES = (
    ("medical", "Sore left knee: no deep squats for now."),
    ("general", "Prefers to train early in the morning."),
    ("billing", "Asked for invoices by e-mail."),
    ("general", "Wants to try swimming."),
)
_CLASS_TYPES = (
    ("Yoga", "Slow and mindful", 60, "all"),
    ("Zumba", "Dance to Latin music", 50, "beginner"),
    ("Pilates", "Strength for the middle of the body", 55, "all"),
    ("Spinning", "Hard work on a bike", 45, "advanced"),
    ("Boxing", "Technique and conditioning", 60, "advanced"),
)
_SERVICES = (
    ("Personal training", 60, 55.0, "One to one with a trainer"),
    ("Sports massage", 45, 60.0, "For tired muscles"),
    ("Nutrition consultation", 30, 40.0, "What to eat for your aim"),
    ("Body composition test", 20, 25.0, "Fat, muscle and water"),
)
_PRODUCTS = (
    ("Whey protein 1 kg", "supplement", 39.0, 14, 5),
    ("Energy bar", "supplement", 2.5, 3, 20),
    ("Isotonic drink", "drink", 2.0, 48, 24),
    ("Mineral water", "drink", 1.5, 0, 24),
    ("Gym T-shirt", "clothing", 18.0, 22, 10),
    ("Lifting gloves", "accessory", 15.0, 4, 5),
    ("Shaker bottle", "accessory", 8.0, 30, 8),
)
_CAMPAIGNS = (
    ("Summer body", "email", "running", -8, 400, 1600, "Get fit for summer: 20 percent off the annual plan."),
    ("Bring a friend", "sms", "finished", -80, 250, 800, "Bring a friend and train together for free this week."),
    ("Back to school", "social_media", "draft", 20, 300, 0, "Students train from 32 a month."),
)
_CUSTOM_FIELDS = (
    ("client", "T-shirt size", "choice", "S, M, L, XL"),
    ("client", "Emergency contact", "text", None),
    ("staff", "First-aid course", "date", None),
    ("lead", "Preferred time", "choice", "morning, evening"),
)
_CHALLENGES = (
    ("Thirty Days Strong", "visits", 20, "A month free", -10, 20),
    ("Step Masters", "steps", 200000, "A sports watch", -5, 25),
    ("Winter Warriors", "minutes", 900, "A T-shirt", 40, 70),
    ("Spring Sprint", "calories", 15000, "A massage", -90, -60),
)
_REWARDS = (
    ("Free smoothie", 100, 40, "Any size"),
    ("Guest pass", 150, 25, "Bring a friend for a day"),
    ("Gym T-shirt", 400, 10, "One size fits most"),
    ("Personal training hour", 700, 6, "With a trainer of your choice"),
)
_SURVEYS = (
    ("How do you like us?", "How likely are you to recommend us to a friend?", "open", 25),
    ("Opening hours", "How happy are you with our opening hours?", "open", 12),
    ("Cleanliness", "How clean are the changing rooms?", "closed", 120),
)
_COMMENTS = ("Great trainers!", "Too crowded in the evening.", "Love the pool.", None, None, "Music is too loud.")
