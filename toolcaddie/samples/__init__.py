"""Catalogs to try things on, loaded by name."""
