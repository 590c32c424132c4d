"""The record of what was done and who allowed it: made of run events, redacted, then written."""
