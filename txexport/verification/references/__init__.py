"""The originals that a bundle is held against."""
