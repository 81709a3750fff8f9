"""Text for a terminal, a page or a report: names from outside may have any characters."""

import re

# Control characters except tab and line ends (they control terminals, and XML 1.0 excludes most), lone
# surrogates, which no encoding has, and bidirectional controls.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """The text with U+FFFD for each character that cannot be shown."""
    return UNPRINTABLE.sub("\ufffd", text)


def line(text: str) -> str:
    """As `clean`, in one line."""
    return re.sub("[\t\n\r]+", " ", clean(text))
