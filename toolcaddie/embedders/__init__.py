"""Embedders turn texts into vectors, by a model in this process or behind an address. Each implements `ports.Embedder`."""
