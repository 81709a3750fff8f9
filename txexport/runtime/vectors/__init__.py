"""Vectors of sentences and of tokens, as the files of sentence-transformers and PyLate describe them."""
