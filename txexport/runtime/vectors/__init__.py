"""Sentence and token vectors, by the files of sentence-transformers and PyLate."""
