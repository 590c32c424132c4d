"""The OpenAI-compatible gateway: change one `base_url` and every request carries the tools that fit."""
