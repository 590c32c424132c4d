"""A page about what was measured: one file of HTML, plots drawn here, nothing loaded from anywhere."""

from toolcaddie.evaluation.report.page import html_report

__all__ = ["html_report"]
