"""Small functions and classes that every package of Toolcaddie may use, and that use none of these packages."""
