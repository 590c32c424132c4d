"""The audit trail: made from run events, redacted, then written."""
