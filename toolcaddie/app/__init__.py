"""Running parts, made from the settings."""
