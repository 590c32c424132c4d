"""A gym's back office: 137 tools in 30 categories over a small SQLite database with made-up people."""

from toolcaddie.samples.gym.gym import Gym, source

__all__ = ["Gym", "source"]
