"""An inspection, for a terminal."""

import re
from collections import Counter
from collections.abc import Iterator

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.filesize import decimal
from rich.text import Text

from txexport.contracts import Port
from txexport.errors import counted
from txexport.inspection.graph_stats import GraphFacts
from txexport.inspection.inspection import BundleFacts, Inspection
from txexport.inspection.placement import Placement
from txexport.support.terminal import FittedTable, number

LISTED = 100  # columns of a long list of operators
UNITS = ("", "k", "M", "G", "T", "P")


def render(result: Inspection) -> Group:
    """Architecture, parameters, costs, and for a bundle its files, graphs, operators and functions."""
    parts: list[RenderableType] = [
        Text.assemble((f"{result.path}: ", ""), (f"{result.model_type}, {result.task}", "bold"))
    ]
    parts += [Text(f"{name}: {line}") for name, line in result.architecture.items()]
    parts += [Text(result.limited)] if result.limited is not None else []
    parts += [_parameters(result), _costs(result)]
    if result.bundle is not None:
        parts += _bundle(result.bundle)
    return Group(*parts)


def scaled(count: float) -> str:
    """A count with three digits and the letter of its thousands: 1,234,567 is 1.23M."""
    for unit in UNITS[:-1]:
        if count < 999.5:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}{UNITS[-1]}"


def _parameters(result: Inspection) -> FittedTable:
    counted = result.parameters
    table = FittedTable("parameters", number(""), number("share"))
    for name, size in counted.components.items():
        if size:
            table.add_row(name.replace("_", " "), f"{size:,}", f"{size / counted.total:.1%}")
    table.add_section()
    table.add_row("total", Text(f"{counted.total:,}", "bold"))
    rule = f"{counted.share:.0%} of 12 d² n = {counted.rule_of_thumb:,}"
    table.add_row("without embeddings", f"{counted.without_embeddings:,}", rule)
    if counted.active != counted.total:
        table.add_row("active for a token", f"{counted.active:,}", f"{counted.active / counted.total:.1%}")
    if counted.effective != counted.total:
        table.add_row("with shared ones repeated", f"{counted.effective:,}")
    if counted.fixed:
        table.add_row("not learned, not in the total", f"{counted.fixed:,}")
    return table


def _costs(result: Inspection) -> FittedTable:
    table = FittedTable(f"{result.batch} x {result.length:,} tokens", number("a token"), number("in all"))
    passes = {f"{name} reads {work.tokens:,} tokens": work for name, work in result.prefill.items()}
    if result.step is not None:
        passes["next token"] = result.step
    for name, work in passes.items():
        table.add_row(f"{name}, operations", scaled(work.per_token), scaled(work.total))
        for part in ("matrices", "attention", "head"):
            share = getattr(work, part)
            if share:
                table.add_row(f"  {part}", scaled(share / work.tokens), scaled(share))
    cache = result.cache
    if cache is not None:
        windowed = f", in all {cache.layers} layers, though {cache.windowed} attend to a window"
        name = f"cache{windowed if cache.windowed else ''}"
        table.add_row(name, decimal(cache.per_token), decimal(cache.total))
        if cache.states:
            table.add_row("states, of rows of any length", "", decimal(cache.states))
        if cache.cross_total:
            table.add_row("cache of the encoder", decimal(cache.cross_per_token), decimal(cache.cross_total))
    table.add_row("scores of one layer, where written out", "", decimal(result.scores_bytes))
    for kind, size in (result.weights.checkpoint or {}).items():
        table.add_row(f"weights, {kind} in the checkpoint", "", decimal(size))
    if result.bundle is None:
        table.add_row("weights, F32 in a bundle", "", decimal(result.weights.bundle))
    else:
        for dtype, size in result.bundle.dtypes.items():
            table.add_row(f"weights, {dtype} in the bundle", "", decimal(size))
    return table


def _bundle(facts: BundleFacts) -> Iterator[RenderableType]:
    cache = f"{facts.cache} cache, " if facts.cache else ""
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    if facts.stored is not None:
        yield Text(facts.stored)
    for line in calibrations(facts):
        yield Text(line)
    adapter = f" with the adapter {facts.adapter}" if facts.adapter is not None else ""
    yield Text(f"bundle: {cache}opset {facts.opset}, from {facts.source}{adapter} by {versions}")
    yield proof(facts)
    files = FittedTable("file", number(""))
    for name, size in facts.files.items():
        files.add_row(Text(name), decimal(size))
    yield files
    for name, one in (facts.kernels or {}).items():
        every = one.fast + len(one.slow)
        slow = f"; as floats, which is slow: {', '.join(one.slow)}" if one.slow else ""
        message = f"{name}: {one.fast} of {every} quantised products as integers{slow}"
        yield Text(message, "bold red" if slow else "")
    for name, placed in (facts.placements or {}).items():
        yield Text(f"{name}: {placement_line(placed)}", "bold red" if placed.missing else "")
    for graph in facts.graphs.values():
        yield from _graph(graph)


def placement_line(placed: Placement) -> str:
    """A provider's placement of a graph: what falls back to the processor, and what each run copies."""
    lacking = ", ".join(f"{count} {reason}" for reason, count in placed.missing.items())
    total = sum(placed.missing.values())
    without = f"{total} without a kernel ({lacking})" if lacking else "all with a kernel"
    waits = f"{counted(placed.waits, 'node')} that the processor waits for; " if placed.waits else ""
    waits += f"{counted(placed.addresses, 'product')} by address; " if placed.addresses else ""
    capture = "can" if placed.captured else "cannot"
    return (
        f"{counted(placed.nodes, 'node')}, {without}; {placed.shapes} for shapes on the processor; "
        f"{counted(len(placed.copies), 'value')} copied a run; If, Loop or Scan: {placed.branches}; "
        f"{waits}"
        f"{capture} be captured"
    )


def calibrations(facts: BundleFacts) -> Iterator[str]:
    """A line for each calibrated dtype."""
    for dtype, one in facts.calibrated.items():
        searched = f"; {len(one.searched)} matrices had too few inputs and are not calibrated"
        texts = f"{dtype}: calibrated on {one.texts:,} texts of {one.tokens:,} tokens"
        yield f"{texts}{searched if one.searched else ''}"


def proof(facts: BundleFacts) -> Text:
    """The result of the last verify, and whether files have changed since."""
    proof = facts.proof
    if proof is None:
        return Text("not verified yet")
    if facts.changed:
        files = ", ".join(facts.changed)
        return Text(f"verified on {proof.created}, and changed since: {files}; verify again", "bold red")
    worst = "" if proof.worst_error is None else f", worst {proof.worst_error:.1e} of {proof.bound:.0e}"
    worst += f" ({proof.worst_output})" if worst else ""
    versions = ", ".join(f"{name} {version}" for name, version in proof.versions.items())
    verdict = (
        proof.verdict,
        "bold green" if not proof.failed and proof.verdict != "not proved" else "bold red",
    )
    failed = f", {proof.failed} failed" if proof.failed else ""
    return Text.assemble(
        "verified: ",
        verdict,
        f" {proof.scope}, {proof.cases} cases{failed}, {proof.numbers:,} numbers{worst}",
        f", on {proof.created} by {versions}",
    )


def _graph(graph: GraphFacts) -> Iterator[RenderableType]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in graph.opsets.items())
    yield Text(f"{graph.file}: IR version {graph.ir_version}, {opsets}, {graph.nodes:,} nodes inlined")
    ports = FittedTable("", "name", "type")
    for kind, values in (("input", graph.inputs), ("output", graph.outputs)):
        for (name, shaped), count in Counter(map(_shaped, values)).items():
            ports.add_row(kind if count == 1 else f"{count} {kind}s", Text(name), Text(shaped))
    yield ports
    operators = [Text(f"{count:,} {name}") for name, count in graph.operators.items()]
    yield Constrain(Columns(operators, padding=(0, 3)), LISTED)
    if graph.functions:
        functions = FittedTable("function", number("nodes"), number("calls"))
        for name, function in graph.functions.items():
            functions.add_row(Text(name), f"{function.nodes:,}", f"{function.calls:,}")
        yield functions


def _shaped(port: Port) -> tuple[str, str]:
    """Name and type of an input or output; outputs of layers share one line."""
    return re.sub(r"\.\d+\.", ".{i}.", port.name), f"{port.dtype} ({', '.join(map(str, port.shape))})"
