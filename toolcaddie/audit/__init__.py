"""The audit trail, the durable record of each run: its rows are made from run events, redacted and written to a log."""
