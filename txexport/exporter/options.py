"""The options of an export, checked one by one and in combination."""

from collections.abc import Iterable
from dataclasses import replace

from txgraphs._lowering import IR_VERSIONS

from txexport.bundle.form import ExportOptions
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import OUTPUTS, Contract, roles
from txexport.errors import InputError, UnsupportedError, shown
from txexport.exporter.bundle_plan import HUB_OPSET
from txexport.formats import DTYPES, check_known
from txexport.spec import Cache
from txexport.tasks import Task

ONLY = ("native", "hub")


def check_options(options: ExportOptions, checkpoint: Checkpoint) -> None:
    """Raise InputError for an unknown value, or for one that does not apply to the checkpoint."""
    if options.opset not in IR_VERSIONS:
        raise InputError(
            f"opset {options.opset} is not supported; expected {min(IR_VERSIONS)} to {max(IR_VERSIONS)}"
        )
    if options.only not in (None, *ONLY):
        raise InputError(f"only is '{options.only}', expected {' or '.join(ONLY)}")
    if options.client not in (None, *roles.CLIENTS):
        raise InputError(f"client is '{options.client}', expected {', '.join(roles.CLIENTS)}")
    check_dtypes(options.dtypes, options.opset)
    check_stored(options.dtypes, checkpoint)
    for name in options.outputs:
        if name not in OUTPUTS:
            raise InputError(f"outputs has {shown(name)}, expected {' or '.join(OUTPUTS)}")


def resolved_options(task: Task, options: ExportOptions) -> ExportOptions:
    """The options with their defaults for the task. Raises InputError for options that exclude each other."""
    options = replace(options, outputs=[name for name in OUTPUTS if name in options.outputs])
    if options.client == roles.CUDA:
        if options.only == "hub" or options.single_file:
            what = "a single file is" if options.single_file else "hub graphs are"
            raise InputError(f"'cuda' is for native graphs, and {what} for other clients; leave out one")
        if options.cache == Cache.DYNAMIC:
            raise InputError("a dynamic cache cannot be captured by CUDA; leave out --cache dynamic")
        cache = contract_of(task, options.cache).cache
        return replace(options, cache=cache and cache.value, only="native")
    others = options.single_file or options.client is not None
    if others and options.only == "native":
        what = "a single file is" if options.single_file else f"'{options.client}' is"
        raise InputError(f"{what} for other clients, and native graphs are not; leave out one of them")
    if options.only != "hub" and not others:
        cache = contract_of(task, options.cache).cache
        return replace(options, cache=cache and cache.value)
    if options.cache == Cache.STATIC and task.caches:
        raise InputError("other clients do not support a static cache; leave it out")
    cache = contract_of(task, options.cache or (Cache.DYNAMIC.value if task.caches else None)).cache
    opset = options.opset if options.client == roles.GENAI else min(options.opset, HUB_OPSET)
    return replace(options, cache=cache and cache.value, opset=opset, inline=True, only="hub")


def check_dtypes(names: list[str], opset: int) -> list[str]:
    """Return `names`. Raises InputError for a dtype that is unknown, repeated or not in that opset."""
    for name in names:
        check_known(name)
        if opset < DTYPES[name].opset:
            raise InputError(f"dtype {name} needs opset {DTYPES[name].opset} or newer, not {opset}")
    if not names or len(set(names)) != len(names):
        raise InputError(f"dtypes are {', '.join(names) or 'none'}, expected one or more, each once")
    if len({DTYPES[name].suffix for name in names}) != len(names):
        raise InputError(f"dtypes {', '.join(names)} have files of the same names; leave out one")
    return names


def check_stored(dtypes: Iterable[str], checkpoint: Checkpoint) -> None:
    """Raise InputError for a stored dtype of a checkpoint that is not quantised."""
    stored = next((name for name in dtypes if DTYPES[name].stored), None)
    if stored is not None and not checkpoint.quantised:
        raise InputError(f"dtype {stored} is for quantised checkpoints, and {checkpoint.folder} is not")


def contract_of(task: Task, cache: str | None) -> Contract:
    """The task's contract with this kind of cache; None is its first contract."""
    if cache is None:
        return task.contracts[0]
    if not task.caches:
        raise UnsupportedError(f"task '{task.name}' has no cache to choose")
    known = {str(contract.cache): contract for contract in task.contracts}
    if cache not in known:
        raise InputError(f"cache '{cache}' is not known; expected {' or '.join(known)}")
    return known[cache]
