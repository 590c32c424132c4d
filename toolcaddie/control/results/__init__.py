"""Middleware around a call on its way to its source; each file holds one `ports.Middleware`."""
