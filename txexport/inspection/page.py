"""An inspection as an HTML page: a drawing of the model, costs by length, memory and parameters."""

from collections.abc import Iterator
from pathlib import Path

from rich.filesize import decimal

from txexport.inspection import plots
from txexport.inspection.costs import LengthCosts
from txexport.inspection.drawing import MEASURES, TITLES, draw, numbered, parts_of, title
from txexport.inspection.flops import Pass
from txexport.inspection.inspection import Inspection
from txexport.inspection.table import calibrations, proof, scaled
from txexport.spec import BlockSpec, MaskedAttentionSpec, PositionedAttentionSpec
from txexport.support.markup import page, table, text

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
WORKS = ("matrices", "attention", "head")
COUNTS = {power: scaled(10**power) for power in range(27)}
BYTES = {power: decimal(10**power).replace("bytes", "B").replace(".0", "") for power in range(19)}


def render(result: Inspection) -> str:
    """The page, with numbers of the inspection only."""
    heading = f"<h1>{text(result.path)}</h1>"
    about = f"<p>{text(result.model_type)}, {text(result.task)}</p>"
    sections = [_facts(result), _drawing(result), _lengths(result), _memory(result), _parameters(result)]
    body = "\n".join(["<main>", heading, about, *("\n".join(part) for part in sections), "</main>"])
    return page(f"{result.path}: {result.model_type}, {result.task}", body, STYLE)


def _facts(result: Inspection) -> Iterator[str]:
    """The main figures."""
    rows = [["parameters", f"{result.parameters.total:,}"]]
    if result.parameters.active != result.parameters.total:
        rows.append(["active for a token", f"{result.parameters.active:,}"])
    for name, work in result.prefill.items():
        rows.append([f"operations, {text(name)} reads {work.tokens:,} tokens", f"{work.total:,}"])
    if result.step is not None:
        rows.append([f"operations, next token after {result.length:,}", f"{result.step.total:,}"])
    if result.cache is not None:
        total = result.cache.total + result.cache.cross_total
        rows.append([f"cache of {result.batch} x {result.length:,} tokens", _bytes(total)])
    rows.append(["weights in a bundle", _bytes(result.weights.bundle)])
    yield table([], rows, "numbers")
    for name, line in result.architecture.items():
        yield f"<p><b>{text(name)}</b>: {text(line)}.</p>"
    if result.bundle is not None:
        for line in (*calibrations(result.bundle), proof(result.bundle).plain):
            yield f"<p>{text(line)}.</p>"


def _drawing(result: Inspection) -> Iterator[str]:
    """Every stack, and below it its numbers as a table."""
    yield "<h2>Where it is</h2>"
    yield (
        "<p>The line on the left is the residual stream: what a sublayer makes is added to it. Bars are "
        "shares of the model's parameters, of a stack's operations, and of the cache.</p>"
    )
    shown = {name: name for name in MEASURES if name != "cache" or result.cache is not None}
    yield plots.legend(shown)
    totals = {"parameters": result.parameters.total, "cache": 0}
    if result.cache is not None:
        totals["cache"] = result.cache.total + result.cache.cross_total
    yield '<div class="figures">'
    for stack in result.parts:
        caption = f"<b>{text(stack.name)}</b>, operations of {text(stack.work)}"
        yield f"<figure><figcaption>{caption}</figcaption>{draw(stack, totals)}</figure>"
    yield "</div>"
    heads = ["part", "layers", "parameters", "operations", "cache, bytes"]
    for stack in result.parts:
        layers = {
            id(part): numbered(group.numbers)
            for group in stack.groups
            for part in (*group.sublayers, group.norms)
        }
        rows = [
            [
                f"{text(title(part))} <small>{text(part.note)}</small>",
                text(layers.get(id(part), "")),
                *(f"{size:,}" if size else "" for size in (part.parameters, part.operations, part.cache)),
            ]
            for part in parts_of(stack)
        ]
        summary = f"{text(stack.name)} in numbers, operations of {text(stack.work)}"
        yield f"<details><summary>{summary}</summary>{table(heads, rows, 'numbers')}</details>"


def _lengths(result: Inspection) -> Iterator[str]:
    """Operations and cache of one row against its length."""
    yield "<h2>What length costs</h2>"
    if not result.by_length:
        yield "<p>It reads no text: every image or sound is as long, and costs as much.</p>"
        return
    first, *_, last = result.by_length
    yield (
        f"<p>One row of n tokens, from {first.length:,} to {last.length:,}, on logarithmic axes. Products "
        "with the weights, of width d, grow with n d², attention with n² d where no window bounds it.</p>"
    )
    yield '<div class="figures">'
    for name in first.prefill:
        works = [(costs.length, costs.prefill[name]) for costs in result.by_length]
        if works[0][1].tokens != works[-1][1].tokens:
            full = all(map(_full, result.spec.stacks[name].blocks))
            growth = {"matrices": "matrices, n d²", "attention": "attention, n² d" if full else "attention"}
            yield _works(f"{name} reads n tokens: operations", works, growth)
    if first.step is not None:
        steps = [(costs.length, costs.step) for costs in result.by_length if costs.step is not None]
        yield _works("the next token after n: operations", steps, {})
    if first.cache is not None:
        cache = {"cache": [(costs.length, float(_cached(costs))) for costs in result.by_length]}
        plot = plots.lines("cache in float32, bytes by length", cache, ["cache"], BYTES)
        yield f"<figure><figcaption>cache of n tokens, in float32</figcaption>{plot}</figure>"
    yield "</div>"
    yield f"<details><summary>in numbers</summary>{_table_of_lengths(result)}</details>"


def _works(name: str, works: list[tuple[int, Pass]], growth: dict[str, str]) -> str:
    """A plot of passes by length, in parts; `growth` describes the growth of some of them."""
    kinds = [part for part in WORKS if any(getattr(work, part) for _, work in works)]
    series = {
        growth.get(part, part): [(n, float(getattr(work, part))) for n, work in works] for part in kinds
    }
    series["in all"] = [(n, float(work.total)) for n, work in works]
    kinds.append("whole")
    plot = plots.lines(name, series, kinds, COUNTS)
    signs = plots.legend(dict(zip(series, kinds, strict=True)))
    return f"<figure><figcaption>{text(name)}</figcaption>{plot}{signs}</figure>"


def _full(block: BlockSpec) -> bool:
    """Tell whether attention is full: to all tokens, or to all preceding ones."""
    full = MaskedAttentionSpec | PositionedAttentionSpec
    return isinstance(block.attention, full) and block.attention.window is None


def _table_of_lengths(result: Inspection) -> str:
    """Every length, with operations by part."""
    names = [*result.prefill, *(["next token"] if result.step is not None else [])]
    cached = result.cache is not None
    heads = ["n", *(f"{text(name)}, {part}" for name in names for part in WORKS), *["cache, bytes"] * cached]
    rows = []
    for costs in result.by_length:
        works = [*costs.prefill.values(), *([costs.step] if costs.step is not None else [])]
        numbers = [getattr(work, part) for work in works for part in WORKS] + [_cached(costs)] * cached
        rows.append([f"{costs.length:,}", *(f"{number:,}" for number in numbers)])
    return table(heads, rows, "numbers")


def _cached(costs: LengthCosts) -> int:
    return 0 if costs.cache is None else costs.cache.total + costs.cache.cross_total


def _memory(result: Inspection) -> Iterator[str]:
    """Bytes of the weights in each dtype."""
    yield "<h2>Memory</h2>"
    has = "this bundle's" if result.bundle is not None else "of a bundle in each dtype"
    rest = "the cache, and scores of one layer where a kernel writes them out, are float32"
    yield f"<p>Weights, {has}; {rest}.</p>"
    sizes = dict(result.weights.dtypes)
    sizes |= {f"the checkpoint's {name}": size for name, size in (result.weights.checkpoint or {}).items()}
    if result.cache is not None:
        total = result.cache.total + result.cache.cross_total
        sizes[f"cache, {result.batch} x {result.length:,} tokens"] = total
    sizes["scores of one layer"] = result.scores_bytes
    shown = {name: (float(size), decimal(size)) for name, size in sizes.items()}
    rows = [[text(name), f"{size:,}"] for name, size in sizes.items()]
    yield '<div class="figures">'
    yield f"<figure>{plots.bars('bytes of memory', shown, 'parameters')}</figure>"
    yield f"{table(['', 'bytes'], rows, 'numbers')}</div>"


def _parameters(result: Inspection) -> Iterator[str]:
    """The number of parameters of each component."""
    counted = result.parameters
    yield "<h2>Parameters</h2>"
    sizes = {name: size for name, size in counted.components.items() if size}
    rows = [
        [text(TITLES.get(name, name)), f"{size:,}", f"{size / counted.total:.1%}"]
        for name, size in sizes.items()
    ]
    rows.append(["<b>total</b>", f"<b>{counted.total:,}</b>", ""])
    rule = f"{counted.share:.0%} of 12 d² n"
    rows.append(["without embeddings", f"{counted.without_embeddings:,}", rule])
    if counted.active != counted.total:
        rows.append(["active for a token", f"{counted.active:,}", f"{counted.active / counted.total:.1%}"])
    if counted.effective != counted.total:
        rows.append(["with shared ones repeated", f"{counted.effective:,}", ""])
    if counted.fixed:
        rows.append(["not learned, not in the total", f"{counted.fixed:,}", ""])
    drawn = {
        TITLES.get(name, name): (float(size), f"{scaled(size)}, {size / counted.total:.1%}")
        for name, size in sizes.items()
    }
    chart = plots.bars("parameters by component", drawn, "parameters")
    columns = ["component", "parameters", "share"]
    yield f'<div class="figures"><figure>{chart}</figure>{table(columns, rows, "numbers")}</div>'


def _bytes(size: int) -> str:
    return f"{decimal(size)} ({size:,} bytes)" if size >= 1000 else f"{size:,} bytes"
