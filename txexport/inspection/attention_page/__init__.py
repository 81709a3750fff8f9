"""Attention weights as a page that one can look at, made of what `txexport attention --json` gives."""

from txexport.inspection.attention_page.page import render

__all__ = ["render"]
