"""The section of evaluations: how well tools are found, on the own trail or on given requests, by one or two configurations."""

from toolcaddie.doors.console.evaluation.pages import evaluation_section

__all__ = ["evaluation_section"]
