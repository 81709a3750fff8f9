"""Self-contained HTML pages: no script, no other file, light and dark; names from outside are escaped."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from txexport.support.printable import clean

STYLE = Path(__file__).with_name("markup.css").read_text(encoding="utf-8")
LONG = re.compile(r"\S{15,}")
ENDS = re.compile(r"(?<=[^\W_])([/._:=,-]+)(?=[^\s/._:=,-])")  # separators of the parts of a name


def text(value: str) -> str:
    """Text as HTML, in which a long name may break after each of its parts."""
    result, at = [], 0
    for word in LONG.finditer(clean(value)):
        result.append(escape(clean(value)[at : word.start()]))
        parts = ENDS.sub("\\1\0", word[0]).split("\0")
        result.append("<wbr>".join(map(escape, parts)))
        at = word.end()
    return "".join([*result, escape(clean(value)[at:])])


def plain(value: str) -> str:
    """Text escaped for an attribute, a title or a drawing."""
    return escape(clean(value))


def page(title: str, body: str, style: str) -> str:
    """The page; `body` is HTML already."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{plain(title)}</title>
<style>
{STYLE}{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "texts") -> str:
    """A table of cells that are HTML already; without heads, only rows."""
    head = "<tr>" + "".join(f"<th>{name}</th>" for name in heads) + "</tr>" if heads else ""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table class="{kind}">{head}{body}</table></div>\n'
