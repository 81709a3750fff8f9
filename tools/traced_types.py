"""Tries to trace a tiny model of every model type of transformers that has no family here.

    tools/traced_types.py RESULTS [TYPE ...]

Each type is tried in a process of its own: its base class, with seeded weights and small numbers, is saved as
a checkpoint, exported with `export_traced`, and the outcome written to RESULTS, a JSON file, which a second
run continues. --write writes docs/reference/traced.md.
"""

import json
import multiprocessing
import re
import tempfile
import time
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import click

FORK = multiprocessing.get_context("fork")
SECONDS = 150  # of one type
RIGHT, LIMITED, REFUSED, UNTRIED = "right", "limited", "refused", "untried"
LIBRARIES = ("transformers", "torch", "onnxscript", "onnxruntime")
PAGE = Path(__file__).parents[1] / "docs/reference/traced.md"
LONGEST = 200  # characters of a reason
TOO_LARGE = 30_000_000  # parameters


def classes() -> dict[str, str]:
    """The class of every model type of transformers without a family: its decoder, or its base class."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        MODEL_MAPPING_NAMES,
    )

    from txexport.families import names

    known = set(names())
    decoders = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items() - MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items()
    every = {kind: one if isinstance(one, str) else one[0] for kind, one in MODEL_MAPPING_NAMES.items()}
    return {
        kind: one for kind, one in (every | dict(decoders)).items() if kind in every and kind not in known
    }


def tried(kind: str, architecture: str) -> dict:
    """The outcome of one type: a tiny checkpoint made, exported, and tried beside the class."""
    import torch
    import transformers
    from tiny_configs import tiny_config

    import txexport
    from txexport.bundle import Manifest
    from txexport.errors import TxexportError, first_line
    from txexport.verification.traced.free_axes import ONE_SIZE
    from txexport.verification.traced.originals import quiet

    with tempfile.TemporaryDirectory() as folder:
        try:
            with quiet():
                config = tiny_config(kind)
                with torch.device("meta"):
                    size = sum(
                        one.numel() for one in getattr(transformers, architecture)(config).parameters()
                    )
                if size > TOO_LARGE:
                    return {"outcome": UNTRIED, "why": f"its smallest model here has {size:,} parameters"}
                torch.manual_seed(0)
                model = getattr(transformers, architecture)(config).eval()
                _spread(model)
                model.save_pretrained(Path(folder, "model"))
        except Exception as error:
            return {"outcome": UNTRIED, "why": f"no tiny model could be made: {first_line(error)}"}
        try:
            manifest = txexport.export_traced(Path(folder, "model"), Path(folder, "out"))
        except TxexportError as error:
            why = str(error).replace(folder, "").removeprefix(f"{architecture} ")
            return {"outcome": REFUSED, "why": why}
        if isinstance(manifest, Manifest):
            return {"outcome": RIGHT, "varied": ["generates over a growing cache"]}
        limits = {axis: why for axis, why in manifest.limits.items() if why != ONE_SIZE}
        return {
            "outcome": LIMITED if limits else RIGHT,
            "inputs": {one.name: one.shape for one in manifest.graph.inputs},
            "varied": manifest.varied,
            "limits": manifest.limits,
        }


def _spread(model) -> None:
    """Move every parameter off the values it starts with, such as ones and zeros, which hide mistakes."""
    import torch

    with torch.no_grad():
        for one in model.parameters():
            if one.is_floating_point():
                one.add_(torch.randn_like(one) * 0.05)


def forked(kind: str, architecture: str) -> dict:
    """The outcome of one type, tried in a child that has the libraries loaded already."""
    queue = FORK.SimpleQueue()
    child = FORK.Process(target=lambda: queue.put(tried(kind, architecture)))
    child.start()
    child.join(SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        return {"outcome": UNTRIED, "why": f"took more than {SECONDS} seconds"}
    return {"outcome": REFUSED, "why": "the exporter crashed"} if queue.empty() else queue.get()


def page(outcomes: dict[str, dict]) -> str:
    """The page of all outcomes: counts, and a row for each type."""
    from txexport.verification.traced.free_axes import ONE_SIZE

    versions = ", ".join(f"{name} {version(name).partition('+')[0]}" for name in LIBRARIES)
    counts = Counter(one["outcome"] for one in outcomes.values())
    lines = [
        "# Traced types",
        "",
        "Model types of transformers without a family here, as [`export --traced`](../guides/traced.md)",
        "takes them: a type's decoder, or its base class, with seeded weights and small numbers. Made by",
        f"`tools/traced_types.py` with {versions}.",
        "",
        f"Of {len(classes())} types, {len(outcomes)} were tried: {counts[RIGHT]} are right at every batch",
        f"and size, {counts[LIMITED]} with limits, {counts[REFUSED]} are refused, and of {counts[UNTRIED]}",
        "no small model could be made in time. A size that the class itself does not take is no limit. A",
        "class that reads images beside texts is tried without the tokens in whose place images stand, and",
        "mostly refuses.",
        "",
        "| type | class | outcome | free dimensions, limits, or the reason |",
        "|---|---|---|---|",
    ]
    for kind, one in outcomes.items():
        note = one.get("why") or ", ".join(one["varied"])
        for axis, why in one.get("limits", {}).items():
            note += "" if why == ONE_SIZE else f"; {axis}: {why}"
        lines.append(f"| {kind} | {one['architecture']} | {one['outcome']} | {_cell(note)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text in a table's cell: one line of bounded length, without a table's own characters."""
    text = " ".join(text.split())
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return re.sub(r"([|<>*_\[\]`])", r"\\\1", text)


@click.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.argument("kinds", nargs=-1)
@click.option("--again", is_flag=True, help="Also try types that RESULTS has.")
@click.option("--write", is_flag=True, help="Only write the page of RESULTS.")
def main(results: Path, kinds: tuple[str, ...], again: bool, write: bool) -> None:
    """Try every type, or those named, and write the outcomes to RESULTS."""
    if write:
        PAGE.write_text(page(json.loads(results.read_text())))
        return
    import transformers.exporters.exporter_onnx  # noqa: F401 - loaded once, before the children

    import txexport.verification.traced.export  # noqa: F401

    warnings.filterwarnings("ignore")
    every = classes()
    outcomes = json.loads(results.read_text()) if results.is_file() else {}
    left = [kind for kind in kinds or every if again or kind not in outcomes]
    for place, kind in enumerate(left, 1):
        start = time.monotonic()
        outcome = forked(kind, every[kind])
        outcomes[kind] = {"architecture": every[kind]} | outcome
        results.write_text(json.dumps(dict(sorted(outcomes.items())), indent=1) + "\n")
        seconds, why = time.monotonic() - start, outcome.get("why", "")
        print(f"{place}/{len(left)} {kind} {outcome['outcome']} {seconds:.0f} s {why[:100]}", flush=True)


if __name__ == "__main__":
    main()
