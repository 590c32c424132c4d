"""Delivery: sends a selection to the model without breaking its prompt cache."""
