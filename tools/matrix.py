"""Families by runtimes: a tiny checkpoint of each family, verified on every installed runtime.

python tools/matrix.py --write                 into the page of docs/ that has the table
python tools/matrix.py --webgpu --write        WebGPU by number format: one or two cases of each family
python tools/matrix.py --webgpu --results FILE goes on where FILE, a JSON line for each cell, ends
python tools/matrix.py --webgpu --family rwkv --write   that row anew, the others as the page has them
python tools/matrix.py --family gpt2 --runtime node --runtime web --cache dynamic

Prints a Markdown table of the worst error of `verify --cases quick` against txexport's PyTorch components.
A runtime that rejects a bundle as `export` writes it gets the first older or flat form that it accepts.
"""

import json
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import shorten

import click
import onnx
import onnxruntime
import tiny_checkpoint
import torch
import transformers
from documentation.tables import put, shown
from rich.console import Console
from rich.progress import Progress

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError, UnsupportedError
from txexport.exporter import export
from txexport.families import resolve
from txexport.verification import verify
from txexport.verification.checks import LOSSES, UNSET_OPTIONS
from txexport.verification.reports.facts import facts_line
from txexport.verification.runtimes import RUNTIMES, versions
from txexport.verification.runtimes.web import pages_kept_open

FORMS = {
    "": {},
    "flat": {"inline": True},
    "opset 23, flat": {"opset": 23, "inline": True},
    "opset 17, flat": {"opset": 17, "inline": True},
    "for web": {"client": "web"},
}
WEBGPU = "webgpu"
LONGEST = 240  # characters of a note
FORMATS = "float32", "int8", "int8-fast", "int4"  # the columns of WebGPU's table


@dataclass
class Cell:
    """A family on a runtime: the form of the bundle, the worst error, and the reason of a failure.

    Where the runtime accepts no form, `refused` gives the reason.
    """

    form: str
    error: float = 0.0
    failure: str | None = None
    refused: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the table's cell."""
        if self.refused is not None:
            return "not taken"
        mark = "❌ " if self.failure is not None else ""
        worst = f"{self.error:.0e}" if self.error else "not run"
        return f"{mark}{worst}{f' ({self.form})' if self.form else ''}"


def tried(folder: Path, form: str, runtime: str) -> Cell:
    """Verify the bundle on the runtime."""
    try:
        cases = short(folder) if runtime == WEBGPU else "quick"
        report = verify(folder, runtime=runtime, reference="twin", cases=cases)
    except TxexportError as error:
        return Cell(form, failure=str(error))
    errors = [check.error for case in report.cases if not case.is_loss for check in case.checks]
    skipped = [f"{case.name}: {case.skipped}" for case in report.cases if case.skipped is not None]
    # A format may lose much of a random model: that is not the runtime's.
    wrong = any(not case.is_loss or case.exception is not None for case in report.failed)
    failure = facts_line(report) if wrong or not errors else None
    return Cell(form, max(errors, default=0.0), failure, notes=skipped)


def short(folder: Path) -> list[str]:
    """A case with padding and one with steps, of those that the bundle has; else its last quick case."""
    report = verify(folder, reference="twin", cases="quick")
    ran = [
        case.name
        for case in report.cases
        if case.runtime is not None and case.skipped is None and case.name not in (UNSET_OPTIONS, *LOSSES)
    ]
    ragged = [name for name in ran if "ragged" in name][:1]
    steps = [name for name in ran if "steps" in name][:1]
    return ragged + steps or ran[-1:]


def row(model_type: str, cache: str | None, names: list[str], folder: Path) -> dict[str, Cell]:
    """The cells of a family by runtime, each in the first form that the runtime accepts."""
    left, cells, why = list(names), dict[str, Cell](), dict[str, str | None]()
    for form, options in FORMS.items():
        out = folder / f"{model_type}-{cache}-{form}"
        if not left:
            break
        if "client" not in options:  # whose graphs have a cache of their own, and are never native
            options = {"cache": cache, "only": "native", **options}
        try:
            manifest = export(folder / model_type, out, **options)
        except UnsupportedError as error:
            why |= dict.fromkeys(left, str(error))
            continue
        for name in list(left):
            why[name] = RUNTIMES[name].refuses(out, manifest)
            if why[name] is None:
                cells[name] = tried(out, "" if name == WEBGPU else form, name)
                left.remove(name)
    return cells | {name: Cell("", refused=why[name]) for name in left}


def webgpu_row(
    model_type: str, formats: tuple[str, ...], folder: Path, results: Path | None
) -> dict[str, Cell]:
    """The cells of a family on WebGPU by number format; those of `results` are not run again."""
    cells = {dtype: cell for name, dtype, cell in _results(results) if name == model_type}
    missing = [dtype for dtype in formats if dtype not in cells]
    if missing:
        tiny_checkpoint.save(folder / model_type, model_type)
    for dtype in missing:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            try:
                export(folder / model_type, Path(out) / "bundle", client="web", dtype=dtype)
            except UnsupportedError as error:
                cells[dtype] = Cell("", refused=str(error))
            else:
                cells[dtype] = tried(Path(out) / "bundle", "", WEBGPU)
        if results is not None:
            with results.open("a") as lines:
                lines.write(json.dumps([model_type, dtype, asdict(cells[dtype])]) + "\n")
    return cells


def _results(path: Path | None) -> list[tuple[str, str, Cell]]:
    if path is None or not path.exists():
        return []
    lines = map(json.loads, path.read_text().splitlines())
    return [(name, dtype, Cell(**cell)) for name, dtype, cell in lines]


def table(rows: dict[str, dict[str, Cell]], names: list[str], runtimes: list[str], before: str = "") -> str:
    """The table of those columns as Markdown, preceded by versions and followed by the failures.

    Rows and notes of the table `before` stay where none of the new rows is about the same.
    """
    installed = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__, **versions(runtimes)}
    ran = ", ".join(f"{name} {number}" for name, number in installed.items())
    head = [f"| family | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    former = before.splitlines()
    if former and [former[0], *former[2:4]] != [ran, *head]:
        raise click.UsageError(
            f"the page's table is of other versions or columns: {former[0]}; write all of it"
        )
    lines = {title: line for line in former[4:] if line[0:1] == "|" for title in [line.split(" | ")[0][2:]]}
    lines |= {
        title: f"| {title} | {' | '.join(cells[name].text for name in names)} |"
        for title, cells in rows.items()
    }
    order = {name: place for place, name in enumerate(tiny_checkpoint.FAMILIES)}
    lines = {title: lines[title] for title in sorted(lines, key=lambda title: order[title.split("`")[1]])}
    notes = [
        line
        for line in former
        if line.startswith("- ") and line[2:].partition(" on ")[0] in lines.keys() - rows.keys()
    ]
    columns: dict[tuple[str, str], list[str]] = {}  # by row and note
    for title, cells in rows.items():
        for name in names:
            cell = cells[name]
            for note in filter(None, (cell.failure, cell.refused, *cell.notes)):
                columns.setdefault((title, shorten(note, LONGEST, placeholder=" …")), []).append(name)
    notes += [f"- {title} on {', '.join(where)}: {note}" for (title, note), where in columns.items()]
    return "\n".join([ran, "", *head, *lines.values(), "", *notes]) + "\n"


@click.command(help=__doc__)
@click.option("--family", "families", multiple=True, type=click.Choice(list(tiny_checkpoint.FAMILIES)))
@click.option("--runtime", "runtimes", multiple=True, type=click.Choice(list(RUNTIMES)))
@click.option("--cache", "caches", multiple=True, type=click.Choice(["static", "dynamic"]))
@click.option("--webgpu", is_flag=True, help="The table of WebGPU, which the other leaves out.")
@click.option("--dtype", "formats", multiple=True, type=click.Choice(FORMATS), help="With --webgpu.")
@click.option("--results", type=click.Path(dir_okay=False, path_type=Path), help="With --webgpu.")
@click.option("--write", is_flag=True, help="Write the table of all families and runtimes into docs/.")
def main(
    families: tuple[str, ...],
    runtimes: tuple[str, ...],
    caches: tuple[str, ...],
    webgpu: bool,
    formats: tuple[str, ...],
    results: Path | None,
    write: bool,
) -> None:
    """Run the command; see the module's docstring."""
    if write and (runtimes or caches or formats):
        raise click.UsageError("--write is for whole rows: leave out --runtime, --cache and --dtype")
    runtimes = (WEBGPU,) if webgpu else runtimes or tuple(name for name in RUNTIMES if name != WEBGPU)
    transformers.utils.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = [name for name in runtimes if RUNTIMES[name].missing() is None]
    for name in set(runtimes) - set(names):
        click.echo(f"without {name}: {RUNTIMES[name].missing()}", err=True)
    columns = list(formats or FORMATS) if webgpu else names
    rows: dict[str, dict[str, Cell]] = {}
    console = Console(stderr=True)
    with (
        pages_kept_open(),
        tempfile.TemporaryDirectory() as work,
        Progress(console=console, disable=not console.is_terminal) as bar,
    ):
        for model_type in bar.track(families or list(tiny_checkpoint.FAMILIES), description="families"):
            if webgpu:
                rows[f"`{model_type}`"] = webgpu_row(model_type, tuple(columns), Path(work), results)
                continue
            tiny_checkpoint.save(Path(work) / model_type, model_type)
            decodes = resolve(Checkpoint(Path(work) / model_type), None).spec.generates
            for cache in caches or ("static",) if decodes else (None,):
                title = f"`{model_type}`" + (f", {cache} cache" if cache else "")
                rows[title] = row(model_type, cache, names, Path(work))
    page = WEBGPU if webgpu else "runtimes"
    text = table(rows, columns, names, shown(page) if write and families else "")
    click.echo(text)
    if write:
        put(page, text)
    sys.exit(any(cell.failure is not None for cells in rows.values() for cell in cells.values()))


if __name__ == "__main__":
    main()
