-- The gym's database: first the tables, then the views that tools read. The columns of a view have the names that tools show.
-- today() is a function of the connection (database.py), so that a gym can have another date than the real one.

CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE branches (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, city TEXT NOT NULL, address TEXT NOT NULL, phone TEXT,
    opens_at TEXT NOT NULL DEFAULT '06:00', closes_at TEXT NOT NULL DEFAULT '22:00'
);
CREATE TABLE currencies (code TEXT PRIMARY KEY, name TEXT NOT NULL, symbol TEXT NOT NULL, per_usd REAL NOT NULL);

CREATE TABLE staff (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, email TEXT, phone TEXT, specialty TEXT,
    monthly_salary REAL NOT NULL DEFAULT 0, hired_on TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active'
);
CREATE TABLE salaries (
    id INTEGER PRIMARY KEY, staff_id INTEGER NOT NULL REFERENCES staff ON DELETE CASCADE, month TEXT NOT NULL,
    amount REAL NOT NULL, bonus REAL NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT 'pending', paid_on TEXT,
    UNIQUE (staff_id, month)
);

CREATE TABLE clients (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, phone TEXT, gender TEXT, birth_date TEXT,
    joined_on TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active',
    trainer_id INTEGER REFERENCES staff ON DELETE SET NULL, branch_id INTEGER REFERENCES branches
);
CREATE TABLE plans (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, months INTEGER NOT NULL, price REAL NOT NULL, description TEXT,
    status TEXT NOT NULL DEFAULT 'available'
);
CREATE TABLE memberships (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE,
    plan_id INTEGER NOT NULL REFERENCES plans, price REAL NOT NULL, sold_on TEXT NOT NULL, starts_on TEXT NOT NULL,
    ends_on TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active', frozen_from TEXT, frozen_until TEXT, cancel_reason TEXT
);
CREATE INDEX memberships_of_client ON memberships (client_id, starts_on);
CREATE TABLE attendance (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, day TEXT NOT NULL,
    checked_in_at TEXT NOT NULL, checked_out_at TEXT
);
CREATE INDEX attendance_by_day ON attendance (day);
CREATE INDEX attendance_of_client ON attendance (client_id, day);
CREATE TABLE payments (
    id INTEGER PRIMARY KEY, client_id INTEGER REFERENCES clients ON DELETE SET NULL, kind TEXT NOT NULL,
    amount REAL NOT NULL, method TEXT NOT NULL, paid_on TEXT NOT NULL
);
CREATE INDEX payments_by_day ON payments (paid_on);

CREATE TABLE enquiries (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, phone TEXT, email TEXT, interest TEXT, message TEXT,
    status TEXT NOT NULL DEFAULT 'new', created_on TEXT NOT NULL
);
CREATE TABLE leads (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, phone TEXT, email TEXT, interest TEXT, channel TEXT NOT NULL DEFAULT 'walk_in',
    stage TEXT NOT NULL DEFAULT 'new', value REAL NOT NULL DEFAULT 0, owner_id INTEGER REFERENCES staff ON DELETE SET NULL,
    client_id INTEGER REFERENCES clients ON DELETE SET NULL, created_on TEXT NOT NULL
);
CREATE TABLE follow_ups (
    id INTEGER PRIMARY KEY, lead_id INTEGER NOT NULL REFERENCES leads ON DELETE CASCADE, due_on TEXT NOT NULL,
    method TEXT NOT NULL DEFAULT 'call', remark TEXT, status TEXT NOT NULL DEFAULT 'open'
);
CREATE TABLE referrals (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, friend_name TEXT NOT NULL,
    friend_phone TEXT, status TEXT NOT NULL DEFAULT 'invited', created_on TEXT NOT NULL
);

CREATE TABLE facilities (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, capacity INTEGER, opens_at TEXT NOT NULL DEFAULT '06:00',
    closes_at TEXT NOT NULL DEFAULT '22:00', status TEXT NOT NULL DEFAULT 'open', description TEXT
);
CREATE TABLE amenities (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, description TEXT, fee REAL NOT NULL DEFAULT 0,
    facility_id INTEGER REFERENCES facilities
);
CREATE TABLE equipment (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, facility_id INTEGER REFERENCES facilities,
    bought_on TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'working', last_service_on TEXT, next_service_on TEXT
);
CREATE TABLE maintenance (
    id INTEGER PRIMARY KEY, equipment_id INTEGER NOT NULL REFERENCES equipment ON DELETE CASCADE, day TEXT NOT NULL,
    work TEXT NOT NULL, cost REAL NOT NULL DEFAULT 0
);

CREATE TABLE diets (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, aim TEXT NOT NULL, calories INTEGER NOT NULL, description TEXT
);
CREATE TABLE diet_meals (
    id INTEGER PRIMARY KEY, diet_id INTEGER NOT NULL REFERENCES diets ON DELETE CASCADE, meal TEXT NOT NULL, dish TEXT NOT NULL,
    calories INTEGER NOT NULL
);
CREATE TABLE diet_assignments (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL UNIQUE REFERENCES clients ON DELETE CASCADE,
    diet_id INTEGER NOT NULL REFERENCES diets, starts_on TEXT NOT NULL
);
CREATE TABLE offers (
    id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, title TEXT NOT NULL, discount_percent REAL NOT NULL,
    plan_id INTEGER REFERENCES plans ON DELETE CASCADE, starts_on TEXT NOT NULL, ends_on TEXT NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0, max_uses INTEGER NOT NULL DEFAULT 100
);

CREATE TABLE document_templates (id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL DEFAULT 1);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, template_id INTEGER NOT NULL REFERENCES document_templates,
    client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, status TEXT NOT NULL DEFAULT 'sent', sent_on TEXT NOT NULL,
    signed_on TEXT, pdf_base64 TEXT
);
CREATE TABLE goals (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, title TEXT NOT NULL,
    unit TEXT NOT NULL DEFAULT 'kg', start_value REAL NOT NULL DEFAULT 0, current_value REAL NOT NULL DEFAULT 0,
    target_value REAL NOT NULL, due_on TEXT, status TEXT NOT NULL DEFAULT 'open'
);
CREATE TABLE goal_milestones (
    id INTEGER PRIMARY KEY, goal_id INTEGER NOT NULL REFERENCES goals ON DELETE CASCADE, title TEXT NOT NULL,
    target_value REAL, due_on TEXT, status TEXT NOT NULL DEFAULT 'open'
);
CREATE TABLE photos (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, taken_on TEXT NOT NULL,
    pose TEXT NOT NULL, weight_kg REAL, caption TEXT, file TEXT NOT NULL
);
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE,
    author_id INTEGER REFERENCES staff ON DELETE SET NULL, kind TEXT NOT NULL DEFAULT 'general', text TEXT NOT NULL,
    created_on TEXT NOT NULL
);

CREATE TABLE class_types (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT, minutes INTEGER NOT NULL, level TEXT NOT NULL
);
CREATE TABLE class_sessions (
    id INTEGER PRIMARY KEY, class_type_id INTEGER NOT NULL REFERENCES class_types, trainer_id INTEGER REFERENCES staff ON DELETE SET NULL,
    day TEXT NOT NULL, starts_at TEXT NOT NULL, capacity INTEGER NOT NULL
);
CREATE TABLE bookings (
    id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES class_sessions ON DELETE CASCADE,
    client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, booked_on TEXT NOT NULL, UNIQUE (session_id, client_id)
);
CREATE TABLE services (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, minutes INTEGER NOT NULL, price REAL NOT NULL, description TEXT
);
CREATE TABLE appointments (
    id INTEGER PRIMARY KEY, service_id INTEGER NOT NULL REFERENCES services,
    client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, trainer_id INTEGER NOT NULL REFERENCES staff ON DELETE CASCADE,
    day TEXT NOT NULL, starts_at TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'booked'
);
CREATE TABLE guests (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, phone TEXT, client_id INTEGER REFERENCES clients ON DELETE SET NULL,
    day TEXT NOT NULL, kind TEXT NOT NULL, joined TEXT NOT NULL DEFAULT 'no'
);

CREATE TABLE products (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, price REAL NOT NULL, stock INTEGER NOT NULL,
    reorder_level INTEGER NOT NULL
);
CREATE TABLE campaigns (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, channel TEXT NOT NULL, status TEXT NOT NULL, starts_on TEXT NOT NULL,
    ends_on TEXT NOT NULL, budget REAL NOT NULL, sent INTEGER NOT NULL, opened INTEGER NOT NULL, clicked INTEGER NOT NULL,
    joined INTEGER NOT NULL, message TEXT NOT NULL
);
CREATE TABLE custom_fields (id INTEGER PRIMARY KEY, entity TEXT NOT NULL, label TEXT NOT NULL, type TEXT NOT NULL, options TEXT);
CREATE TABLE custom_values (
    field_id INTEGER NOT NULL REFERENCES custom_fields ON DELETE CASCADE, entity_id INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (field_id, entity_id)
);
CREATE TABLE challenges (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, metric TEXT NOT NULL, target INTEGER NOT NULL, prize TEXT,
    starts_on TEXT NOT NULL, ends_on TEXT NOT NULL
);
CREATE TABLE challenge_entries (
    challenge_id INTEGER NOT NULL REFERENCES challenges ON DELETE CASCADE,
    client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, score INTEGER NOT NULL DEFAULT 0, joined_on TEXT NOT NULL,
    PRIMARY KEY (challenge_id, client_id)
);
CREATE TABLE points (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, points INTEGER NOT NULL,
    reason TEXT NOT NULL, day TEXT NOT NULL
);
CREATE TABLE rewards (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, points INTEGER NOT NULL, stock INTEGER NOT NULL, description TEXT
);
CREATE TABLE wearables (
    id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, brand TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'connected', connected_on TEXT NOT NULL, last_synced_on TEXT
);
CREATE TABLE wearable_data (
    client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE, day TEXT NOT NULL, steps INTEGER NOT NULL,
    calories INTEGER NOT NULL, sleep_hours REAL NOT NULL, resting_heart_rate INTEGER NOT NULL, PRIMARY KEY (client_id, day)
);
CREATE TABLE surveys (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, question TEXT NOT NULL, audience TEXT NOT NULL DEFAULT 'all',
    status TEXT NOT NULL DEFAULT 'open', created_on TEXT NOT NULL
);
CREATE TABLE survey_answers (
    survey_id INTEGER NOT NULL REFERENCES surveys ON DELETE CASCADE, client_id INTEGER NOT NULL REFERENCES clients ON DELETE CASCADE,
    score INTEGER NOT NULL, comment TEXT, day TEXT NOT NULL, PRIMARY KEY (survey_id, client_id)
);

-- The row of a membership stays 'active' or 'frozen' after its last day. This view has the status that applies today.
CREATE VIEW membership_view AS
SELECT m.id AS membership_id, c.name AS client,
       CASE WHEN m.status = 'cancelled' THEN 'cancelled'
            WHEN m.ends_on < today() THEN 'expired'
            WHEN m.status = 'frozen' AND m.frozen_until < today() THEN 'active'
            ELSE m.status END AS status,
       m.frozen_from, m.frozen_until, p.name AS plan, m.starts_on, m.ends_on, m.price, m.client_id, m.plan_id, m.sold_on
FROM memberships m JOIN clients c ON c.id = m.client_id JOIN plans p ON p.id = m.plan_id;

-- The current membership of each client: of those that have begun, the one that began last; if none has begun, the one that
-- begins last.
CREATE VIEW current_membership AS
SELECT v.* FROM membership_view v
WHERE v.membership_id = (
    SELECT m.id FROM memberships m WHERE m.client_id = v.client_id
    ORDER BY m.starts_on <= today() DESC, m.starts_on DESC, m.id DESC LIMIT 1
);

CREATE VIEW client_view AS
SELECT c.id AS client_id, c.name, c.status, c.phone, c.email, c.gender, c.birth_date, c.joined_on, c.trainer_id,
       t.name AS trainer, b.name AS branch, m.membership_id, m.plan, m.status AS membership_status, m.ends_on AS membership_ends_on,
       (SELECT max(a.day) FROM attendance a WHERE a.client_id = c.id) AS last_visit
FROM clients c LEFT JOIN staff t ON t.id = c.trainer_id LEFT JOIN branches b ON b.id = c.branch_id
LEFT JOIN current_membership m ON m.client_id = c.id;

CREATE VIEW attendance_view AS
SELECT a.id AS attendance_id, a.client_id, c.name AS client, a.day, a.checked_in_at, a.checked_out_at
FROM attendance a JOIN clients c ON c.id = a.client_id;

CREATE VIEW branch_view AS
SELECT b.id AS branch_id, b.name, b.city, b.address, b.phone, b.opens_at, b.closes_at,
       (SELECT count(*) FROM clients c WHERE c.branch_id = b.id) AS clients
FROM branches b;

CREATE VIEW staff_view AS
SELECT id AS staff_id, name, role, status, specialty, phone, email, monthly_salary, hired_on FROM staff;

CREATE VIEW trainer_view AS
SELECT s.id AS trainer_id, s.name, s.status, s.specialty, s.phone, s.email,
       (SELECT count(*) FROM clients c WHERE c.trainer_id = s.id AND c.status = 'active') AS clients,
       (SELECT count(*) FROM class_sessions k WHERE k.trainer_id = s.id AND k.day >= today()) AS upcoming_classes,
       (SELECT count(*) FROM appointments a WHERE a.trainer_id = s.id AND a.day >= today() AND a.status = 'booked')
           AS upcoming_appointments
FROM staff s WHERE s.role = 'trainer';

CREATE VIEW salary_view AS
SELECT p.id AS salary_id, p.staff_id, s.name AS staff, s.role, p.month, p.amount, p.bonus, p.amount + p.bonus AS total, p.status,
       p.paid_on
FROM salaries p JOIN staff s ON s.id = p.staff_id;

CREATE VIEW payment_view AS
SELECT p.id AS payment_id, p.client_id, c.name AS client, p.kind, p.amount, p.method, p.paid_on
FROM payments p LEFT JOIN clients c ON c.id = p.client_id;

CREATE VIEW enquiry_view AS
SELECT id AS enquiry_id, name, status, phone, email, interest, message, created_on FROM enquiries;

CREATE VIEW lead_view AS
SELECT l.id AS lead_id, l.name, l.stage, l.phone, l.email, l.interest, l.channel, l.value, l.owner_id, s.name AS owner,
       l.client_id, l.created_on
FROM leads l LEFT JOIN staff s ON s.id = l.owner_id;

CREATE VIEW follow_up_view AS
SELECT f.id AS follow_up_id, f.lead_id, l.name AS lead, f.due_on, f.method, f.remark, f.status
FROM follow_ups f JOIN leads l ON l.id = f.lead_id;

CREATE VIEW referral_view AS
SELECT r.id AS referral_id, r.client_id, c.name AS referred_by, r.friend_name, r.friend_phone, r.status, r.created_on
FROM referrals r JOIN clients c ON c.id = r.client_id;

CREATE VIEW facility_view AS
SELECT id AS facility_id, name, kind, status, capacity, opens_at, closes_at, description FROM facilities;

CREATE VIEW amenity_view AS
SELECT a.id AS amenity_id, a.name, a.description, a.fee, f.name AS facility
FROM amenities a LEFT JOIN facilities f ON f.id = a.facility_id;

CREATE VIEW equipment_view AS
SELECT e.id AS equipment_id, e.name, e.kind, e.status, f.name AS facility, e.bought_on, e.last_service_on, e.next_service_on
FROM equipment e LEFT JOIN facilities f ON f.id = e.facility_id;

CREATE VIEW diet_view AS
SELECT d.id AS diet_id, d.name, d.aim, d.calories, d.description,
       (SELECT count(*) FROM diet_assignments a WHERE a.diet_id = d.id) AS clients
FROM diets d;

CREATE VIEW plan_view AS
SELECT p.id AS plan_id, p.name, p.months, p.price, p.status, p.description,
       (SELECT count(*) FROM current_membership m WHERE m.plan_id = p.id AND m.status = 'active') AS active_memberships
FROM plans p;

CREATE VIEW offer_view AS
SELECT o.id AS offer_id, o.code, o.title, o.discount_percent, o.plan_id, coalesce(p.name, 'every plan') AS plan,
       CASE WHEN o.ends_on < today() THEN 'expired' WHEN o.starts_on > today() THEN 'upcoming'
            WHEN o.uses >= o.max_uses THEN 'used_up' ELSE 'running' END AS status,
       o.starts_on, o.ends_on, o.uses, o.max_uses
FROM offers o LEFT JOIN plans p ON p.id = o.plan_id;

CREATE VIEW template_view AS SELECT id AS template_id, name, kind, version FROM document_templates;

CREATE VIEW document_view AS
SELECT d.id AS document_id, d.client_id, c.name AS client, t.name AS document, t.kind, d.status, d.sent_on, d.signed_on
FROM documents d JOIN clients c ON c.id = d.client_id JOIN document_templates t ON t.id = d.template_id;

CREATE VIEW goal_view AS
SELECT g.id AS goal_id, g.client_id, c.name AS client, g.title, g.status, g.unit, g.start_value, g.current_value, g.target_value,
       CASE WHEN g.target_value = g.start_value THEN 100.0
            ELSE round(100.0 * (g.current_value - g.start_value) / (g.target_value - g.start_value), 1) END AS percent_done,
       g.due_on
FROM goals g JOIN clients c ON c.id = g.client_id;

CREATE VIEW milestone_view AS
SELECT id AS milestone_id, goal_id, title, target_value, due_on, status FROM goal_milestones;

CREATE VIEW photo_view AS
SELECT p.id AS photo_id, p.client_id, c.name AS client, p.taken_on, p.pose, p.weight_kg, p.caption, p.file
FROM photos p JOIN clients c ON c.id = p.client_id;

CREATE VIEW note_view AS
SELECT n.id AS note_id, n.client_id, c.name AS client, n.kind, n.text, s.name AS author, n.created_on
FROM notes n JOIN clients c ON c.id = n.client_id LEFT JOIN staff s ON s.id = n.author_id;

CREATE VIEW class_type_view AS
SELECT t.id AS class_type_id, t.name, t.level, t.minutes, t.description,
       (SELECT count(*) FROM class_sessions s WHERE s.class_type_id = t.id AND s.day >= today()) AS upcoming_sessions
FROM class_types t;

CREATE VIEW session_view AS
SELECT s.id AS session_id, s.class_type_id, t.name AS class, s.day, s.starts_at, t.minutes, s.trainer_id, f.name AS trainer,
       s.capacity, (SELECT count(*) FROM bookings b WHERE b.session_id = s.id) AS booked
FROM class_sessions s JOIN class_types t ON t.id = s.class_type_id LEFT JOIN staff f ON f.id = s.trainer_id;

CREATE VIEW booking_view AS
SELECT b.id AS booking_id, b.session_id, v.class, v.day, v.starts_at, b.client_id, c.name AS client, b.booked_on
FROM bookings b JOIN session_view v ON v.session_id = b.session_id JOIN clients c ON c.id = b.client_id;

CREATE VIEW service_view AS SELECT id AS service_id, name, minutes, price, description FROM services;

CREATE VIEW appointment_view AS
SELECT a.id AS appointment_id, a.client_id, c.name AS client, a.service_id, s.name AS service, a.trainer_id, t.name AS trainer,
       a.day, a.starts_at, a.status
FROM appointments a JOIN clients c ON c.id = a.client_id JOIN services s ON s.id = a.service_id
JOIN staff t ON t.id = a.trainer_id;

CREATE VIEW guest_view AS
SELECT g.id AS guest_visit_id, g.name, g.phone, g.client_id, c.name AS invited_by, g.day, g.kind, g.joined
FROM guests g LEFT JOIN clients c ON c.id = g.client_id;

CREATE VIEW product_view AS
SELECT id AS product_id, name, kind, price, stock, reorder_level,
       CASE WHEN stock = 0 THEN 'sold_out' WHEN stock <= reorder_level THEN 'low' ELSE 'in_stock' END AS status
FROM products;

CREATE VIEW campaign_view AS
SELECT id AS campaign_id, name, channel, status, starts_on, ends_on, sent, joined FROM campaigns;

CREATE VIEW challenge_view AS
SELECT h.id AS challenge_id, h.name, h.metric, h.target, h.prize, h.starts_on, h.ends_on,
       CASE WHEN h.ends_on < today() THEN 'finished' WHEN h.starts_on > today() THEN 'upcoming' ELSE 'running' END AS status,
       (SELECT count(*) FROM challenge_entries e WHERE e.challenge_id = h.id) AS participants
FROM challenges h;

CREATE VIEW leaderboard_view AS
SELECT e.challenge_id, rank() OVER (PARTITION BY e.challenge_id ORDER BY e.score DESC) AS place, e.client_id, c.name AS client,
       e.score, e.joined_on
FROM challenge_entries e JOIN clients c ON c.id = e.client_id;

CREATE VIEW balance_view AS
SELECT c.id AS client_id, c.name AS client, coalesce(sum(p.points), 0) AS points
FROM clients c LEFT JOIN points p ON p.client_id = c.id GROUP BY c.id;

CREATE VIEW reward_view AS SELECT id AS reward_id, name, points, stock, description FROM rewards;

CREATE VIEW wearable_view AS
SELECT w.id AS connection_id, w.client_id, c.name AS client, w.brand, w.status, w.connected_on, w.last_synced_on
FROM wearables w JOIN clients c ON c.id = w.client_id;

CREATE VIEW survey_view AS
SELECT s.id AS survey_id, s.title, s.question, s.audience, s.status, s.created_on,
       (SELECT count(*) FROM survey_answers a WHERE a.survey_id = s.id) AS answers
FROM surveys s;

-- The engagement score of each active client, 0 to 100: 5 points for a visit and 2 for a booking of the last 30 days.
CREATE VIEW engagement_view AS
SELECT v.client_id, v.client, v.visits_30_days, v.bookings_30_days, v.last_visit,
       min(100, v.visits_30_days * 5 + v.bookings_30_days * 2) AS score,
       CASE WHEN v.visits_30_days = 0 THEN 'high' WHEN v.visits_30_days < 4 THEN 'medium' ELSE 'low' END AS churn_risk
FROM (
    SELECT c.id AS client_id, c.name AS client,
           (SELECT count(*) FROM attendance a WHERE a.client_id = c.id AND a.day > date(today(), '-30 days')) AS visits_30_days,
           (SELECT count(*) FROM bookings b WHERE b.client_id = c.id AND b.booked_on > date(today(), '-30 days')) AS bookings_30_days,
           (SELECT max(a.day) FROM attendance a WHERE a.client_id = c.id) AS last_visit
    FROM clients c WHERE c.status = 'active'
) v;
