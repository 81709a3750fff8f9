"""Open a bundle with every candidate, compare their answers, and time them in turn."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from txexport import bundle
from txexport.benchmark.judgement import wrong_of
from txexport.benchmark.result import Benchmark, Candidate, Measured
from txexport.benchmark.works import text_workloads
from txexport.dtype_comparison.accuracy import MEASURES, accuracy_of, check_task
from txexport.dtype_comparison.speed import Work, timed
from txexport.dtype_comparison.texts import built_in
from txexport.errors import BundleError, InputError, MissingLibraryError, UnsupportedError, shown
from txexport.formats import DEFAULT
from txexport.runtime import Model, load
from txexport.runtime.cpus import available
from txexport.runtime.engines import ENGINES, FLOAT32, PRECISIONS, THREADS
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.preprocessing.text_file import items_of
from txexport.support.arguments import check_count, checked
from txexport.support.progress import Naming, naming

ONNXRUNTIME = ENGINES[0]  # which computes in float32 alone
Works = dict[str, tuple[str, Work]]


@checked
def bench(
    out: str | Path,
    *,
    texts: str | Path | Sequence[Item] | None = None,
    threads: int | None = None,
    loss: float = 0.01,
    rounds: int = 5,
    max_new_tokens: int = 32,
    progress: Naming | bool | None = None,
) -> Benchmark:
    """Find the fastest correct way to run the bundle `out` on this machine's processors.

    Candidates are every installed engine with every dtype of the bundle, and with bfloat16 if the engine
    computes in it; all are open at once. Each answers the same `texts` (a file or a list, as in
    `compare_dtypes`) and is compared with float32 on ONNX Runtime, or with the first candidate if there is no
    such one; a candidate that loses more than `loss` of the answers is reported, but not chosen. `threads` is
    the number for every candidate; None is as many as the process may use, and then the fastest candidate
    also runs with fewer. Generators write `max_new_tokens` greedily. Seconds are those of this machine, the
    median of `rounds` in which every candidate runs once. `progress` receives the name of the next step; True
    shows it. Raises BundleError, InputError for texts or a task that cannot be compared, OSError for a file
    that cannot be read, MissingLibraryError if no engine is installed.
    """
    folder, manifest = Path(out), bundle.read(out)
    check_count("rounds", rounds)
    check_count("max_new_tokens", max_new_tokens)
    if not 0 <= loss <= 1:
        raise InputError(f"loss is {shown(loss)}, expected a share from 0 to 1")
    tell = naming(progress)
    items = built_in() if texts is None else items_of(texts)
    check_task(manifest, items)
    most = min(available(), THREADS) if threads is None else threads
    with contextlib.ExitStack() as stack:
        tell("loading")
        ways = _opened(folder, _candidates(list(manifest.formats), most), stack)
        models = {candidate.name: model for candidate, model in ways.models.items()}
        tell("asking")
        accuracy = accuracy_of(models, items, max_new_tokens)
        wrong = wrong_of(list(ways.models), accuracy, loss)
        tell("timing")
        works = text_workloads(next(iter(models.values())), items, max_new_tokens)
        seconds, speedup = timed(models, works, rounds)
        measured = [
            Measured(one, accuracy[one.name], seconds[one.name], speedup[one.name], wrong[one.name])
            for one in ways.models
        ]
    best = max((one for one in measured if one.wrong is None), key=lambda one: one.mean_speedup)
    fewer = [] if threads is not None else _with_fewer(folder, best, works, rounds, tell)
    reported = {measure for one in measured for measure in one.accuracy}
    return Benchmark(
        bundle=str(out),
        model_type=manifest.model_type,
        task=manifest.task,
        processors=available(),
        texts=len(items) if bundle.reads_tokens(manifest.graphs) else 0,
        built_in=texts is None,
        loss=loss,
        measures={name: message for name, message in MEASURES.items() if name in reported},
        works={name: message for name, (message, _) in works.items()},
        candidates=measured,
        threads=fewer,
        left_out=ways.left_out,
        chosen=max(fewer or [best], key=lambda one: one.mean_speedup).candidate,
    )


@dataclass(frozen=True)
class _Ways:
    """Models by candidate, the reference first, and the reasons why others did not open, by name."""

    models: dict[Candidate, Model] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def _candidates(dtypes: list[str], threads: int) -> Iterator[Candidate]:
    """Every candidate, float32 on the first engine first."""
    for engine in ENGINES:
        for dtype in sorted(dtypes, key=lambda name: name != DEFAULT):
            for precision in PRECISIONS if engine != ONNXRUNTIME else (FLOAT32,):
                yield Candidate(engine, dtype, precision, threads)


def _opened(folder: Path, candidates: Iterable[Candidate], stack: contextlib.ExitStack) -> _Ways:
    """The candidates that can be opened on this machine; the `stack` closes them.

    Raises MissingLibraryError if no engine is installed, and the error of the first candidate if it does not
    open.
    """
    ways = _Ways()
    for candidate in candidates:
        try:
            ways.models[candidate] = stack.enter_context(_load(folder, candidate))
        except MissingLibraryError as error:
            ways.left_out[candidate.engine] = str(error)
        except (BundleError, InputError, UnsupportedError) as error:
            if not ways.models:
                raise
            ways.left_out[candidate.name] = str(error)
    if not ways.models:
        raise MissingLibraryError(ways.left_out[ONNXRUNTIME])
    return ways


def _load(folder: Path, one: Candidate) -> Model:
    return load(
        folder,
        device="cpu",
        threads=one.threads,
        dtype=one.dtype,
        engine=one.engine,
        precision=one.precision,
    )


def _with_fewer(folder: Path, best: Measured, works: Works, rounds: int, tell: Naming) -> list[Measured]:
    """The best candidate with its number of threads, and with 1, 2, 4 and so on, timed in turn.

    Their answers agree up to rounding, so they are not compared again.
    """
    most = best.candidate.threads
    counts = [most, *(2**power for power in range(most.bit_length()) if 2**power < most)]
    if len(counts) == 1:
        return []
    tell("timing fewer threads")
    with contextlib.ExitStack() as stack:
        ways = [replace(best.candidate, threads=count) for count in counts]
        models = {one.name: stack.enter_context(_load(folder, one)) for one in ways}
        seconds, speedup = timed(models, works, rounds)
    return [
        replace(best, candidate=one, seconds=seconds[one.name], speedup=_over(best, speedup[one.name]))
        for one in ways
    ]


def _over(best: Measured, speedup: Mapping[str, float]) -> dict[str, float]:
    """The speed-up over the reference, from the speed-up over the best candidate."""
    return {work: times * best.speedup[work] for work, times in speedup.items()}
