"""Other software that loads the bundle, as a column of a report beside the runtimes."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import read_json
from txexport.bundle.manifest import Graphs, Manifest
from txexport.contracts import Port, roles
from txexport.contracts.names import ATTENTION_MASK, INPUT_BOXES, INPUT_IDS, LOGITS
from txexport.errors import InputError, UnsupportedError
from txexport.exporter.genai import GENAI as GENAI_CONFIG
from txexport.parts.cases import DecoderCase, GreedyCase, PromptCase, Sources
from txexport.parts.part import SignalCase
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import pad
from txexport.spec import ModelSpec
from txexport.support.progress import Naming
from txexport.verification.attempt import attempt
from txexport.verification.bounds import RELATIVE
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.pictures import of_sizes, pictured_inputs
from txexport.verification.cases.plan import QUICK, PlannedCase, plan
from txexport.verification.cases.prompts import run_client
from txexport.verification.cases.runs import Outcome
from txexport.verification.cases.sources import source_of
from txexport.verification.checks import CLIENT, HUB, CaseReport, TensorCheck
from txexport.verification.clients import transformers_js
from txexport.verification.clients.process import CLIENTS, Call, Process
from txexport.verification.judgement import Run, judge
from txexport.verification.references.reference import SIGNALS, Arrays, Reference

JS, GENAI = "js", "genai"
NAMES = ("optimum", JS, GENAI, "openvino")
OUTPUTS = "outputs"  # in place of a case's name, for outputs that a client does not return
DECODER_INPUT_IDS = "decoder_input_ids"  # the name in transformers, as of the other inputs

Forward = Callable[[Arrays], Arrays]  # inputs by their names in transformers -> outputs by name


@dataclass(frozen=True)
class ClientRequest:
    """The cases that a client computes: a bundle, its references, and the names of the chosen cases."""

    folder: Path
    manifest: Manifest
    spec: ModelSpec
    references: Mapping[str, Reference]
    names: AbstractSet[str]

    @property
    def cases(self) -> list[PlannedCase]:
        """The quick ones of the chosen cases that clients can compute."""
        return [planned for planned in plan(self.spec, static=False) if self._computes(planned)]

    @property
    def steps(self) -> int:
        """The number of cases, counted for each reference."""
        return len(self.cases) * len(self.references)

    def _computes(self, planned: PlannedCase) -> bool:
        case = planned.case
        if planned.run is None or planned.name not in QUICK & self.names or isinstance(case, GreedyCase):
            return False
        if not isinstance(case, PromptCase):
            return True
        ports = self.manifest.for_others.graphs[roles.MASK_DECODER].inputs
        takes_boxes = INPUT_BOXES in [port.name for port in ports]
        return case.input_masks is None and (case.input_boxes is None or takes_boxes)


@dataclass(frozen=True)
class Only:
    """A reference without the outputs that a client does not return."""

    reference: Any
    outputs: frozenset[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reference, name)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        return {name: one for name, one in self.reference.encode(inputs).items() if name in self.outputs}


def check(name: str, folder: Path, manifest: Manifest) -> None:
    """Raise InputError for an unknown client, UnsupportedError for one that cannot run here."""
    if name not in NAMES:
        raise InputError(f"client '{name}' is not known; expected one of {', '.join(NAMES)}")
    reason = transformers_js.missing_in_node() if name == JS else CLIENTS[name].missing()
    if reason is None and not manifest.hub:
        reason = "it has no graphs for other clients; export without --only native"
    if reason is not None:
        raise UnsupportedError(f"{folder} cannot be tried in {name}: {reason}")


def reports(name: str, request: ClientRequest, progress: Naming) -> Iterator[CaseReport]:
    """The quick ones of the chosen cases, each in one pass by a client that `check` has accepted.

    A last report has the graph's outputs that the client does not return.
    """
    with ExitStack() as stack:
        forward = forward_of(name, started(name, stack), request.folder, request.manifest)
        yield from reports_of_started(name, forward, request, progress)


def reports_of_started(
    name: str, forward: Forward, request: ClientRequest, progress: Naming = lambda case: None
) -> Iterator[CaseReport]:
    """As `reports`, for a client that has started."""
    view = request.manifest.for_others
    lacking: dict[str, None] = {}
    for planned in request.cases:
        case, run = planned.case, planned.run
        assert run is not None
        if isinstance(case, DecoderCase):
            run = partial(_decoded, forward, alone=name == GENAI)
        if isinstance(case, PromptCase):
            run = partial(run_client, forward)
        for reference, original in request.references.items():
            progress(f"{case.name} ({reference}, {name})")
            loaded = LoadedBundle(request.folder, view, "cpu", {})
            checks = partial(_checks, run, forward, loaded, original, case, lacking)
            yield attempt(case.name, reference, checks, f"{CLIENT}{name}", HUB)
    if lacking:
        reason = f"{name} returns no {', '.join(lacking)}"
        for reference in request.references:
            yield CaseReport(OUTPUTS, reference, skipped=reason, runtime=f"{CLIENT}{name}", graphs=HUB)


def started(name: str, stack: ExitStack) -> transformers_js.Client | Process:
    """The started client, which computes one bundle after another and ends with the stack."""
    if name == JS:
        return stack.enter_context(transformers_js.node())
    return stack.enter_context(Process(CLIENTS[name]))


def forward_of(
    name: str, client: transformers_js.Client | Process, folder: Path, manifest: Manifest
) -> Forward:
    """One pass through a bundle's model in a started client."""
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


def _checks(
    run: Run,
    forward: Forward,
    loaded: LoadedBundle,
    original: Reference,
    case: Any,
    lacking: dict[str, None],
) -> list[TensorCheck]:
    """The checks of a case for the outputs that the client returns; the others are added to `lacking`."""
    if isinstance(case, DecoderCase | PromptCase):
        return judge(run, GraphRunner(loaded, loaded.run), original, case, RELATIVE)
    graph = loaded.manifest.graphs[roles.MODEL]
    declared = {port.name for port in graph.outputs}
    returned: set[str] = set()

    def computed(*_: str, **inputs: np.ndarray) -> Arrays:
        result = {name: array for name, array in forward(inputs).items() if name in declared}
        returned.update(result)
        return result

    def runner(outputs: list[Port]) -> GraphRunner:
        shown = Graphs({}, {roles.MODEL: replace(graph, outputs=outputs)})
        view = replace(loaded.manifest, formats={loaded.manifest.dtype: shown})
        return GraphRunner(LoadedBundle(loaded.folder, view, "cpu", {}), computed)

    with contextlib.suppress(Exception):  # raised again below
        run(runner(graph.outputs), original, case)
    lacking |= dict.fromkeys(port.name for port in graph.outputs if returned and port.name not in returned)
    narrowed = runner([port for port in graph.outputs if port.name in returned])
    return judge(run, narrowed, Only(original, frozenset(returned)), case, RELATIVE)


def _decoded(
    forward: Forward, runner: GraphRunner, reference: Reference, case: DecoderCase, *, alone: bool
) -> list[Outcome]:
    """The logits of every token in one pass over all rows, or `alone` over each row."""
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    encoder = runner.manifest.graphs.get(roles.ENCODER)
    masked = encoder is not None and ATTENTION_MASK in [port.name for port in encoder.inputs]
    # Alone too are sounds of several lengths, but where the reference reads them as one batch.
    single = alone or (masked and case.batch is None and not _tokens(case.sources))
    single = single or case.images is not None  # so that each row has images, or none
    batches = [[i] for i in range(len(case.rows))] if single else [[*range(len(case.rows))]]
    for batch in batches:
        if case.images is not None and of_sizes([case.images[batch[0]]]):
            continue  # clients give the images of a prompt at one size
        rows = [case.rows[i] for i in batch]
        if alone and roles.EMBEDDING in runner.manifest.graphs:
            rows = [_readable(runner, row, case.images is not None) for row in rows]
        sources = [case.sources[i] for i in batch] if case.sources else None
        inputs = _inputs(rows, sources, alone) if case.batch is None else _padded(rows, case.batch)
        if masked and single and sources and isinstance(sources[0], np.ndarray):
            inputs[ATTENTION_MASK] = np.ones((1, len(sources[0])), np.int64)
        if case.images is not None and len(case.images[batch[0]]):
            inputs |= pictured_inputs(runner, case, batch[0])
        logits = forward(inputs)[LOGITS]
        for found, row, i in zip(logits, rows, batch, strict=True):
            expected = reference.decode(row, source_of(case, i))[LOGITS]
            pairs.append((found[: len(row)], expected))
    return [Outcome(LOGITS, pairs)]


def _readable(runner: GraphRunner, row: list[int], has_images: bool) -> list[int]:
    """A row as onnxruntime-genai finds images and padding in it, by the ids of tokens.

    Before each image there is the token that begins one, and in place of the token of videos, which stands
    for padding there, the one before it in the vocabulary.
    """
    model = read_json(runner.bundle.folder / GENAI_CONFIG)["model"]
    result: list[int] = []
    for before, token in pairwise([-1, *row]):
        if has_images and token == runner.bundle.image_token_id != before:
            result.append(model["vision_start_token_id"])
        result.append(token - (token == model["pad_token_id"]))
    return result


def _tokens(sources: Sources | None) -> bool:
    """Return whether no source is a signal."""
    return not sources or not isinstance(sources[0], np.ndarray)


def _padded(rows: list[list[int]], batch: SignalCase) -> Arrays:
    """The inputs of transformers: a padded batch of sounds, and decoder rows of one length."""
    assert batch.mask is not None
    signals = {SIGNALS[batch.signals.ndim - 2]: batch.signals, ATTENTION_MASK: batch.mask}
    return {**signals, DECODER_INPUT_IDS: np.array(rows)}


def _inputs(rows: list[list[int]], sources: Sources | None, alone: bool) -> Arrays:
    """The inputs of transformers: padded prompts; or sources, and decoder rows of one length."""
    if sources is None:
        ids, mask = pad(rows, 0)
        return {INPUT_IDS: ids} if alone else {INPUT_IDS: ids, ATTENTION_MASK: mask}
    decoder = {DECODER_INPUT_IDS: np.array(rows)}
    if isinstance(sources[0], np.ndarray):
        return {SIGNALS[sources[0].ndim - 1]: np.stack(sources), **decoder}
    ids, mask = pad([list(source) for source in sources], 0)
    return {INPUT_IDS: ids, ATTENTION_MASK: mask, **decoder}
