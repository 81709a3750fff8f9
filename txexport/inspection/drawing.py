"""A stack drawn as SVG: the residual stream as a vertical line, with a branch for every sublayer.

Beside each part are bars: its share of the model's parameters, of the stack's operations and of the cache.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from txexport.inspection.anatomy import CostPart, LayerGroup, StackParts
from txexport.spec import NormPlacement
from txexport.support.markup import plain

WIDTH, RAIL, SIDE = (
    348,
    20,
    32,
)  # pixels: width of the drawing, x of the residual stream, and of a second line beside it
LEFT, RIGHT, BARS, LONGEST = 46, 226, 240, 62  # edges of boxes, x of bars, and their maximum length
LETTERS, LINE = 28, 14  # characters of a line of notes, and its height
NORM, GAP = 20, 12
TITLES = {
    "beside": "beside attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "last_feed_forward": "feed-forward",
    "norms": "norms of stages",
    "layers": "layers over places",
    "query_layers": "layers over queries",
    "final_norm": "final norm",
    "project": "projection",
    "next_sentence": "next-sentence head",
    "distilled": "distilled head",
    "length_adapter": "length adapter",
    "layer_sum": "sum of all layers",
    "cross_projection": "projection",
    "cross": "keys and values",
    "seen": "keys and values",
    "text_projection": "projection",
    "vision_projection": "projection",
    "vision_pool": "attention pool",
    "similarity": "scaled products",
}
MEASURES = ("parameters", "operations", "cache")


def title(part: CostPart) -> str:
    """The title of a part."""
    if part.name == "feed_forward" and " experts, " in part.note:
        return "experts"
    return TITLES.get(part.name, part.name)


@dataclass
class _Canvas:
    """Shapes from top to bottom; `y` is the top of the next one."""

    totals: dict[str, int]
    y: int = 4
    shapes: list[str] = field(default_factory=list)

    def box(self, part: CostPart, kind: str, x: int = LEFT) -> int:
        """Draw a part with its bars; return the y of its end."""
        notes = textwrap.wrap(part.note, LETTERS)
        top, height = self.y, max(38, 22 + LINE * len(notes))
        if title(part) == "experts":
            self.rect(x + 5, top - 5, RIGHT - x, height, f"{kind} behind")
        self.rect(x, top, RIGHT - x, height, kind)
        self.write(x + 8, top + 15, title(part), "name")
        for number, note in enumerate(notes):
            self.write(x + 8, top + 15 + LINE * (number + 1), note, "note")
        self.shapes += self._bars(part, top + 4)
        self.y += height
        return self.y

    def norm(self, text: str, x: int = LEFT) -> None:
        """A norm, as a thin box."""
        self.rect(x, self.y, RIGHT - x, NORM, "norm")
        self.write(LEFT + 8, self.y + 14, text, "note")
        self.y += NORM

    def rect(self, x: int, y: int, width: int, height: int, kind: str) -> None:
        """A rounded box."""
        self.shapes.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>')

    def write(self, x: int, y: int, text: str, kind: str) -> None:
        """A line of text."""
        self.shapes.append(f'<text class="{kind}" x="{x}" y="{y}">{plain(text)}</text>')

    def path(self, line: str, kind: str = "stream") -> None:
        """A line of the stream."""
        self.shapes.append(f'<path class="{kind}" d="{line}"/>')

    def _bars(self, part: CostPart, y: int) -> Iterator[str]:
        for index, name in enumerate(MEASURES):
            value, total = getattr(part, name), self.totals[name]
            if value:
                top, share = y + 11 * index, value / total
                description = f"{title(part)}: {value:,} {UNITS[name]}, {share:.1%}"
                width = max(1.0, share * LONGEST)
                yield (
                    f'<rect class="{name}" x="{BARS}" y="{top}" width="{width:.1f}" height="8">'
                    f"<title>{plain(description)}</title></rect>"
                )
                yield f'<text class="share" x="{BARS + width + 4:.1f}" y="{top + 8}">{share:.0%}</text>'


UNITS = {"parameters": "parameters", "operations": "operations", "cache": "bytes of cache"}


def draw(stack: StackParts, totals: dict[str, int]) -> str:
    """The SVG of one stack; bars are shares of `totals`, by measure."""
    canvas = _Canvas(totals | {"operations": stack.operations})
    end = canvas.box(stack.before, "embedding", RAIL - 12)
    for group in stack.groups:
        canvas.path(f"M{RAIL} {end}V{end + GAP}")
        canvas.y = end + GAP
        _layers(canvas, group)
        end = canvas.y
    for part in stack.behind:
        canvas.path(f"M{RAIL} {end}V{end + GAP}")
        canvas.y = end + GAP
        end = canvas.box(part, "head" if part.name != "final_norm" else "norm", RAIL - 12)
    height = canvas.y + 4
    layers = sum(len(group.numbers) for group in stack.groups)
    name = f"{stack.name}: {layers} layers between input and output"
    description = "; ".join(f"{title(part)} {part.note}".strip() for part in parts_of(stack))
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg class="stack" {size} role="img">',
            f"<title>{plain(name)}</title><desc>{plain(description)}</desc>",
            *canvas.shapes,
            "</svg>",
        ]
    )


def parts_of(stack: StackParts) -> list[CostPart]:
    """Every part of a stack, in order."""
    layers = [part for group in stack.groups for part in (*group.sublayers, group.norms)]
    return [stack.before, *layers, *stack.behind]


def _layers(canvas: _Canvas, group: LayerGroup) -> None:
    """The layers of a group as one layer, in a frame with their number."""
    top = canvas.y
    first_shape = len(canvas.shapes)
    canvas.write(RAIL + 14, top + 16, numbered(group.numbers), "count")
    canvas.y += 26
    branches = [_branch(canvas, group, sublayer) for sublayer in group.sublayers]
    if group.placement == NormPlacement.PARALLEL:
        first, last = branches[0][0], branches[-1][0]
        canvas.path(f"M{RAIL} {first}H{SIDE}V{last}")
    canvas.y += 6
    canvas.path(f"M{RAIL} {top}V{canvas.y}")
    for _, at in branches:
        canvas.shapes.append(f'<circle class="sum" cx="{RAIL}" cy="{at}" r="6"/>')
        canvas.path(f"M{RAIL - 4} {at}H{RAIL + 4}M{RAIL} {at - 4}V{at + 4}", "plus")
    frame = f'<rect class="frame" x="2" y="{top}" width="{RIGHT + 4}" height="{canvas.y - top}" rx="8"/>'
    canvas.shapes.insert(first_shape, frame)


def _branch(canvas: _Canvas, group: LayerGroup, sublayer: CostPart) -> tuple[int, int]:
    """Draw a sublayer with its norms; return the y where it branches off, and the y where it is added."""
    placement, kind = group.placement, group.norms.note
    norm = f"norm ({kind})"
    before = placement.before and not (group.skip_attention_norm and sublayer.name == "attention")
    canvas.y += 2
    out = canvas.y + (NORM // 2 if before else 19)
    source = SIDE if placement == NormPlacement.PARALLEL else RAIL
    canvas.path(f"M{source} {out}H{LEFT}")
    if before:
        canvas.norm(norm)
        canvas.y += 3
    end = canvas.box(sublayer, sublayer.name)
    if placement in (NormPlacement.SANDWICH, NormPlacement.RES_POST):
        canvas.y += 3
        canvas.norm(norm)
        end = canvas.y
    if group.layer_scale:
        canvas.y += 3
        canvas.norm("times a learned scale")
        end = canvas.y
    if group.residual_scale != 1:
        canvas.y += 3
        canvas.norm(f"times {group.residual_scale:g}")
        end = canvas.y
    canvas.y = end + GAP
    canvas.path(f"M{LEFT + 12} {end}V{canvas.y}H{RAIL + 6}")
    added = canvas.y
    canvas.y += GAP
    if placement.after:
        twice = placement == NormPlacement.DOUBLE_POST and sublayer.name == "attention"
        canvas.norm(f"{norm}, with the layer's input {norm}" if twice else norm, RAIL - 12)
        canvas.y += GAP // 2
    return out, added


def numbered(numbers: list[int]) -> str:
    """The number of layers, and the first few numbers if they are not consecutive from 0."""
    count = f"{len(numbers)} layers" if len(numbers) > 1 else "1 layer"
    if numbers == list(range(len(numbers))):
        return count
    first = ", ".join(map(str, numbers[:4]))
    return f"{count}: {first}{', …' if len(numbers) > 4 else ''}"
