"""What newcomers may hand over, checked by name."""
