"""The sample gym's tools, one module for each area of its work. Each tool is an `Operation`: a description, parameters and SQL
that `database.py` runs."""
