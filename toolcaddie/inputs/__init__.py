"""Converts the arguments of `Runtime`, `Picker` and their methods to Toolcaddie's own types. A wrong argument is an error that
names it."""
