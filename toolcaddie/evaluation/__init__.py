"""Evaluation of selection: labelled requests in, figures with their uncertainty out."""
