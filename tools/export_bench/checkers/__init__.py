"""Checkers of exports, each by its software's own rule, run by a Python that has that software."""
