"""The sections of runs: their list, which follows what happens, and a page for each run."""

from toolcaddie.doors.console.runs.section import runs_section

__all__ = ["runs_section"]
