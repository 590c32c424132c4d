"""Attacks on a real server, played and measured: `python -m security`. Not part of the installed package."""
