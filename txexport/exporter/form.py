"""How a bundle is to be written: the options that were asked for, checked alone and together."""

from collections.abc import Iterable
from dataclasses import replace

from txgraphs._lowering import IR_VERSIONS

from txexport.bundle.manifest import Form
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import OUTPUTS, Contract, roles
from txexport.errors import InputError, UnsupportedError, shown
from txexport.exporter.bundle_plan import HUB_OPSET
from txexport.formats import DTYPES
from txexport.spec import Cache
from txexport.tasks import Task

ONLY = ("native", "hub")


def check_asked(form: Form, checkpoint: Checkpoint) -> None:
    """Raise InputError for an option that is not known, or that is not for that checkpoint."""
    if form.opset not in IR_VERSIONS:
        raise InputError(
            f"opset {form.opset} is not known; expected {min(IR_VERSIONS)} to {max(IR_VERSIONS)}"
        )
    if form.only not in (None, *ONLY):
        raise InputError(f"only is '{form.only}', expected {' or '.join(ONLY)}")
    if form.client not in (None, *roles.CLIENTS):
        raise InputError(f"client is '{form.client}', expected {', '.join(roles.CLIENTS)}")
    check_dtypes(form.dtypes, form.opset)
    check_stored(form.dtypes, checkpoint)
    for name in form.outputs:
        if name not in OUTPUTS:
            raise InputError(f"outputs has {shown(name)}, expected {' or '.join(OUTPUTS)}")


def written_form(task: Task, asked: Form) -> Form:
    """How the bundle is written. Raises InputError for options that do not go together."""
    asked = replace(asked, outputs=[name for name in OUTPUTS if name in asked.outputs])
    others = asked.single_file or asked.client is not None
    if others and asked.only == "native":
        what = "a single file is" if asked.single_file else f"'{asked.client}' is"
        raise InputError(f"{what} for other clients, and native graphs are not; leave out one of them")
    if asked.only != "hub" and not others:
        cache = contract_of(task, asked.cache).cache
        return replace(asked, cache=cache and cache.value)
    if asked.cache == Cache.STATIC and task.caches:
        raise InputError("other clients know no static cache; leave it out")
    cache = contract_of(task, asked.cache or (Cache.DYNAMIC.value if task.caches else None)).cache
    opset = asked.opset if asked.client == roles.GENAI else min(asked.opset, HUB_OPSET)
    return replace(asked, cache=cache and cache.value, opset=opset, inline=True, only="hub")


def check_dtypes(names: list[str], opset: int) -> list[str]:
    """The dtypes that were asked for. Raises InputError for one that is not known, or not in that opset."""
    for name in names:
        if name not in DTYPES:
            raise InputError(f"dtype {shown(name)} is not known; expected one of {', '.join(DTYPES)}")
        if opset < DTYPES[name].opset:
            raise InputError(f"dtype {name} needs opset {DTYPES[name].opset} or newer, not {opset}")
    if not names or len(set(names)) != len(names):
        raise InputError(f"dtypes are {', '.join(names) or 'none'}, expected one or more, each once")
    if len({DTYPES[name].suffix for name in names}) != len(names):
        raise InputError(f"dtypes {', '.join(names)} have files of the same names; leave out one")
    return names


def check_stored(dtypes: Iterable[str], checkpoint: Checkpoint) -> None:
    """Raise InputError for integers of a checkpoint that has none."""
    stored = next((name for name in dtypes if DTYPES[name].stored), None)
    if stored is not None and not checkpoint.quantised:
        raise InputError(f"dtype {stored} is for quantised checkpoints, and {checkpoint.folder} is not")


def contract_of(task: Task, cache: str | None) -> Contract:
    """The task's contract with the cache that was asked for, or its first."""
    if cache is None:
        return task.contracts[0]
    if not task.caches:
        raise UnsupportedError(f"task '{task.name}' has no cache to choose")
    known = {str(contract.cache): contract for contract in task.contracts}
    if cache not in known:
        raise InputError(f"cache '{cache}' is not known; expected {' or '.join(known)}")
    return known[cache]
