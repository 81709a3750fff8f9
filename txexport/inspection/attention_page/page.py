"""A self-contained page: no other file, no network, light and dark, for a desktop or a phone."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from txexport.support.printable import clean

HERE = Path(__file__).parent
STYLE, SCRIPT = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
ALLOWED = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # no network


def render(document: Mapping[str, Any]) -> str:
    """The page of a document from `txexport attention --json`."""
    source = document["text"]
    text = clean(source if isinstance(source, str) else " / ".join(source))
    # An end tag anywhere in a script ends it, so every < in data from outside is escaped.
    data = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{ALLOWED}">
<title>attention: {escape(text[:80])}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
<h1>{escape(text)}</h1>
<p class="about">{escape(document["model"])}, {escape(document["task"])}</p>
<noscript><p>Weights are drawn by a script, which this browser does not run.</p></noscript>
<div id="page"></div>
</main>
<script type="application/json" id="document">{data}</script>
<script>
{SCRIPT}</script>
</body>
</html>
"""
