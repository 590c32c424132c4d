"""The gym's tools, one table of operations for each area of its work."""
