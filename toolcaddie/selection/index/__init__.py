"""Facts about a catalog that are computed once and read by every request: words, vectors, links, sizes."""
