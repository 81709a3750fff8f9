"""Checkpoints: a folder with config.json and weights, read lazily, and the names of its weights."""
