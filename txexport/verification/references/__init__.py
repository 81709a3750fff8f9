"""The references that a bundle is compared with."""
