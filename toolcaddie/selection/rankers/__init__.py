"""Rankers: each scores every tool of a catalog for a request, and explains its scores."""
