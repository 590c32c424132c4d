"""Sandboxes: they run commands and programs that nobody trusts (`ports.Sandbox`)."""
