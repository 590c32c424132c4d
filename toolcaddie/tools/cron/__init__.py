"""The tool `cron`, by which bots make, list, remove and run jobs.

source.py       the tool
arguments.py    the arguments that models write, and the job that they mean
shown.py        jobs in words
"""

from __future__ import annotations

from toolcaddie.tools.cron.source import cron

__all__ = ["cron"]
