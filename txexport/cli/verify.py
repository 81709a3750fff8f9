"""The command that verifies a bundle."""

import json
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from txexport.bundle import read_any
from txexport.cli import options
from txexport.cli.options import bundle
from txexport.cli.reported import REPORTED, reported
from txexport.support.printable import line
from txexport.support.replaced import write_text
from txexport.verification.exports import is_export

MOST_DIFFERENCES = 20  # that are printed


@click.command()
@bundle
@click.option(
    "--source", type=click.Path(path_type=Path), show_default="where it came from", help="Checkpoint."
)
@options.adapter("Its adapter.", show_default="where it came from")
@click.option(
    "--reference",
    type=click.Choice(["twin", "transformers", "float64", "torch.onnx"]),
    show_default="twin and transformers, where installed",
    help="Compare with txexport's PyTorch model (twin) alone, with the original in transformers alone, with "
    "the twin in float64, which separates rounding from errors, or with torch.onnx, as --torch-onnx.",
)
@click.option(
    "--device",
    show_default="cpu; with --here cuda if available, else cpu",
    help="cpu, cuda, or another execution provider of ONNX Runtime.",
)
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    show_default="onnxruntime",
    help="Runtime of the graphs: onnxruntime, onnxruntime-unoptimized, reference, openvino, node, web, "
    "webgpu, or all that are installed; repeatable.",
)
@click.option(
    "--case", "names", multiple=True, help="Run only this case, by its name in a report; repeatable."
)
@click.option(
    "--cases",
    type=click.Choice(["quick", "full"]),
    show_default="full",
    help="All cases, or a few that cover padding, cached steps and every output.",
)
@click.option(
    "--layers",
    is_flag=True,
    help="Find the first wrong component: compare each one with its PyTorch module, layer by layer.",
)
@click.option(
    "--texts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also run the texts of this file, one per line; pairs, or sources and targets, separated by a tab.",
)
@click.option(
    "--torch-onnx",
    is_flag=True,
    help="Also compare with the graphs that torch.onnx.export makes of the twin, if it succeeds.",
)
@click.option("--third", is_flag=True, hidden=True, deprecated="use --torch-onnx")
@click.option(
    "--client",
    type=click.Choice(["optimum", "js", "genai", "openvino"]),
    help="Also compare with another client that loads the bundle (installed by tools/clients/run).",
)
@click.option(
    "--allow-edited",
    is_flag=True,
    help="Accept an edited graph, and verify it by cases alone; the verdict says so.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="NAME=SHARE",
    help="Maximum loss of a number format, such as direction=0.01; also probability, choice and ranks; with "
    "--texts also perplexity, tokens, cosine, neighbours and answers.",
)
@click.option(
    "--here",
    is_flag=True,
    help="Compare the bundle, as it runs on this machine, with the answers that verify recorded in it; "
    "neither PyTorch nor the checkpoint is needed. Only --device, --runtime (onnxruntime or openvino), "
    "--dtype and the options of reports apply with it.",
)
@click.option("--dtype", show_default="every one", help="With --here: the number format to compare.")
@click.option(
    "--attestation",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Compare the bundle's files with this statement of `txexport attest`, also in an envelope or a "
    "bundle of Sigstore. Nothing runs, and signatures are not checked. Of the other options only --source "
    "and --adapter apply, with which the weights are made again from the checkpoint, and --json.",
)
@reported
def verify(
    out: Path,
    runtimes: tuple[str, ...],
    names: tuple[str, ...],
    cases: str | None,
    torch_onnx: bool,
    third: bool,
    budgets: tuple[str, ...],
    here: bool,
    dtype: str | None,
    attestation: Path | None,
    **arguments: Any,
) -> Any:
    """Prove that the graphs of BUNDLE compute what its checkpoint computes in PyTorch.

    First, every file is compared with the one that export makes of the checkpoint: graphs node by node, every
    weight, tokenizer and settings. Then every output is compared, for padded batches, cached steps and
    chunked prompts. The result is recorded in the bundle; `txexport inspect BUNDLE` shows it, and whether it
    is still valid. A few answers are recorded too: --here compares the bundle with them on any machine. With
    --attestation it is compared with a statement that may be signed.

    BUNDLE may also be another tool's export, a folder of optimum, transformers.js, onnxruntime-genai, mobius
    or transformers' exporters, or one ONNX file in float32; give its checkpoint with --source. Its graphs are
    judged by the same cases. A dimension that a graph leaves open must be right at every size.

    Exit code 0: equal. 1: not equal. 2: could not be verified, or calibrated integers were not proved without
    their texts. 3: exact, but a number format loses more than its budget.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that browsers are closed
    if attestation is not None:
        _attested(out, attestation, arguments["source"], arguments["adapter"])
    if here:
        return _here(out, runtimes, dtype)
    if names and cases:
        raise click.UsageError("give --case or --cases, not both")
    if dtype is not None:
        raise click.UsageError("--dtype is for --here; otherwise every number format is verified")
    if not is_export(out):
        read_any(out)  # before the slow imports
    from rich.text import Text

    from txexport.cli.console import Console
    from txexport.verification import verify as run
    from txexport.verification.checks import RUNTIME

    with Console(stderr=True).status("verifying") as status:

        def show(case: str) -> None:
            status.update(Text(line(f"verifying: {case}")))

        report = run(
            out,
            runtime=runtimes or RUNTIME,
            cases=names or cases or "full",
            torch_onnx=torch_onnx or third,
            budget=options.shares(budgets),
            progress=show,
            **arguments | {"device": arguments["device"] or "cpu"},
        )
    return report


def _attested(out: Path, attestation: Path, source: Path | None, adapter: Path | None) -> NoReturn:
    """Compare a bundle with a statement, print the result, and exit. Raises UsageError for other options."""
    from txexport.cli.console import Console, discard_output
    from txexport.verification import verify_attestation

    _check_options("--attestation", {"out", "attestation", "source", "adapter", "quiet", "json_file"})
    json_file = click.get_current_context().params["json_file"]
    with Console(stderr=True).status("comparing"):
        report = verify_attestation(out, attestation, source=source, adapter=adapter)
    differences = report.differences[:MOST_DIFFERENCES]
    if more := len(report.differences) - len(differences):
        differences.append(f"and {more:,} other differences")
    verdict = report.verdict if differences else f"as attested, {report.verdict} {report.statement.scope}"
    lines = [f"{out}: {verdict}", *differences, *report.skipped, report.summary]
    if json_file is not None:
        write_text(json_file, json.dumps(report.to_dict()) + "\n")
    try:
        click.echo("\n".join(map(line, lines)))
    except BrokenPipeError:
        discard_output()
    sys.exit(report.exit_code)


def _check_options(mode: str, apply: set[str]) -> None:
    """Raise UsageError for an option that does not `apply` with the option `mode`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        is_set = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_set and name not in apply:
            raise click.UsageError(f"{parameter.opts[0]} does not apply with {mode}")


def _here(out: Path, runtimes: tuple[str, ...], dtype: str | None) -> Any:
    """The report of `verify_here`. Raises UsageError for an option that does not apply."""
    from txexport.cli.console import Console
    from txexport.runtime.engines import ENGINES
    from txexport.verification import verify_here

    _check_options("--here", {"out", "here", "device", "runtimes", "dtype"} | REPORTED)
    context = click.get_current_context()
    if len(runtimes) > 1:
        raise click.UsageError("give one --runtime with --here")
    engine = runtimes[0] if runtimes else ENGINES[0]
    with Console(stderr=True).status("verifying"):
        return verify_here(out, device=context.params["device"], dtype=dtype, engine=engine)
