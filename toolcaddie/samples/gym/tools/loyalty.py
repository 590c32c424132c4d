"""The sample gym's tools for keeping clients: engagement and the risk that a client leaves, challenges, points and rewards,
surveys.

Each tool is an `Operation`, which `database.py` runs. `TOOLS` has the operations by category.
"""

from __future__ import annotations

from toolcaddie.samples.gym.ids import CHALLENGE, CLIENT, REWARD, SURVEY
from toolcaddie.samples.gym.operations import (
    Operation,
    Param,
    act,
    choice,
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
    whole,
)

ENGAGEMENT: tuple[Operation, ...] = (
    reading(
        "get_engagement_dashboard",
        "Get engagement figures: average score, how many active clients are at low, medium and high risk, and the keenest ones.",
        figures(
            "SELECT count(*) AS clients, round(avg(score), 1) AS average_score, sum(churn_risk = 'low') AS low_risk,"
            " sum(churn_risk = 'medium') AS medium_risk, sum(churn_risk = 'high') AS high_risk FROM engagement_view"
        ),
        rows(
            "most_engaged",
            "SELECT client_id, client, score, visits_30_days FROM engagement_view ORDER BY score DESC, client LIMIT 5",
        ),
    ),
    listing(
        "get_churn_alerts",
        "List clients at risk of leaving (churn) because they hardly come any more, the worst first.",
        "alerts",
        "engagement_view",
        Param(
            name="risk",
            schema={"type": "string", "description": "Only clients at this risk.", "enum": ["medium", "high"]},
            where="churn_risk = :risk",
        ),
        filters=("churn_risk <> 'low'",),
        order="score, coalesce(last_visit, ''), client",
        hints=("about to quit", "retention"),
    ),
    reading(
        "get_client_engagement",
        "Get one client's engagement score, visits and bookings of the last 30 days, and churn risk.",
        row("engagement", "engagement_view", "client_id = :client_id"),
        requires=(CLIENT,),
        refusals=(
            refuse(
                "SELECT name FROM clients WHERE id = :client_id AND status <> 'active'",
                "{name} is inactive and has no score; reactivate_client brings them back.",
            ),
        ),
    ),
)

GAMIFICATION: tuple[Operation, ...] = (
    listing(
        "get_challenges",
        "List fitness challenges with challenge_id, metric, target, prize, dates and number of participants.",
        "challenges",
        "challenge_view",
        search("name"),
        choice("status", "Only challenges in this state.", "running", "upcoming", "finished"),
        order="starts_on DESC",
    ),
    listing(
        "get_challenge_leaderboard",
        "Get the leaderboard (ranking) of a challenge: who leads, with scores.",
        "leaderboard",
        "leaderboard_view",
        requires=(CHALLENGE,),
        order="place, client",
        hints=("who is winning",),
    ),
    create(
        "create_challenge",
        "Create a new fitness challenge with a target, a metric and an end date.",
        "challenges",
        row("challenge", "challenge_view", "challenge_id = :new_id"),
        requires=(
            text("name", "Name of the challenge."),
            free(choice("metric", "What is counted.", "visits", "steps", "calories", "minutes")),
            whole("target", "What is to be reached.", least=1),
            day("ends_on", "Last day."),
        ),
        takes=(day("starts_on", "First day; today if not given."), text("prize", "What the winner gets.")),
        values={"starts_on": "coalesce(:starts_on, today())"},
        refusals=(
            refuse(
                "SELECT id FROM challenges WHERE name = :name",
                "There is already a challenge {name!r} (challenge_id {id}); use another name.",
            ),
            refuse(
                "SELECT 1 WHERE :ends_on < coalesce(:starts_on, today())", "The challenge would end before it starts."
            ),
        ),
    ),
    act(
        "join_challenge",
        "Enter a client into a fitness challenge, with a score of 0 to begin with.",
        "INSERT INTO challenge_entries (challenge_id, client_id, joined_on) VALUES (:challenge_id, :client_id, today())",
        show=row("entry", "leaderboard_view", "challenge_id = :challenge_id AND client_id = :client_id"),
        requires=(CLIENT, CHALLENGE),
        refusals=(
            refuse(
                "SELECT client, joined_on FROM leaderboard_view WHERE challenge_id = :challenge_id AND client_id = :client_id",
                "{client} takes part in this challenge since {joined_on}.",
            ),
            refuse(
                "SELECT name, ends_on FROM challenge_view WHERE challenge_id = :challenge_id AND status = 'finished'",
                "The challenge {name!r} ended on {ends_on}; get_challenges(status='running') lists those to join.",
            ),
        ),
    ),
)

LOYALTY: tuple[Operation, ...] = (
    reading(
        "get_loyalty_dashboard",
        "Get figures of the loyalty programme: points given and redeemed, and the clients with most points.",
        figures(
            "SELECT coalesce(sum(points) FILTER (WHERE points > 0), 0) AS points_given,"
            " coalesce(-sum(points) FILTER (WHERE points < 0), 0) AS points_redeemed, coalesce(sum(points), 0) AS points_open,"
            " count(DISTINCT client_id) AS clients FROM points"
        ),
        rows("top_clients", "SELECT client_id, client, points FROM balance_view ORDER BY points DESC, client LIMIT 5"),
    ),
    listing(
        "get_available_rewards",
        "List the loyalty rewards clients can redeem with reward_id and cost in points; with a client, those they can afford.",
        "rewards",
        "reward_view",
        free(
            CLIENT,
            description="Id of a client, from get_clients_list: only rewards they have points for.",
            where="points <= (SELECT points FROM balance_view WHERE client_id = :client_id)",
        ),
        search("name", "description"),
        filters=("stock > 0",),
        order="points",
    ),
    reading(
        "get_loyalty_points",
        "Get a client's loyalty points: the balance and the last entries.",
        row("balance", "balance_view", "client_id = :client_id"),
        rows(
            "entries",
            "SELECT day, points, reason FROM points WHERE client_id = :client_id ORDER BY day DESC, id DESC LIMIT 10",
        ),
        requires=(CLIENT,),
        hints=("points balance",),
    ),
    act(
        "redeem_reward",
        "Redeem a loyalty reward for a client: the points come off their balance.",
        "INSERT INTO points (client_id, points, reason, day)"
        " SELECT :client_id, -points, 'Redeemed: ' || name, today() FROM rewards WHERE id = :reward_id",
        "UPDATE rewards SET stock = stock - 1 WHERE id = :reward_id",
        show=figures(
            "SELECT b.client_id, b.client, r.name AS reward, r.points AS cost, b.points AS points_left"
            " FROM balance_view b, rewards r WHERE b.client_id = :client_id AND r.id = :reward_id"
        ),
        requires=(CLIENT, REWARD),
        refusals=(
            refuse(
                "SELECT name FROM rewards WHERE id = :reward_id AND stock < 1",
                "{name} has run out; choose another reward.",
            ),
            refuse(
                "SELECT b.client, b.points, r.name, r.points AS cost FROM balance_view b, rewards r"
                " WHERE b.client_id = :client_id AND r.id = :reward_id AND b.points < r.points",
                "{client} has {points} points and {name} costs {cost}; get_available_rewards with the client_id lists what they "
                "can afford.",
            ),
        ),
        idempotent=False,
    ),
)

SURVEYS: tuple[Operation, ...] = (
    listing(
        "get_surveys",
        "List surveys (feedback questionnaires) with survey_id, question, state and number of answers.",
        "surveys",
        "survey_view",
        search("title", "question"),
        choice("status", "Only surveys in this state.", "open", "closed"),
        order="created_on DESC",
        hints=("feedback", "questionnaire"),
    ),
    reading(
        "get_survey_analytics",
        "Get the results of a survey: answers, average score, net promoter score, spread and comments.",
        row("survey", "survey_view", "survey_id = :survey_id"),
        figures(
            "SELECT count(*) AS answers, round(avg(score), 2) AS average_score,"
            " round(100.0 * (sum(score >= 9) - sum(score <= 6)) / nullif(count(*), 0)) AS net_promoter_score"
            " FROM survey_answers WHERE survey_id = :survey_id"
        ),
        rows(
            "spread",
            "SELECT score, count(*) AS answers FROM survey_answers WHERE survey_id = :survey_id GROUP BY 1 ORDER BY 1 DESC",
        ),
        rows(
            "comments",
            "SELECT day, score, comment FROM survey_answers WHERE survey_id = :survey_id AND comment IS NOT NULL"
            " ORDER BY day DESC LIMIT 10",
        ),
        requires=(SURVEY,),
    ),
    create(
        "create_survey",
        "Create a new survey with one question that clients answer from 0 to 10.",
        "surveys",
        row("survey", "survey_view", "survey_id = :new_id"),
        requires=(text("title", "Title of the survey."), text("question", "The question.", most=500)),
        takes=(choice("audience", "Who is asked.", "all", "active", "new", default="all"),),
        values={"created_on": "today()"},
    ),
)

TOOLS = {"engagement": ENGAGEMENT, "gamification": GAMIFICATION, "loyalty": LOYALTY, "surveys": SURVEYS}
