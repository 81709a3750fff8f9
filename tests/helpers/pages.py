"""Checks of HTML pages, of their source and as Chromium renders them."""

import re
from html.parser import HTMLParser

# Elements beyond the window, elements other than tables that scroll sideways, and words of up to 15
# characters that are broken over two lines. Parts of longer names count as words.
LAYOUT = """(() => {
  if (document.readyState !== "complete") return null;
  const all = [...document.querySelectorAll("main, main *")];
  const shown = all.filter((e) => e.checkVisibility() && !e.closest(".wide, svg"));
  const start = (e) => e.outerHTML.slice(0, 99), display = (e) => getComputedStyle(e).display;
  const broken = [], walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (node.parentElement.closest("svg") || !node.parentElement.checkVisibility()) continue;
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      if (word[0].length > 15) continue;
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (tops.size > 1) broken.push(word[0]);
    }
  }
  return {
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    beyond: shown.filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map(start),
    scrolled: shown.filter((e) => e.scrollWidth > e.clientWidth + 1 && display(e) !== "inline").map(start),
    broken: broken,
    back: getComputedStyle(document.body).backgroundColor,
  };
})()"""


# Overlapping texts of a drawing, and texts beyond its edge.
OVERLAPS = """(() => {
  const result = [];
  for (const svg of document.querySelectorAll("main svg[role=img]")) {
    if (!svg.checkVisibility()) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
    texts.forEach(([name, a], place) => {
      const out = a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 3;
      if (out) result.push([name]);
      for (const [other, b] of texts.slice(place + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) result.push([name, other]);
      }
    });
  }
  return result;
})()"""


class Page(HTMLParser):
    """A parser that checks that tags nest and that fragment links have a target."""

    VOID = frozenset({"meta", "br", "wbr"})

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def of_class(self, name: str) -> list[dict]:
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def check_alone(text: str, page: Page) -> None:
    """Assert that a page needs no other file, script or network, and supports phones and dark mode."""
    for tag, attributes in page.tags:
        assert tag not in ("link", "script", "img", "iframe", "object", "base")
        for name in ("href", "src", "xlink:href", "action"):
            assert attributes.get(name, "#").startswith("#")
    assert not re.search(r"https?:|//|@import|url\(", text)
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    assert "prefers-color-scheme: dark" in text
