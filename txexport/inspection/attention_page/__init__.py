"""Attention weights as an HTML page, from the JSON of `txexport attention`."""

from txexport.inspection.attention_page.page import render

__all__ = ["render"]
