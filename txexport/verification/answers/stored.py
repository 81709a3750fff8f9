"""Samples of every output of a few cases, and the file of a bundle that holds them."""

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.bundle.proof import ANSWERS
from txexport.contracts import cache_names
from txexport.contracts.layer_outputs import kind_of
from txexport.errors import BundleError
from txexport.support.arguments import check_fields
from txexport.verification import bounds
from txexport.verification.checks import TensorCheck

FORMAT = 1
SAMPLES, OF_A_LAYER = 32, 8  # numbers of an output, and of one that each layer has
MOST = 2**24  # bytes of the unpacked file
LARGEST = 2**31  # numbers of an array


@dataclass(frozen=True)
class Answer:
    """One output over one case: samples of its numbers, in the order of the case's pairs.

    `values` are the reference's numbers at the places of `sampled`, and `sizes` are those that errors are
    relative to, as in `bounds`. `norm` is the Euclidean norm of all numbers, of which `finite` are finite and
    count, and `size` that of their sizes. `shapes` are those of the pairs. `graph` is as in TensorCheck.
    """

    output: str
    graph: str | None
    bound: float
    shapes: list[list[int]]
    finite: int
    norm: float
    size: float
    values: list[float]
    sizes: list[float]

    @property
    def elements(self) -> int:
        """The count of all numbers."""
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class CaseAnswers:
    """The answers of one case, the SHA-256 of its inputs, and the shapes of each call of the reference."""

    name: str
    inputs: str
    calls: list[dict[str, list[int]]]
    answers: list[Answer]


@dataclass(frozen=True)
class Answers:
    """The answers of `reference` to graphs of one kind and dtype; it `lacks` these kinds of outputs.

    Where the graphs round activations (`rounded`), the answers are those in float32, and a bound limits the
    norm of an output's error in place of each number's.
    """

    reference: str
    lacks: list[str]
    cases: list[CaseAnswers]
    rounded: bool = False


def answer(
    case: str, output: str, graph: str | None, bound: float, pairs: Iterable[tuple[np.ndarray, np.ndarray]]
) -> Answer:
    """The answer of an output to be kept; `pairs` are of (found, expected)."""
    expected = [np.asarray(one, np.float64) for _, one in pairs]
    numbers, sizes = (
        _flat(expected),
        _flat([np.broadcast_to(bounds.size(one), one.shape) for one in expected]),
    )
    indices, real = sampled(case, output, len(numbers)), np.isfinite(numbers)
    return Answer(
        output,
        graph,
        bound,
        [list(one.shape) for one in expected],
        int(real.sum()),
        float(np.linalg.norm(numbers[real])),
        float(np.linalg.norm(sizes[real])),
        [float(f"{number:.9g}") for number in numbers[indices].tolist()],
        [float(f"{number:.4g}") for number in sizes[indices].tolist()],
    )


def check(case: str, stored: Answer, outputs: Sequence[np.ndarray], rounded: bool = False) -> TensorCheck:
    """The check of an output against its answer: the larger of the errors of samples and of the norm.

    The norm of a difference is at least the difference of norms, so an output within its bound passes.
    The error of the samples is that of the worst one, or if `rounded` the norm of theirs.
    """
    numbers = _flat([np.asarray(one, np.float64) for one in outputs])
    error = math.inf
    real = np.isfinite(numbers)
    if [list(one.shape) for one in outputs] == stored.shapes and int(real.sum()) == stored.finite:
        indices = sampled(case, stored.output, stored.elements)
        off = abs(float(np.linalg.norm(numbers[real])) - stored.norm)
        ours, theirs, sizes = numbers[indices], np.array(stored.values), np.array(stored.sizes)
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(ours == theirs, 0.0, np.abs(ours - theirs))
            if rounded:
                finite = np.isfinite(theirs)
                apart, sizes = _length(apart[finite]), _length(sizes[finite])
            apart, sizes = np.append(apart, off), np.append(sizes, stored.size)
            errors = np.where(apart == 0, 0.0, apart / sizes)
        error = float(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).max())
    return TensorCheck(stored.output, len(stored.values), error, stored.bound, graph=stored.graph)


def sampled(case: str, output: str, elements: int) -> np.ndarray:
    """The places of samples among `elements` numbers of an output: hashes choose them, on any machine."""
    of_layer = kind_of(output) is not None or cache_names.is_present(output)
    most = OF_A_LAYER if of_layer else SAMPLES
    if elements <= most:
        return np.arange(elements)
    drawn = hashlib.shake_256(f"{case}/{output}".encode()).digest(8 * most)
    return np.unique(np.frombuffer(drawn, "<u8") % elements).astype(np.int64)


def digest(value: Any) -> str:
    """SHA-256 of the inputs of a case, arrays and all."""
    result = hashlib.sha256()

    def add(part: Any) -> None:
        if is_dataclass(part):
            add({field.name: getattr(part, field.name) for field in fields(part)})
        elif isinstance(part, dict):
            add([item for pair in part.items() for item in pair])
        elif isinstance(part, list | tuple):
            result.update(f"{len(part)}[".encode())
            for one in part:
                add(one)
        elif isinstance(part, np.ndarray):
            result.update(f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            result.update(f"{part!r},".encode())

    add(value)
    return result.hexdigest()


def packed(answers: Mapping[str, Answers]) -> bytes:
    """The content of the file for answers by graphs; the same for the same answers."""
    values = {"format": FORMAT, "graphs": {name: asdict(one) for name, one in answers.items()}}
    return gzip.compress(json.dumps(values, separators=(",", ":")).encode(), mtime=0)


def read(folder: Path, manifest: Manifest) -> dict[str, Answers]:
    """The answers that a bundle keeps, by the graphs that they are for, named as in CaseReport.

    Raises BundleError if it keeps none, or if they were changed.
    """
    recorded = {} if manifest.proof is None else manifest.proof.sha256
    proof = manifest.proof
    if proof is not None and proof.failed:
        raise BundleError(
            f"{folder} keeps no answers: txexport verify found it {proof.verdict} on {proof.created[:10]}; "
            f"export it again; if its files are right again, txexport verify {folder} records new ones"
        )
    if ANSWERS not in recorded:
        raise BundleError(
            f"{folder} keeps no answers to compare with; txexport verify {folder} records them, where its "
            "checkpoint and PyTorch are"
        )
    try:
        content = (folder / ANSWERS).read_bytes()
    except OSError as error:
        raise BundleError(f"{folder / ANSWERS} cannot be read: {error}; run txexport verify") from None
    if hashlib.sha256(content).hexdigest() != recorded[ANSWERS]:
        raise BundleError(f"{folder / ANSWERS} is not what txexport verify recorded; run it again")
    try:
        return _parsed(content)
    except (zlib.error, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BundleError(f"{folder / ANSWERS} is damaged: {error!r}; run txexport verify") from None


def _parsed(content: bytes) -> dict[str, Answers]:
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)  # as gzip, up to a length
    text = unpacking.decompress(content, MOST)
    if not unpacking.eof:
        raise ValueError(f"expected up to {MOST:,} bytes")
    values = json.loads(text)
    if values["format"] != FORMAT:
        raise ValueError(f"format {values['format']}, expected {FORMAT}")
    return {name: _answers(one) for name, one in values["graphs"].items()}


def _answers(values: dict) -> Answers:
    cases = []
    for case in values["cases"]:
        samples = [Answer(**one) for one in case["answers"]]
        for one in samples:
            check_fields(one)
            indices = sampled(case["name"], one.output, one.elements) if one.elements <= LARGEST else ()
            if not len(one.values) == len(one.sizes) == len(indices):
                raise ValueError(f"{len(one.values)} samples of {one.output}")
        shapes = [shape for call in case["calls"] for shape in call.values()]
        if any(min(shape, default=0) < 0 or math.prod(shape) > LARGEST for shape in shapes):
            raise ValueError(f"shapes of {case['name']}")
        cases.append(CaseAnswers(**case | {"answers": samples}))
    result = Answers(**values | {"cases": cases})
    for entry in (result, *cases):
        check_fields(entry)
    return result


def _length(numbers: np.ndarray) -> np.ndarray:
    """The Euclidean norm of numbers, as an array of one."""
    return np.atleast_1d(np.linalg.norm(numbers))


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([one.reshape(-1) for one in arrays]) if arrays else np.zeros(0)
