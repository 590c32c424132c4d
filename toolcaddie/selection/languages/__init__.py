"""Requests and tools in other languages than English: which language a text is in, and English words for its words."""
