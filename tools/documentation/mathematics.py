"""A Markdown extension: TeX between dollar signs becomes MathML, which browsers show without a script."""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

INLINE = r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])"
BLOCK = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)


class _Inline(InlineProcessor):
    """$x$ within a line."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        """The placeholder of a stored formula."""
        assert self.md is not None
        return self.md.htmlStash.store(convert(m.group(1))), m.start(0), m.end(0)


class _Block(Preprocessor):
    """Lines between two lines of $$. It runs after fences, whose dollars are code."""

    def run(self, lines: list[str]) -> list[str]:
        """The lines, with a placeholder for each stored formula."""

        def kept(match: re.Match[str]) -> str:
            html = f'<div class="formula">{convert(match.group(1), display="block")}</div>'
            return f"\n\n{self.md.htmlStash.store(html)}\n\n"

        return BLOCK.sub(kept, "\n".join(lines)).split("\n")


class Mathematics(Extension):
    """The Markdown extension."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register both forms; priority 185 is before escapes, after code."""
        md.inlinePatterns.register(_Inline(INLINE, md), "mathematics", 185)
        md.preprocessors.register(_Block(md), "mathematics-block", 20)


def makeExtension(**options: Any) -> Mathematics:  # noqa: N802
    """The entry point that Markdown calls."""
    return Mathematics(**options)
