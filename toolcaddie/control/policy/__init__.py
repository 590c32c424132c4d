"""Policies that ship."""
