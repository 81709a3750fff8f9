"""Text that a terminal, a page or a report can show: names from outside may hold anything."""

import re

# Control characters but for tab and line ends (they steer terminals, and XML 1.0 has no place for most), lone
# surrogates, which no encoding has, and those that turn the order of reading around.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """The text with U+FFFD for each character that cannot be shown."""
    return UNPRINTABLE.sub("\ufffd", text)


def line(text: str) -> str:
    """The same in one line."""
    return re.sub("[\t\n\r]+", " ", clean(text))
