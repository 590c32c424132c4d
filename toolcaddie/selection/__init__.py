"""Finding the tools that fit a request."""
