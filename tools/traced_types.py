"""Tries to trace a tiny model of every model type of transformers that has no family here.

    tools/traced_types.py [--again] [TYPE ...]

Each type is tried in a process of its own: a model with seeded weights and small numbers is saved as a
checkpoint, exported with `export_traced`, and the outcome written to the record, traced_types.json, which a
second run continues. --write writes docs/reference/traced.md from it.
"""

import json
import multiprocessing
import re
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path

import click
from traced_page import LIMITED, ONE_SIZE, PAGE, RECORD, REFUSED, RIGHT, UNTRIED, page, record

FORK = multiprocessing.get_context("fork")
SECONDS = 150  # of a processor, for one type
PATIENCE = 6  # times as many seconds until it is ended on a busy machine
LIBRARIES = ("transformers", "torch", "onnxscript", "onnxruntime")
TOO_LARGE = 30_000_000  # parameters
OTHERS = re.compile(r"MODEL_FOR_\w+_MAPPING_NAMES")
BESIDE_SOUNDS = ("audioflamingo3", "moss_transcribe_diarize", "musicflamingo")  # decoders, in their mapping
WITH_DECODERS = ("moshi", "musicgen", "musicgen_melody")  # whose class of texts is of a part's configuration


def classes() -> dict[str, str]:
    """The class of every model type of transformers without a family that an auto class opens.

    That is the encoder-decoder of texts, or the decoder of texts, or the base class, or what else there is.
    """
    from transformers.models.auto import configuration_auto, modeling_auto

    from txexport.families import names

    known, configs = set(names()), configuration_auto.CONFIG_MAPPING
    images = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    mixed = {*images, *modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES}
    sequences = _without(modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, {*mixed, *BESIDE_SOUNDS})
    beside = {*images, *BESIDE_SOUNDS, *WITH_DECODERS}
    decoders = _without(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, beside)
    others = [getattr(modeling_auto, name) for name in sorted(vars(modeling_auto)) if OTHERS.fullmatch(name)]
    result = {}
    for mapping in (sequences, decoders, modeling_auto.MODEL_MAPPING_NAMES, *others):
        for kind, one in mapping.items():
            if kind in configs and kind not in known:
                result.setdefault(kind, one if isinstance(one, str) else one[0])
    return dict(sorted(result.items()))


def _without(mapping: Mapping[str, str], kinds: Collection[str]) -> dict[str, str]:
    return {kind: one for kind, one in mapping.items() if kind not in kinds}


def tried(kind: str, architecture: str) -> dict:
    """The outcome of one type: a tiny checkpoint made, exported, and tried beside the class."""
    import torch
    import transformers
    from tiny_configs import tiny_config

    import txexport
    from txexport.bundle import Manifest
    from txexport.errors import TxexportError, first_line
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
            if why.startswith("does not run on") and "it needs" not in why:  # sizes that do not fit together
                return {"outcome": UNTRIED, "why": f"its small model {why}"}
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

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        queue.put(tried(kind, architecture))

    child = FORK.Process(target=limited)
    child.start()
    child.join(PATIENCE * SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
    if child.exitcode == -signal.SIGXCPU:
        return {"outcome": UNTRIED, "why": f"took more than {SECONDS} seconds"}
    if child.exitcode == -signal.SIGKILL:
        return {"outcome": UNTRIED, "why": f"took more than {PATIENCE * SECONDS} seconds, or all memory"}
    return {"outcome": REFUSED, "why": "the exporter crashed"} if queue.empty() else queue.get()


def parts() -> list[str]:
    """The model types of parts of models, which no auto class opens."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    from txexport.families import names

    return sorted(CONFIG_MAPPING_NAMES.keys() - classes().keys() - set(names()))


def written() -> str:
    """The page of the record for the families and classes that are installed."""
    from txexport.families import names

    return page(record(), classes(), sorted(names()), parts())


@click.command()
@click.argument("kinds", nargs=-1)
@click.option("--results", type=click.Path(path_type=Path), default=RECORD, help="Instead of the record.")
@click.option("--again", is_flag=True, help="Also try types that the results have.")
@click.option("--write", is_flag=True, help="Only write the page of the record.")
def main(kinds: tuple[str, ...], results: Path, again: bool, write: bool) -> None:
    """Try every type that is not in the results, or those named, and write the outcomes there."""
    if write:
        PAGE.write_text(written())
        return
    import transformers.exporters.exporter_onnx  # noqa: F401 - loaded once, before the children

    import txexport.verification.traced.export  # noqa: F401

    warnings.filterwarnings("ignore")
    every = classes()
    outcomes = json.loads(results.read_text())["types"] if results.is_file() else {}
    left = [kind for kind in kinds or every if again or kind not in outcomes]
    versions = {name: version(name).partition("+")[0] for name in LIBRARIES}
    for place, kind in enumerate(left, 1):
        start = time.monotonic()
        outcome = forked(kind, every[kind])
        outcomes[kind] = {"architecture": every[kind]} | outcome
        content = {"versions": versions, "types": dict(sorted(outcomes.items()))}
        results.write_text(json.dumps(content, indent=1) + "\n")
        seconds, why = time.monotonic() - start, outcome.get("why", "")
        print(f"{place}/{len(left)} {kind} {outcome['outcome']} {seconds:.0f} s {why[:100]}", flush=True)


if __name__ == "__main__":
    main()
