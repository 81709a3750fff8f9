"""Preprocessing: text to token ids, images and sounds to arrays."""
