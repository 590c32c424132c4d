"""Facts about a catalog that are computed once and used by every request: words, vectors, relations between tools, sizes."""
