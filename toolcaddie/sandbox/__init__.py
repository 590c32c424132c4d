"""Sandboxes: they run commands and programs that nobody trusts (`ports.Sandbox`).

`wall` runs them behind bubblewrap, with its own view of files, processes and network. `plain` runs them as ordinary processes; it
protects nothing, and only settings that name it choose it.
"""
