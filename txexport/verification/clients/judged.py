"""Other software as a column of a report: what it answers for a bundle, held against the originals."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import read_json
from txexport.bundle.manifest import Graphs, Manifest
from txexport.contracts import Port, roles
from txexport.contracts.names import ATTENTION_MASK, INPUT_FEATURES, INPUT_IDS, LOGITS, PIXEL_VALUES
from txexport.errors import InputError, UnsupportedError
from txexport.parts.cases import DecoderCase, GreedyCase, Sources
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import pad
from txexport.spec import ModelSpec
from txexport.verification.bounds import RELATIVE
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.plan import QUICK, plan
from txexport.verification.cases.runs import Outcome
from txexport.verification.checks import CLIENT, HUB, CaseReport, TensorCheck
from txexport.verification.clients import transformers_js
from txexport.verification.clients.process import CLIENTS, Call, Process
from txexport.verification.judgement import Run, judge
from txexport.verification.references.originals import Arrays, Reference
from txexport.verification.verify_run import CaseProgress, attempt

JS, GENAI = "js", "genai"
NAMES = ("optimum", JS, GENAI, "openvino")
OUTPUTS = "outputs"  # in place of a case's name: those that a client does not give
DECODER_INPUT_IDS = "decoder_input_ids"  # in the words of transformers, as what else is given

Forward = Callable[[Arrays], Arrays]  # inputs in the words of transformers -> outputs by name


@dataclass(frozen=True)
class Only:
    """A reference without the outputs that a client does not give."""

    reference: Any
    outputs: frozenset[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reference, name)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        return {name: one for name, one in self.reference.encode(inputs).items() if name in self.outputs}


def check(name: str, folder: Path, manifest: Manifest) -> None:
    """Raise InputError for a client that is not known, UnsupportedError for one that cannot be asked here."""
    if name not in NAMES:
        raise InputError(f"client '{name}' is not known; expected one of {', '.join(NAMES)}")
    why = transformers_js.missing_in_node() if name == JS else CLIENTS[name].missing()
    if why is None and not manifest.hub:
        why = "it has no graphs for other clients; export without --only native"
    if why is not None:
        raise UnsupportedError(f"{folder} cannot be tried in {name}: {why}")


def over(
    name: str,
    folder: Path,
    manifest: Manifest,
    spec: ModelSpec,
    originals: Mapping[str, Reference],
    wanted: AbstractSet[str],
    progress: CaseProgress | None,
) -> Iterator[CaseReport]:
    """What a client that `check` has passed computes of the quick ones of the `wanted` cases, in one pass.

    Which of the graph's outputs it does not give is said last.
    """
    with ExitStack() as stack:
        forward = forward_of(name, started(name, stack), folder, manifest)
        yield from answered(name, forward, folder, manifest, spec, originals, wanted, progress)


def answered(
    name: str,
    forward: Forward,
    folder: Path,
    manifest: Manifest,
    spec: ModelSpec,
    originals: Mapping[str, Reference],
    wanted: AbstractSet[str],
    progress: CaseProgress | None = None,
) -> Iterator[CaseReport]:
    """As `over`, of a client that has started."""
    view = manifest.for_others
    lacking: dict[str, None] = {}
    for planned in plan(spec, static=False):
        case = planned.case
        run = planned.run
        if run is None or planned.name not in QUICK & wanted or isinstance(case, GreedyCase):
            continue
        if isinstance(case, DecoderCase):
            run = partial(_decoded, forward, alone=name == GENAI)
        for reference, original in originals.items():
            if progress is not None:
                progress(f"{case.name} ({reference}, {name})")
            loaded = LoadedBundle(folder, view, "cpu", {})
            tried = partial(_tried, run, forward, loaded, original, case, lacking)
            yield attempt(case.name, reference, tried, f"{CLIENT}{name}", HUB)
    if lacking:
        why = f"{name} gives no {', '.join(lacking)}"
        for reference in originals:
            yield CaseReport(OUTPUTS, reference, skipped=why, runtime=f"{CLIENT}{name}", graphs=HUB)


def started(name: str, stack: ExitStack) -> transformers_js.Client | Process:
    """The client, which answers for one bundle after another and ends with the stack."""
    if name == JS:
        return stack.enter_context(transformers_js.node())
    return stack.enter_context(Process(CLIENTS[name]))


def forward_of(
    name: str, client: transformers_js.Client | Process, folder: Path, manifest: Manifest
) -> Forward:
    """One pass of a bundle's model in a client that has started."""
    if isinstance(client, transformers_js.Client):
        [architecture, *_] = read_json(folder / "config.json")["architectures"]
        return partial(client.forward, architecture, folder)
    process = client
    function = "logits" if name == GENAI else "forward"

    def ask(inputs: Arrays) -> Arrays:
        (answer,) = process.ask(folder, manifest.task, [Call(function, inputs)])
        if answer.error is not None:
            raise RuntimeError(answer.error)
        return dict(answer.values)

    return ask


def _tried(
    run: Run,
    forward: Forward,
    loaded: LoadedBundle,
    original: Reference,
    case: Any,
    lacking: dict[str, None],
) -> list[TensorCheck]:
    """The checks of a case that the client computes: of those outputs that it gives; others are `lacking`."""
    if isinstance(case, DecoderCase):
        return judge(run, GraphRunner(loaded, loaded.run), original, case, RELATIVE)
    graph = loaded.manifest.graphs[roles.MODEL]
    declared = {port.name for port in graph.outputs}
    given: set[str] = set()

    def computed(*_: str, **inputs: np.ndarray) -> Arrays:
        result = {name: array for name, array in forward(inputs).items() if name in declared}
        given.update(result)
        return result

    def runner(outputs: list[Port]) -> GraphRunner:
        shown = Graphs({}, {roles.MODEL: replace(graph, outputs=outputs)})
        view = replace(loaded.manifest, formats={loaded.manifest.dtype: shown})
        return GraphRunner(LoadedBundle(loaded.folder, view, "cpu", {}), computed)

    with contextlib.suppress(Exception):  # what it raises, it raises again below
        run(runner(graph.outputs), original, case)
    lacking |= dict.fromkeys(port.name for port in graph.outputs if given and port.name not in given)
    told = runner([port for port in graph.outputs if port.name in given])
    return judge(run, told, Only(original, frozenset(given)), case, RELATIVE)


def _decoded(
    forward: Forward, runner: GraphRunner, reference: Reference, case: DecoderCase, *, alone: bool
) -> list[Outcome]:
    """The logits of every token in one pass over all rows, or over each `alone`."""
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    batches = [[place] for place in range(len(case.rows))] if alone else [[*range(len(case.rows))]]
    for batch in batches:
        rows = [case.rows[place] for place in batch]
        sources = [case.sources[place] for place in batch] if case.sources else None
        logits = forward(_inputs(rows, sources, alone))[LOGITS]
        for found, row, place in zip(logits, rows, batch, strict=True):
            expected = reference.decode(row, case.sources[place] if case.sources else None)[LOGITS]
            pairs.append((found[: len(row)], expected))
    return [Outcome(LOGITS, pairs)]


def _inputs(rows: list[list[int]], sources: Sources | None, alone: bool) -> Arrays:
    """What transformers takes: prompts, padded; or sources, and rows of one length for the decoder."""
    if sources is None:
        ids, mask = pad(rows, 0)
        return {INPUT_IDS: ids} if alone else {INPUT_IDS: ids, ATTENTION_MASK: mask}
    decoder = {DECODER_INPUT_IDS: np.array(rows)}
    if isinstance(sources[0], np.ndarray):
        port = INPUT_FEATURES if sources[0].ndim == 2 else PIXEL_VALUES
        return {port: np.stack(sources), **decoder}
    ids, mask = pad([list(source) for source in sources], 0)
    return {INPUT_IDS: ids, ATTENTION_MASK: mask, **decoder}
