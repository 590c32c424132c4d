"""Samples to try Toolcaddie with: the catalog `gym`, and the practice model, which needs no key. Both are loaded by name."""
