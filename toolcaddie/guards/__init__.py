"""The fences under every room: what may leave this machine, and what may come in as text."""
