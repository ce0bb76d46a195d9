"""Embeddings: texts as vectors, by a model that comes with a package or by a server."""
