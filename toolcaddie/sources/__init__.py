"""Sources of tools that are not Python functions, and sources made of sources."""
