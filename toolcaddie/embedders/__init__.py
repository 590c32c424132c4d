"""Embedders turn texts into vectors, by a model in this process (`ports.Embedder`) or on a server (`ports.RemoteEmbedder`).

The rankers `embedding` and `learned` compare these vectors. `prepared` and `catalogs` make the vectors ahead of selections,
which do no I/O.
"""
