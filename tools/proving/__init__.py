"""Proofs of tiny models with nothing sampled: every mask, split and rewind; every changed node and key."""
