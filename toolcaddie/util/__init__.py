"""Small functions that depend on no other package of Toolcaddie."""
