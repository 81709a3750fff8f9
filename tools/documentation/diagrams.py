"""Block diagrams: boxes and arrows."""

from documentation.svg import ACCENT, CELL, FAINT, Drawing


def heads() -> Drawing:
    """Query heads and their shared key/value heads."""
    drawing = Drawing(520, 120, "Eight query heads over eight, two and one heads of keys and values.")
    for column, (name, shared) in enumerate((("multi-head", 8), ("grouped", 2), ("multi-query", 1))):
        left = 10 + column * 172
        drawing.text(left + 76, 8, name)
        for i in range(8):
            drawing.rect(left + i * 19, 26, 15, 22, FAINT)
            width, owner = 152 / shared, i * shared // 8
            drawing.line([(left + i * 19 + 7.5, 48), (left + owner * width + (width - 4) / 2, 80)])
        for k in range(shared):
            drawing.rect(left + k * 152 / shared, 80, 152 / shared - 4, 22, ACCENT)
    drawing.text(260, 114, "queries above, keys and values below")
    return drawing


def norms() -> Drawing:
    """The position of norms in a block."""
    drawing = Drawing(
        620,
        250,
        "One block with post-norm, pre-norm, sandwich norm (norms on both sides of a sublayer) and parallel "
        "sublayers with one norm. Data flows down.",
    )
    parts = {
        "post": ["attention", "+", "norm", "feed-forward", "+", "norm"],
        "pre": ["norm", "attention", "+", "norm", "feed-forward", "+"],
        "sandwich": ["norm", "attention", "norm", "+", "norm", "feed-forward", "norm", "+"],
    }
    for column, (name, steps) in enumerate(parts.items()):
        _flow(drawing, 20 + (column + (column == 2)) * 150, name, steps)
    _parallel(drawing, 320)
    return drawing


def _flow(drawing: Drawing, left: float, name: str, steps: list[str]) -> None:
    drawing.text(left + 50, 8, name)
    height = 210 / len(steps)
    start = 22.0
    drawing.line([(left + 50, 16), (left + 50, 24)])
    for number, step in enumerate(steps):
        y = 24 + number * height
        if step == "+":
            drawing.text(left + 50, y + height / 2 - 4, "+", 16)
            drawing.arrow(
                (left + 50, start),
                (left + 112, start),
                (left + 112, y + height / 2 - 4),
                (left + 58, y + height / 2 - 4),
            )
            start = y + height - 4
        else:
            drawing.box(left, y, 100, height - 8, step, ACCENT if step == "norm" else FAINT)
            if number and step == "norm" and steps[number - 1] == "+" and name == "post":
                start = y + height - 4
        drawing.line([(left + 50, y + height - 8), (left + 50, y + height)])


def _parallel(drawing: Drawing, left: float) -> None:
    drawing.text(left + 50, 8, "parallel")
    drawing.line([(left + 50, 16), (left + 50, 24)])
    drawing.box(left, 40, 100, 28, "norm", ACCENT)
    drawing.line([(left + 50, 24), (left + 50, 40)])
    drawing.arrow((left + 24, 68), (left + 24, 100))
    drawing.arrow((left + 76, 68), (left + 76, 100))
    drawing.box(left - 8, 100, 56, 40, "attention", FAINT)
    drawing.box(left + 52, 100, 56, 40, "FFN", FAINT)
    drawing.arrow((left + 20, 140), (left + 46, 190))
    drawing.arrow((left + 80, 140), (left + 54, 190))
    drawing.text(left + 50, 196, "+", 16)
    drawing.arrow((left + 50, 28), (left + 122, 28), (left + 122, 196), (left + 58, 196))
    drawing.line([(left + 50, 204), (left + 50, 234)])


def cache() -> Drawing:
    """Three rows of a static cache."""
    rows = [[1] * 5 + [2] * 2 + [0] * 5, [1] * 2 + [2] * 2 + [0] * 8, [1] * 8 + [2] * 2 + [0] * 2]
    drawing = Drawing(
        420,
        100,
        "A static cache with three rows and 12 slots: filled slots, two slots that this step writes from "
        "cache_lengths on, and free slots.",
    )
    drawing.grid(120, 22, rows)
    for number, length in enumerate((5, 2, 8)):
        drawing.text(110, 22 + CELL * (number + 0.5), f"cache_lengths {length}", anchor="end")
    drawing.text(120, 86, "past", anchor="start")
    drawing.text(200, 86, "new, written in place")
    drawing.text(300, 86, "free")
    return drawing


def blocks() -> Drawing:
    """An encoder's block and a decoder's, side by side."""
    drawing = Drawing(
        440,
        240,
        "An encoder block, and a decoder block with cross-attention to the encoder's output.",
    )
    drawing.text(80, 8, "encoder")
    drawing.text(300, 8, "decoder")
    for x, names in (
        (20, ("self-attention", "feed-forward")),
        (240, ("masked attention", "cross-attention", "feed-forward")),
    ):
        step = 200 / len(names)
        for number, name in enumerate(names):
            y = 26 + number * step
            above = y - 8 if number == 0 else y - step + 52
            drawing.arrow((x + 60, above), (x + 60, y))
            drawing.box(x, y, 120, 30, name, ACCENT if "cross" in name else FAINT)
            drawing.box(x, y + 34, 120, 18, "add, norm")
        drawing.arrow((x + 60, 26 + (len(names) - 1) * step + 52), (x + 60, 236))
    drawing.arrow((80, 232), (190, 232), (190, 108), (240, 108))
    return drawing


def experts() -> Drawing:
    """A router that sends a token to two of four experts."""
    drawing = Drawing(
        420, 170, "One token, for which the router selected the second and the fourth of four experts."
    )
    drawing.box(20, 70, 60, 30, "token")
    drawing.box(120, 70, 60, 30, "router", ACCENT)
    drawing.arrow((80, 85), (120, 85))
    for number in range(4):
        y, taken = 8 + number * 40, number in (1, 3)
        drawing.box(250, y, 80, 28, f"expert {number}", FAINT if taken else "none")
        if taken:
            drawing.arrow((180, 85), (250, y + 14))
            drawing.arrow((330, y + 14), (378, 85))
    drawing.text(388, 85, "+", 16)
    return drawing


def low_rank() -> Drawing:
    """A matrix as the product of two narrow ones."""
    drawing = Drawing(380, 130, "A projection of d by d numbers, and the same through r: 2dr numbers.")
    drawing.box(10, 14, 100, 100, "d × d", FAINT)
    drawing.text(135, 64, "≈", 18)
    drawing.box(160, 14, 26, 100, "d×r", ACCENT)
    drawing.box(200, 51, 100, 26, "r × d", ACCENT)
    return drawing
