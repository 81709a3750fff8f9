"""Second moments of the inputs of products over texts: H = X^T X of the vectors X that a matrix multiplies.

A float32 bundle for other clients, whose graphs are flat, reads the texts; it reads them again for each group
of products whose moments fit into memory.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper

from txexport import bundle
from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.contracts.names import ENCODER_HIDDEN_STATES, INPUT_IDS, INPUTS_EMBEDS, LAST_HIDDEN_STATE
from txexport.exporter.calibration.inputs import Batch, batches
from txexport.runtime.engines.onnxruntime import open_session
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.session import Session
from txexport.spec import ModelSpec

MEMORY = 1 << 30  # bytes of moments, and of a batch's outputs, at a time
BATCH_TOKENS = 1024  # tokens of a batch
# What a graph gives to the next one.
PASSED_ON = {roles.ENCODER: LAST_HIDDEN_STATE, roles.EMBED_TOKENS: INPUTS_EMBEDS}
SUFFIX = "_inputs"  # suffix of graphs that also output the inputs of products

Place: TypeAlias = tuple[str, str]  # the role of a graph, and the name of a value
Sources: TypeAlias = tuple[Place, ...]  # all inputs of products with one matrix
Tell: TypeAlias = Callable[[float], None]  # receives the share that is done


@dataclass(frozen=True)
class Moments:
    """H (in,in) of the inputs of the matrices called `names`, over that number of vectors, `rows`."""

    names: list[str]
    numbers: np.ndarray
    rows: int


class Reading:
    """Texts that a float32 bundle for other clients in `folder` reads.

    `keys` are equal for names of parameters that are one matrix; only these are traced. `tokens` is the
    number of tokens. Raises InputError for texts that the model does not read.
    """

    def __init__(self, folder: Path, spec: ModelSpec, items: Sequence[Item], keys: Mapping[str, Hashable]):
        self.folder, self.manifest = folder, bundle.read(folder)
        self.batches = batches(LoadedBundle(folder, self.manifest, "cpu", {}), spec, items, BATCH_TOKENS)
        every = [feeds for batch in self.batches for feeds in batch.values() if INPUT_IDS in feeds]
        self.tokens = sum(feeds[INPUT_IDS].size for feeds in every)
        self._matrices = _products(folder, self.manifest, [*self.batches[0]], keys)

    def moments(self, tell: Tell) -> Iterator[Moments]:
        """Yield the moments of all matrices that the texts reach.

        `tell` receives the share that is done; half of it is reading, the other half the use of the moments.
        """
        groups = [*_groups(self._matrices)]
        for number, group in enumerate(groups):

            def read(share: float, number: int = number) -> None:
                tell((number + share / 2) / len(groups))

            for done, moments in enumerate(self._read(group, read), 1):
                yield moments
                read(1 + done / len(group))

    def _read(self, group: Mapping[Sources, "_Matrices"], tell: Tell) -> Iterator[Moments]:
        """The moments of a group of products."""
        sums = {sources: np.zeros((one.inputs, one.inputs), np.float32) for sources, one in group.items()}
        rows = dict.fromkeys(group, 0)
        sessions = self._sessions({place for sources in group for place in sources})
        for done, batch in enumerate(self.batches, 1):
            values = _run(sessions, batch)
            for sources in group:
                for place in sources:
                    vectors = values[place].reshape(-1, sums[sources].shape[0])
                    sums[sources] += vectors.T @ vectors
                    rows[sources] += len(vectors)
            tell(done / len(self.batches))
        for sources, one in group.items():
            yield Moments(one.names, sums.pop(sources), rows[sources])

    def _sessions(self, places: set[Place]) -> dict[str, Session | None]:
        """Sessions of the graphs that output those values, in running order; None if all are inputs."""
        order = [*self.batches[0]]
        last = max(order.index(role) for role, _ in places)
        result: dict[str, Session | None] = {}
        for role in order[: last + 1]:
            model = onnx.load(self.folder / self.manifest.hub[role].file, load_external_data=False)
            inputs = {port.name for port in model.graph.input}
            wanted = {value for of, value in places if of == role} - inputs
            wanted |= {PASSED_ON[role]} if role in PASSED_ON else set()
            del model.graph.output[:]
            for name in sorted(wanted):
                kind = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
                model.graph.output.append(kind)
            path = self.folder / self.manifest.hub[role].file
            path = path.with_stem(path.stem + SUFFIX)
            onnx.save(model, path)
            result[role] = open_session(path, "cpu", None) if wanted else None
        return result


def sha256_of(items: Sequence[Item]) -> str:
    """Hex digest of texts and pairs in their order."""
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()


@dataclass
class _Matrices:
    names: list[str]
    inputs: int


def _products(
    folder: Path, manifest: Manifest, order: Sequence[str], keys: Mapping[str, Hashable]
) -> dict[Sources, _Matrices]:
    """The matrices by all inputs that they multiply, in the order of the graphs."""
    values: dict[Hashable, list[Place]] = defaultdict(list)
    inputs: dict[Hashable, int] = {}
    for role in order:
        model = onnx.load(folder / manifest.hub[role].file, load_external_data=False)
        shapes = {one.name: one.dims for one in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "MatMul" and node.input[1] in shapes and node.input[1] in keys:
                key = keys[node.input[1]]
                values[key].append((role, node.input[0]))
                inputs[key] = shapes[node.input[1]][0]
    result: dict[Sources, _Matrices] = {}
    for key, of in values.items():
        names = [name for name, one in keys.items() if one == key]
        result.setdefault(tuple(of), _Matrices([], inputs[key])).names.extend(names)
    return result


def _groups(matrices: Mapping[Sources, _Matrices]) -> Iterator[dict[Sources, _Matrices]]:
    """Groups whose moments fit into memory together."""
    group: dict[Sources, _Matrices] = {}
    held = 0
    for sources, one in matrices.items():
        size = 4 * one.inputs * (one.inputs + BATCH_TOKENS * len(sources))
        if group and held + size > MEMORY:
            yield group
            group, held = {}, 0
        group[sources] = one
        held += size
    if group:
        yield group


def _run(sessions: Mapping[str, Session | None], batch: Batch) -> dict[Place, np.ndarray]:
    """The values in the graphs and their inputs, by position."""
    values: dict[Place, np.ndarray] = {}
    for role, session in sessions.items():
        feeds = dict(batch[role])
        if role == roles.DECODER:
            feeds[ENCODER_HIDDEN_STATES] = values[roles.ENCODER, LAST_HIDDEN_STATE]
        if roles.EMBED_TOKENS in sessions and role == roles.DECODER_MERGED:
            feeds[INPUTS_EMBEDS] = values[roles.EMBED_TOKENS, INPUTS_EMBEDS]
        outputs = {} if session is None else session.run({name: feeds[name] for name in session.inputs})
        values |= {(role, name): array for name, array in (feeds | outputs).items()}
    return values
