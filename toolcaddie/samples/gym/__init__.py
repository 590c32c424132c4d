"""The sample catalog `gym`: the back office of a gym, with 137 tools in 30 categories over a small SQLite database of made-up
people."""

from toolcaddie.samples.gym.gym import Gym, source

__all__ = ["Gym", "source"]
