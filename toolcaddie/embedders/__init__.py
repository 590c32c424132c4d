"""What turns texts into vectors: a model in this process, or one behind an address. Each fills `ports.Embedder`."""
