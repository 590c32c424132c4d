"""The sample gym's tools for sales: revenue, plans, offers, leads, enquiries, referrals, campaigns, guests, the shop.

Each tool is an `Operation`, which `database.py` runs. `TOOLS` has the operations by category.
"""

from __future__ import annotations

from toolcaddie.samples.gym.ids import CAMPAIGN, CLIENT, ENQUIRY, LEAD, OFFER, OWNER, PLAN, PRODUCT, REFERRAL
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

_STAGES = ("new", "contacted", "trial", "negotiation", "won", "lost")
_CHANNELS = ("walk_in", "website", "phone", "social_media", "referral")

_SINCE = "paid_on > date(today(), '-' || :days || ' days')"

REVENUE: tuple[Operation, ...] = (
    reading(
        "get_revenue_stats",
        "Get the gym's revenue (income, earnings, payments) of the last days: total, this month, by kind, method and month.",
        figures(
            "SELECT coalesce(sum(amount), 0) AS total, count(*) AS payments, round(avg(amount), 2) AS average,"
            " (SELECT coalesce(sum(amount), 0) FROM payments WHERE paid_on >= date(today(), 'start of month')) AS this_month"
            f" FROM payments WHERE {_SINCE}"
        ),
        rows(
            "by_kind",
            f"SELECT kind, sum(amount) AS amount, count(*) AS payments FROM payments WHERE {_SINCE} GROUP BY 1 ORDER BY 2 DESC",
        ),
        rows(
            "by_method", f"SELECT method, sum(amount) AS amount FROM payments WHERE {_SINCE} GROUP BY 1 ORDER BY 2 DESC"
        ),
        rows(
            "by_month",
            "SELECT strftime('%Y-%m', paid_on) AS month, sum(amount) AS amount FROM payments GROUP BY 1 ORDER BY 1 DESC LIMIT 6",
        ),
        takes=(days_back("payments"),),
    ),
    listing(
        "get_membership_sales",
        "List memberships that were sold, with client, plan, price and day, the latest first.",
        "sales",
        "(SELECT membership_id, client_id, client, plan_id, plan, price, sold_on FROM membership_view)",
        *period("sold_on", "sales"),
        PLAN,
        order="sold_on DESC, client",
    ),
)

_PLAN = row("plan", "plan_view", "plan_id = :plan_id")

PLANS: tuple[Operation, ...] = (
    listing(
        "get_membership_plans",
        "List the membership plans on sale with price and length in months; find one by name.",
        "plans",
        "plan_view",
        search("name", "description"),
        choice("status", "Only plans still sold, or withdrawn ones.", "available", "withdrawn"),
        order="price",
        hints=("price list", "packages"),
    ),
    create(
        "create_plan",
        "Add a new membership plan with its price and length in months.",
        "plans",
        row("plan", "plan_view", "plan_id = :new_id"),
        requires=(
            text("name", "Name of the plan."),
            whole("months", "How many months it runs.", least=1, most=60),
            amount("price", "Price of the whole plan."),
        ),
        takes=(text("description", "What it includes.", most=1000),),
        refusals=(
            refuse(
                "SELECT id FROM plans WHERE name = :name",
                "There is already a plan {name!r} (plan_id {id}); change it with update_plan.",
            ),
        ),
    ),
    update(
        "update_plan",
        "Change a membership plan's price, length or description, or withdraw it from sale.",
        "plans",
        _PLAN,
        PLAN,
        whole("months", "How many months it runs.", least=1, most=60),
        amount("price", "New price."),
        text("description", "What it includes.", most=1000),
        choice("status", "Whether it is sold.", "available", "withdrawn"),
    ),
    remove(
        "delete_plan",
        "Delete a membership plan nobody ever bought. One that was sold is withdrawn with update_plan.",
        "plans",
        PLAN,
        refusals=(
            refuse(
                "SELECT count(*) AS sold FROM memberships WHERE plan_id = :plan_id HAVING sold > 0",
                "This plan was sold {sold} times and cannot be deleted; withdraw it with update_plan(status='withdrawn').",
            ),
        ),
    ),
)

_OFFER_FIELDS: tuple[Param, ...] = (
    text("title", "What the offer says."),
    amount("discount_percent", "Percent off the price.", most=100),
)
_OFFER_DATES: tuple[Param, ...] = (
    day("starts_on", "First day it counts."),
    day("ends_on", "Last day it counts."),
    whole("max_uses", "How often it can be used in all.", least=1, most=1_000_000),
)

OFFERS: tuple[Operation, ...] = (
    listing(
        "get_offers_list",
        "List the gym's offers (discounts, promo codes) with code, percent, dates and whether they run now.",
        "offers",
        "offer_view",
        search("title", "code"),
        choice("status", "Only offers in this state.", "running", "upcoming", "expired", "used_up"),
        order="ends_on",
    ),
    reading(
        "validate_offer_code",
        "Check whether a promo code can be used now, and what discount it gives on which plan.",
        figures(
            "SELECT o.code, CASE o.status WHEN 'running' THEN 'valid' ELSE 'not valid: ' || o.status END AS verdict, o.offer_id,"
            " o.title, o.discount_percent, o.plan, o.ends_on, o.max_uses - o.uses AS uses_left"
            " FROM offer_view o WHERE o.code = upper(trim(:code))"
        ),
        requires=(text("code", "The code, as the customer says it.", most=40),),
        refusals=(
            refuse(
                "SELECT 1 WHERE upper(trim(:code)) NOT IN (SELECT code FROM offers)",
                "There is no offer with the code {code!r}; get_offers_list lists all codes.",
            ),
        ),
    ),
    create(
        "create_offer",
        "Create a new offer with a promo code and a discount in percent, for one plan or for all of them.",
        "offers",
        row("offer", "offer_view", "offer_id = :new_id"),
        requires=(
            Param(
                name="code",
                schema={
                    "type": "string",
                    "description": "The code customers say, in capitals, without spaces.",
                    "pattern": "^[A-Z0-9_-]{3,20}$",
                },
            ),
            *_OFFER_FIELDS,
        ),
        takes=(*_OFFER_DATES, PLAN),
        values={
            "starts_on": "coalesce(:starts_on, today())",
            "ends_on": "coalesce(:ends_on, date(coalesce(:starts_on, today()), '+30 days'))",
        },
        refusals=(
            refuse(
                "SELECT id FROM offers WHERE code = :code",
                "The code {code!r} is taken (offer_id {id}); choose another.",
            ),
            refuse(
                "SELECT 1 WHERE :ends_on < coalesce(:starts_on, today())",
                "The offer would end before it starts; correct the dates.",
            ),
        ),
    ),
    update(
        "update_offer",
        "Change an offer's title, discount, dates or number of uses.",
        "offers",
        row("offer", "offer_view", "offer_id = :offer_id"),
        OFFER,
        *_OFFER_FIELDS,
        *_OFFER_DATES,
        refusals=(
            refuse(
                "SELECT 1 FROM offers WHERE id = :offer_id AND coalesce(:ends_on, ends_on) < coalesce(:starts_on, starts_on)",
                "The offer would end before it starts; correct the dates.",
            ),
        ),
    ),
    remove("delete_offer", "Delete an offer and its promo code for good.", "offers", OFFER),
)

_LEAD = row("lead", "lead_view", "lead_id = :lead_id")
_LEAD_CONTACT: tuple[Param, ...] = (
    text("phone", "Phone number.", most=40),
    text("email", "E-mail address."),
    text("interest", "What they are interested in."),
    amount("value", "What the sale would be worth."),
)

LEADS: tuple[Operation, ...] = (
    listing(
        "get_leads_list",
        "Find leads (possible customers in the sales pipeline, CRM) by name, or list them by stage or channel. Gives each "
        "one's lead_id.",
        "leads",
        "lead_view",
        search("name", "phone", "email"),
        choice("stage", "Only leads at this stage.", *_STAGES),
        choice("channel", "Only leads that came this way.", *_CHANNELS),
        OWNER,
        order="created_on DESC, name",
    ),
    reading(
        "get_lead_details",
        "Get everything about one lead: contact, stage, value, owner and follow-ups.",
        _LEAD,
        rows("follow_ups", "SELECT * FROM follow_up_view WHERE lead_id = :lead_id ORDER BY due_on"),
        requires=(LEAD,),
    ),
    create(
        "create_lead",
        "Add a new lead (possible customer) to the sales pipeline.",
        "leads",
        row("lead", "lead_view", "lead_id = :new_id"),
        requires=(text("name", "Full name."),),
        takes=(*_LEAD_CONTACT, choice("channel", "How they came to us.", *_CHANNELS, default="walk_in"), OWNER),
        values={"created_on": "today()"},
    ),
    update(
        "update_lead",
        "Change a lead's contact, interest, value or the staff member who looks after them.",
        "leads",
        _LEAD,
        LEAD,
        text("name", "New full name."),
        *_LEAD_CONTACT,
        OWNER,
    ),
    act(
        "update_lead_stage",
        "Move a lead to another stage of the sales pipeline.",
        "UPDATE leads SET stage = :stage WHERE id = :lead_id",
        show=_LEAD,
        requires=(LEAD, free(choice("stage", "The new stage.", *_STAGES))),
        hints=("move lead", "pipeline"),
    ),
    remove("delete_lead", "Delete a lead and its follow-ups for good.", "leads", LEAD),
    act(
        "convert_lead",
        "Convert a lead into a client: the client is created with the lead's contact and the lead is won.",
        "INSERT INTO clients (name, email, phone, joined_on) SELECT name, email, phone, today() FROM leads WHERE id = :lead_id",
        "UPDATE leads SET stage = 'won', client_id = :new_id WHERE id = :lead_id",
        show=row("client", "client_view", "client_id = :new_id"),
        requires=(LEAD,),
        refusals=(
            refuse(
                "SELECT name, client_id FROM leads WHERE id = :lead_id AND client_id IS NOT NULL",
                "{name} was converted already and is client {client_id}.",
            ),
        ),
    ),
    reading(
        "get_lead_stats",
        "Get figures of the sales pipeline: leads and value at each stage, by channel, and the conversion rate.",
        figures(
            "SELECT count(*) AS leads, sum(stage = 'won') AS won, sum(stage = 'lost') AS lost,"
            " round(100.0 * sum(stage = 'won') / count(*), 1) AS conversion_percent,"
            " sum(value) FILTER (WHERE stage NOT IN ('won', 'lost')) AS open_value FROM leads"
        ),
        rows("by_stage", "SELECT stage, count(*) AS leads, sum(value) AS value FROM leads GROUP BY 1 ORDER BY 2 DESC"),
        rows("by_channel", "SELECT channel, count(*) AS leads FROM leads GROUP BY 1 ORDER BY 2 DESC"),
    ),
    create(
        "add_lead_follow_up",
        "Plan a follow-up with a lead: a call, message, e-mail or visit on some day.",
        "follow_ups",
        row("follow_up", "follow_up_view", "follow_up_id = :new_id"),
        requires=(LEAD, day("due_on", "When to follow up.")),
        takes=(
            choice("method", "How.", "call", "message", "email", "visit", default="call"),
            text("remark", "What to talk about.", most=1000),
        ),
    ),
    listing(
        "get_lead_follow_ups",
        "List planned follow-ups with leads, open ones first to come, by lead or due date.",
        "follow_ups",
        "follow_up_view",
        LEAD,
        choice("status", "Only follow-ups in this state.", "open", "done"),
        *period("due_on", "follow-ups due"),
        order="due_on",
    ),
)

_ENQUIRY_STATES = ("new", "contacted", "closed")

ENQUIRIES: tuple[Operation, ...] = (
    listing(
        "get_enquiries_list",
        "List enquiries (questions from people who asked about the gym) by status or name, the latest first.",
        "enquiries",
        "enquiry_view",
        search("name", "phone", "email", "interest"),
        choice("status", "Only enquiries in this state.", *_ENQUIRY_STATES),
        order="created_on DESC, name",
    ),
    create(
        "create_enquiry",
        "Record a new enquiry: somebody asked about the gym, with contact and what they want to know.",
        "enquiries",
        row("enquiry", "enquiry_view", "enquiry_id = :new_id"),
        requires=(text("name", "Full name."),),
        takes=(
            text("phone", "Phone number.", most=40),
            text("email", "E-mail address."),
            text("interest", "What they asked about."),
            text("message", "Their words.", most=2000),
        ),
        values={"created_on": "today()"},
    ),
    update(
        "update_enquiry",
        "Change an enquiry: mark it as contacted or closed, or correct what it says.",
        "enquiries",
        row("enquiry", "enquiry_view", "enquiry_id = :enquiry_id"),
        ENQUIRY,
        choice("status", "New state.", *_ENQUIRY_STATES),
        text("interest", "What they asked about."),
        text("message", "Their words.", most=2000),
    ),
    reading(
        "get_enquiry_stats",
        "Count enquiries by state and by what people asked about, in all and in the last 30 days.",
        figures(
            "SELECT count(*) AS enquiries, sum(status = 'new') AS new, sum(status = 'contacted') AS contacted,"
            " sum(status = 'closed') AS closed, sum(created_on > date(today(), '-30 days')) AS last_30_days FROM enquiries"
        ),
        rows(
            "by_interest",
            "SELECT coalesce(interest, 'unknown') AS interest, count(*) AS enquiries FROM enquiries GROUP BY 1 ORDER BY 2 DESC",
        ),
    ),
)

_REFERRAL_STATES = ("invited", "joined", "rewarded", "declined")

REFERRALS: tuple[Operation, ...] = (
    listing(
        "get_referrals_list",
        "List referrals (friends that clients brought) with who referred whom and how it stands.",
        "referrals",
        "referral_view",
        search("referred_by", "friend_name"),
        CLIENT,
        choice("status", "Only referrals in this state.", *_REFERRAL_STATES),
        order="created_on DESC, friend_name",
    ),
    create(
        "create_referral",
        "Record that a client referred a friend, with the friend's name and phone.",
        "referrals",
        row("referral", "referral_view", "referral_id = :new_id"),
        requires=(CLIENT, text("friend_name", "Full name of the friend.")),
        takes=(text("friend_phone", "Phone number of the friend.", most=40),),
        values={"created_on": "today()"},
        hints=("recommended a friend",),
    ),
    act(
        "update_referral_status",
        "Set how a referral stands: the friend joined, declined, or the client was rewarded.",
        "UPDATE referrals SET status = :status WHERE id = :referral_id",
        show=row("referral", "referral_view", "referral_id = :referral_id"),
        requires=(REFERRAL, free(choice("status", "The new state.", *_REFERRAL_STATES))),
    ),
    reading(
        "get_referral_stats",
        "Count referrals by state, and how many of the referred friends joined.",
        figures(
            "SELECT count(*) AS referrals, sum(status = 'invited') AS invited,"
            " sum(status IN ('joined', 'rewarded')) AS joined, sum(status = 'declined') AS declined,"
            " round(100.0 * sum(status IN ('joined', 'rewarded')) / count(*), 1) AS joined_percent FROM referrals"
        ),
    ),
    reading(
        "get_top_referrers",
        "List the clients who referred the most friends.",
        rows(
            "top_referrers",
            "SELECT client_id, referred_by AS client, count(*) AS referrals, sum(status IN ('joined', 'rewarded')) AS joined"
            " FROM referral_view GROUP BY client_id ORDER BY 3 DESC, 4 DESC, 2 LIMIT :limit",
        ),
        takes=(whole("limit", "How many clients.", least=1, most=100, default=10),),
    ),
)

GUESTS: tuple[Operation, ...] = (
    listing(
        "get_guest_visits",
        "List visits of guests (day passes, trial visits, friends of clients), the latest first.",
        "guest_visits",
        "guest_view",
        search("name", "invited_by"),
        choice("kind", "Only visits of this kind.", "day_pass", "trial", "friend"),
        *period("day", "visits"),
        order="day DESC, name",
        hints=("visitors",),
    ),
    reading(
        "get_guest_visit_stats",
        "Count guest visits of the last days by kind, and how many of the guests joined afterwards.",
        figures(
            "SELECT count(*) AS visits, coalesce(sum(joined = 'yes'), 0) AS joined,"
            " round(100.0 * sum(joined = 'yes') / count(*), 1) AS joined_percent"
            " FROM guests WHERE day > date(today(), '-' || :days || ' days')"
        ),
        rows(
            "by_kind",
            "SELECT kind, count(*) AS visits FROM guests WHERE day > date(today(), '-' || :days || ' days')"
            " GROUP BY 1 ORDER BY 2 DESC",
        ),
        takes=(days_back("visits", default=90),),
    ),
)

PRODUCTS: tuple[Operation, ...] = (
    listing(
        "get_products",
        "List the products in the gym's shop (drinks, supplements, clothes) with price and stock; find one by name.",
        "products",
        "product_view",
        search("name", "kind"),
        choice("kind", "Only products of this kind.", "drink", "supplement", "clothing", "accessory"),
        order="name",
    ),
    listing(
        "get_low_stock_products",
        "List products that are running out: stock at or below the reorder level, sold out ones first.",
        "products",
        "product_view",
        filters=("status <> 'in_stock'",),
        order="stock, name",
        hints=("reorder", "sold out"),
    ),
    act(
        "update_product_stock",
        "Set how many pieces of a product are in stock after a delivery or a count.",
        "UPDATE products SET stock = :stock WHERE id = :product_id",
        show=row("product", "product_view", "product_id = :product_id"),
        requires=(PRODUCT, whole("stock", "Pieces there are now.", most=1_000_000)),
    ),
)

CAMPAIGNS: tuple[Operation, ...] = (
    listing(
        "get_campaigns",
        "List marketing campaigns with channel, dates, how many people got them and how many joined.",
        "campaigns",
        "campaign_view",
        search("name"),
        choice("status", "Only campaigns in this state.", "draft", "running", "finished"),
        choice("channel", "Only campaigns on this channel.", "email", "sms", "social_media"),
        order="starts_on DESC",
    ),
    reading(
        "get_campaign_details",
        "Get one marketing campaign with its message, budget, open and click rates, and cost for each person who joined.",
        row("campaign", "campaign_view", "campaign_id = :campaign_id"),
        figures(
            "SELECT message, budget, opened, clicked, round(100.0 * opened / nullif(sent, 0), 1) AS opened_percent,"
            " round(100.0 * clicked / nullif(sent, 0), 1) AS clicked_percent,"
            " round(budget / nullif(joined, 0), 2) AS cost_per_join FROM campaigns WHERE id = :campaign_id"
        ),
        requires=(CAMPAIGN,),
    ),
)

TOOLS = {
    "revenue": REVENUE,
    "enquiries": ENQUIRIES,
    "plans": PLANS,
    "offers": OFFERS,
    "leads": LEADS,
    "referrals": REFERRALS,
    "guests": GUESTS,
    "products": PRODUCTS,
    "campaigns": CAMPAIGNS,
}
