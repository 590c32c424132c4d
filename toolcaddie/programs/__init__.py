"""The interpreter of programs."""
