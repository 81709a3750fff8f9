"""Attestations: a bundle's verdict and the origin of its weights, as an in-toto statement."""
