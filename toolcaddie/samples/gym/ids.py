"""The parameters of the gym's tools that take an id, each with the table that must contain it and the tool that returns such
ids."""

from __future__ import annotations

from toolcaddie.samples.gym.operations import ident

CLIENT = ident("client_id", table="clients", finder="get_clients_list")
STAFF = ident("staff_id", table="staff", finder="get_staff_list", noun="staff member")
TRAINER = ident("trainer_id", table="staff WHERE role = 'trainer'", finder="get_trainers_list")
OWNER = ident("owner_id", table="staff", finder="get_staff_list", noun="staff member who looks after the lead")
AUTHOR = ident("author_id", table="staff", finder="get_staff_list", noun="staff member who writes the note")
BRANCH = ident("branch_id", table="branches", finder="get_branches_info")
SALARY = ident("salary_id", table="salaries", finder="get_salaries_list", noun="salary record")
ENQUIRY = ident("enquiry_id", table="enquiries", finder="get_enquiries_list")
FACILITY = ident("facility_id", table="facilities", finder="get_facilities_list")
EQUIPMENT = ident("equipment_id", table="equipment", finder="get_equipment", noun="machine")
DIET = ident("diet_id", table="diets", finder="get_diet_plans", noun="diet plan")
PLAN = ident("plan_id", table="plans", finder="get_membership_plans", noun="membership plan")
OFFER = ident("offer_id", table="offers", finder="get_offers_list")
LEAD = ident("lead_id", table="leads", finder="get_leads_list")
REFERRAL = ident("referral_id", table="referrals", finder="get_referrals_list")
TEMPLATE = ident("template_id", table="document_templates", finder="get_document_templates", noun="document template")
DOCUMENT = ident("document_id", table="documents", finder="get_client_documents")
GOAL = ident("goal_id", table="goals", finder="get_member_goals")
PHOTO = ident("photo_id", table="photos", finder="get_member_photos")
NOTE = ident("note_id", table="notes", finder="get_member_notes")
CLASS_TYPE = ident("class_type_id", table="class_types", finder="get_class_types", noun="kind of class")
SESSION = ident("session_id", table="class_sessions", finder="get_class_schedule", noun="class session")
SERVICE = ident("service_id", table="services", finder="get_services")
PRODUCT = ident("product_id", table="products", finder="get_products")
CAMPAIGN = ident("campaign_id", table="campaigns", finder="get_campaigns")
CHALLENGE = ident("challenge_id", table="challenges", finder="get_challenges")
REWARD = ident("reward_id", table="rewards", finder="get_available_rewards")
CONNECTION = ident("connection_id", table="wearables", finder="get_wearable_connections", noun="wearable connection")
SURVEY = ident("survey_id", table="surveys", finder="get_surveys")
