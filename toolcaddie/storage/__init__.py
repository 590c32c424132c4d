"""Storage of runs, trails, documents and API keys; the only package that contains SQL."""
