"""Converts the arguments of `Runtime`, `Picker` and their methods to Toolcaddie's own types, and refuses wrong ones by name."""
