"""Open all dtypes of a bundle, compare their answers to the same inputs, and time them in turn."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from txexport import bundle
from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.dtype_comparison.accuracy import MEASURES, accuracy_of
from txexport.dtype_comparison.result import DtypeComparison, DtypeResult
from txexport.dtype_comparison.speed import timed, works_of
from txexport.dtype_comparison.texts import built_in
from txexport.formats import DEFAULT, DTYPES
from txexport.runtime import load
from txexport.runtime.engines import ENGINES, FLOAT32
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.preprocessing.text_file import items_of
from txexport.support.arguments import check_count, checked
from txexport.support.progress import Naming, naming


@checked
def compare_dtypes(
    out: str | Path,
    *,
    texts: str | Path | Sequence[Item] | None = None,
    device: str | None = None,
    threads: int | None = None,
    engine: str = ENGINES[0],
    precision: str = FLOAT32,
    rounds: int = 5,
    max_new_tokens: int = 32,
    progress: Naming | bool | None = None,
) -> DtypeComparison:
    """Compare size, accuracy and speed of every dtype of the bundle `out`; all are open at once.

    The reference is float32, or the bundle's first dtype if it has no float32. `texts` is a file, one text a
    line, or two separated by a tab (for an encoder-decoder, source and target), or a list of texts. By
    default 64 built-in sentences are used, which are no good test of a model that writes code. Models of
    images read seeded noise. `device`, `threads`, `engine` and `precision` are as in `load`. Speed is
    measured on this machine, in `rounds` in which every dtype runs once. Generators write `max_new_tokens`
    greedily, or as many as the model allows. `progress` receives the name of the next step; True shows it.
    Raises BundleError, InputError for texts or a task that cannot be compared, OSError for a file that cannot
    be read.
    """
    folder = Path(out)
    manifest = bundle.read(folder)
    check_count("rounds", rounds)
    check_count("max_new_tokens", max_new_tokens)
    tell = naming(progress)
    items = built_in() if texts is None else items_of(texts)
    names = sorted(manifest.formats, key=lambda dtype: dtype != DEFAULT)
    tell("loading")
    opened = partial(load, folder, device=device, threads=threads, engine=engine, precision=precision)
    models = {name: opened(dtype=name) for name in names}
    first = models[names[0]]
    tell("asking")
    accuracy = accuracy_of(models, items, max_new_tokens)
    tell("timing")
    works = works_of(first, items)
    seconds, speedup = timed(models, works, rounds)
    reported = {measure for one in accuracy.values() for measure in one}
    result = DtypeComparison(
        bundle=str(out),
        model_type=manifest.model_type,
        task=manifest.task,
        device=first.device,
        threads=threads,
        reference=names[0],
        texts=len(items) if bundle.reads_tokens(manifest.graphs) else 0,
        built_in=texts is None,
        measures={name: message for name, message in MEASURES.items() if name in reported},
        works={name: message for name, (message, _) in works.items()},
        dtypes=[
            DtypeResult(
                name, size_of(folder, manifest.of_dtype(name)), accuracy[name], seconds[name], speedup[name]
            )
            for name in names
        ],
    )
    for model in models.values():
        model.close()
    return result


def size_of(folder: Path, manifest: Manifest) -> int:
    """The bytes of the graphs and weights of a dtype that `load` runs."""
    own = roles.hub_path(
        roles.MODEL, dtype=DTYPES[manifest.dtype].suffix
    )  # in a bundle of native graphs only
    weights = {roles.data_path(path) for path in (own, *(graph.file for graph in manifest.every_graph))}
    files = {graph.file for graph in manifest.graphs.values()} | (weights & manifest.data.keys())
    return sum((folder / file).stat().st_size for file in files)
