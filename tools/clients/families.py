"""Every family and task on every client, with tiny checkpoints.

PYTHONPATH=tools:tests python tools/clients/families.py [--client NAME] [--family NAME]

The clients are those of `verify --client`, each in an environment of its own (tools/clients/run creates them,
or TXEXPORT_NAME_PYTHON and NODE_PATH give their paths). Each loads every bundle that export writes, computes
the quick cases of verify in one pass, and generates some tokens with a decoder; a client that differs from
transformers, or raises, does not run the family. Results are in tools/clients/families.json;
`PYTHONPATH=tools python tools/clients/results.py` makes from it the table of docs/reference/clients.md and
txexport/exporter/clients.json, which export reads. Rows that were not selected stay unchanged.
"""

import itertools
import json
import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tiny_checkpoint
import torch
import transformers
from helpers import published
from helpers.client_rows import WHISPER, forward_inputs, pictured_prompt, save_checkpoint, sequences
from helpers.rows import CONVERSE, GENERATE, HEAR, ROWS, TRANSLATE, Row

from txexport import bundle, families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError, first_line
from txexport.exporter import export
from txexport.exporter.genai import GENAI
from txexport.spec import ModelSpec
from txexport.verification.cases.plan import QUICK
from txexport.verification.clients import judged, transformers_js
from txexport.verification.clients.process import Call
from txexport.verification.references.selection import originals_of, reference_kinds
from txexport.verification.runtimes import npm

RESULTS = Path(__file__).with_name("families.json")
NEW_TOKENS, LONGEST = 6, 160  # characters of a reason
SETTINGS = {"max_new_tokens": NEW_TOKENS, "do_sample": False}
FIRST = (GENERATE, TRANSLATE, HEAR)  # it takes an hour: the most used clients come before the rest
ALONE = ("genai",)  # clients that run decoders, also of images, and Whisper only


def rows(names: Iterable[str]) -> list[Row]:
    """The first row of each task of each family, or of those in `names` if there are any."""
    chosen: dict[tuple[str, str], Row] = {}
    for row in [WHISPER, *ROWS]:  # a Whisper of 30 s, which every client accepts
        if not (wanted := [*names]) or row.model_type in wanted:
            chosen.setdefault((row.model_type, row.task), row)
    by_family: dict[str, list[Row]] = {}
    for row in sorted(chosen.values(), key=lambda row: row.task not in FIRST):
        by_family.setdefault(row.model_type, []).append(row)
    rounds = itertools.zip_longest(*by_family.values())
    return [row for one in rounds for row in one if row is not None]


def written(row: Row, folder: Path) -> None:
    """Write the row's tiny checkpoint."""
    if (write := published.WITHOUT_LIBRARY.get(row.model_type)) is None:
        save_checkpoint(row, folder)
    else:
        write(folder, row.architecture, **row.config)


def judges_of(row: Row, checkpoint: Path) -> tuple[ModelSpec, dict[str, Any]]:
    """A checkpoint's spec, and its reference: transformers, or the family's own definition."""
    source = Checkpoint(checkpoint)
    resolved = families.resolve(source, row.task, None)
    kinds = reference_kinds(None, resolved.model_type, False)
    return resolved.spec, originals_of({"transformers": kinds["transformers"]}, source, resolved, [])


def refusal(
    name: str,
    client: Any,
    row: Row,
    checkpoint: Path,
    folder: Path,
    spec: ModelSpec,
    judges: dict[str, Any],
) -> str | None:
    """The reason why a client does not run a bundle, in a line, or None where all outputs are right."""
    joined = row.task == CONVERSE and (folder / GENAI).exists()
    if name in ALONE and not joined and (row.task not in (GENERATE, HEAR) or None in row.caches):
        return f"it runs no {row.task}" + " by CTC" * (row.task == HEAR)
    if name in ALONE and row.task == HEAR:
        return _transcribed(client, row, checkpoint, folder)
    manifest = bundle.read(folder)
    forward = judged.forward_of(name, client, folder, manifest)
    request = judged.ClientRequest(folder, manifest, spec, judges, QUICK)
    reports = [*judged.reports_of_started(name, forward, request)]
    for report in reports:
        if not report.ok:
            wrong = [f"{check.output} is off by {check.error:.0e}" for check in report.checks if not check.ok]
            return report.exception or ", ".join(wrong) or "nothing could be compared"
    if not reports:
        return "no case could be tried"
    if row.task in (GENERATE, TRANSLATE, CONVERSE):
        return _generated(name, client, row, checkpoint, folder)
    return None


def _generated(name: str, client: Any, row: Row, checkpoint: Path, folder: Path) -> str | None:
    """The reason why greedy tokens over the client's own cache are wrong, or None."""
    ids = torch.arange(7, 14)[None].numpy()
    inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1}
    if row.task == CONVERSE:
        inputs = pictured_prompt(row)
    expected = sequences(row, checkpoint, inputs, SETTINGS).tolist()[0]
    if isinstance(client, transformers_js.Client):
        [architecture, *_] = json.loads((folder / "config.json").read_text())["architectures"]
        tokens = client.generate(architecture, folder, inputs, **SETTINGS)[0]
    else:
        settings = dict(SETTINGS)
        if name == "genai":
            length = inputs["input_ids"].shape[1] + NEW_TOKENS
            settings = {"max_length": length, "do_sample": False}
        [answer] = client.ask(folder, row.task, [Call("generate", inputs, {"settings": settings})])
        tokens = [int(token) for token in answer["sequences"][0]]
    length = len(tokens) if name == "genai" else len(expected)  # it omits EOS
    return None if tokens == expected[:length] and len(tokens) >= length else "generates other tokens"


def _transcribed(client: Any, row: Row, checkpoint: Path, folder: Path) -> str | None:
    """The reason why onnxruntime-genai's transcription differs, or None."""
    sound = {"input_features": forward_inputs(row)["input_features"][:1]}
    settings = SETTINGS | {"begin_suppress_tokens": None}  # it does not know this key
    start = tiny_checkpoint.WHISPER["decoder_start_token_id"]  # transformers omits it
    expected = [start, *sequences(row, checkpoint, sound, settings).tolist()[0]]
    prompt = {"input_ids": torch.tensor([[start]]).numpy()}
    settings = {"max_length": 1 + NEW_TOKENS, "do_sample": False}
    [answer] = client.ask(folder, row.task, [Call("transcribe", sound | prompt, {"settings": settings})])
    tokens = [int(token) for token in answer["sequences"][0]]
    return None if tokens and tokens == expected[: len(tokens)] else "generates other tokens"


def tried(clients: dict[str, Any], chosen: list[Row]) -> Iterator[tuple[Row, str, str | None]]:
    """Each row, client, and the reason why it does not run, as they are tested."""
    for number, row in enumerate(chosen, 1):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="txexport-clients-") as work:
            checkpoint, folder = Path(work) / "checkpoint", Path(work) / "bundle"
            try:
                written(row, checkpoint)
                export(checkpoint, folder, task=row.task, only=None if row.task == HEAR else "hub")
                spec, judges = judges_of(row, checkpoint)
            except TxexportError as error:  # a fault of txexport or of the row, not of the client
                print(f"{row.id} cannot be exported: {first_line(error)}", file=sys.stderr)
                continue
            for name, client in clients.items():
                try:
                    why = refusal(name, client, row, checkpoint, folder, spec, judges)
                except (TxexportError, transformers_js.ClientError, KeyError, RuntimeError) as error:
                    why = f"{type(error).__name__}: {error}"
                yield row, name, None if why is None else in_short(row, why.replace(work, ""))
        seconds = time.monotonic() - began
        print(f"{number}/{len(chosen)} {row.id}: {seconds:.1f} s", file=sys.stderr, flush=True)


def in_short(row: Row, why: str) -> str:
    """A reason in a line: a class that a client lacks is reported as such."""
    if "reading 'from_pretrained'" in why:
        return f"it has no {row.architecture}"
    if why.endswith(f"KeyError: '{row.task}'"):
        return f"it has no class for {row.task}"
    return first_line(why)[:LONGEST]


def versions(name: str, client: Any) -> dict[str, str]:
    """A client's packages with their versions, the main one first."""
    if isinstance(client, transformers_js.Client):
        return {transformers_js.PACKAGE: npm.version(transformers_js.PACKAGE)}
    return dict(client.versions)


def write(results: dict[str, Any], path: Path) -> None:
    """Write the results atomically."""
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.move(draft, path)


def main() -> None:
    """Test all, and write the results after every row, so that a long run can be stopped."""
    parser = ArgumentParser()
    parser.add_argument("--client", action="append", choices=judged.NAMES)
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("--missing", action="store_true", help="rows alone that the file has not")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    results = (
        json.loads(options.out.read_text()) if options.out.exists() else {"versions": {}, "families": {}}
    )
    with ExitStack() as stack:
        clients = {name: judged.started(name, stack) for name in options.client or judged.NAMES}
        known = results["families"] if options.missing else {}
        chosen = [
            row
            for row in rows(options.family)
            if not clients.keys() <= known.get(row.model_type, {}).get(row.task, {}).keys()
        ]
        for row, name, why in tried(clients, chosen):
            tasks = results["families"].setdefault(row.model_type, {})
            tasks.setdefault(row.task, {})[name] = why
            if installed := versions(name, clients[name]):
                results["versions"][name] = installed
            write(results, options.out)


if __name__ == "__main__":
    main()
