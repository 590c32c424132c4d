"""Measures how well tools are selected, for the commands `toolcaddie eval ...`: on labelled requests or on recorded runs.

A labelled request is a request with the names of the tools that serve it. Every figure has a 95 % interval.
"""
