"""Doors translate between the outside and a `RunRequest`; they never decide."""
