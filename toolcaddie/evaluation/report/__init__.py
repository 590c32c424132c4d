"""The HTML page of `toolcaddie eval --report`: one file with figures and plots, which loads nothing from the network."""

from toolcaddie.evaluation.report.page import html_report

__all__ = ["html_report"]
