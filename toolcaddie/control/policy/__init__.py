"""Policies that are part of the package. A policy decides whether a call is allowed, denied, or put to a person."""
