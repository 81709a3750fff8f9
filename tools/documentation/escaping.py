"""Plain text as Markdown."""

import re

MARKS = str.maketrans({"<": "&lt;", "*": "\\*", "|": "&#124;"})


def escaped(text: str) -> str:
    """The text with what Markdown would read as a tag, as emphasis or as the end of a cell; code stays."""
    return "".join(
        part if code else part.translate(MARKS)
        for code, part in ((part.startswith("`"), part) for part in re.split(r"(`[^`]*`)", text))
    )
