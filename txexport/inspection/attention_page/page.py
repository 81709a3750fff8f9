"""One page with all it needs inside: no other file, no network, light and dark, for a desk or a phone."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from txexport.support.printable import clean

HERE = Path(__file__).parent
STYLE, SCRIPT = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
ALLOWED = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # and nothing from afar


def render(document: Mapping[str, Any]) -> str:
    """The page of a document as `txexport attention --json` gives it."""
    source = document["text"]
    text = clean(source if isinstance(source, str) else " / ".join(source))
    # Within a script an end tag ends it wherever it stands, so no < is left in what comes from outside.
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
