"""Every key of a tiny model's config.json with other values: read as transformers reads it, or refused."""

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tiny_checkpoint

import txexport
from proving.config_fates import FOLLOWED, INERT, LIBRARY, REFUSED, WRONG
from proving.config_values import Path as Keys
from proving.config_values import changed, changes
from proving.exhaustive import opened
from proving.remembered import Remembered
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.transformers_loading import from_pretrained
from txexport.errors import TxexportError, first_line
from txexport.verification.bounds import RELATIVE
from txexport.verification.judgement import judge
from txexport.verification.references.transformers_reference import Transformers

CALLS = 6  # of each kind that the original answers again


class Recorder(Remembered):
    """An original, with the first calls of each kind, and whether it or the graphs raised last."""

    def __init__(self, original: Any):
        super().__init__(original)
        self.calls: dict[str, list[tuple[tuple, dict]]] = {}
        self.raised = False

    def _answer(self, name: str, *inputs: Any) -> Any:
        self.raised = True
        answer = super()._answer(name, *inputs)
        self.raised = False
        recorded = self.calls.setdefault(name, [])
        if self.answers is not None and len(recorded) < CALLS:
            recorded.append((inputs, dict(answer)))
        return answer

    def difference(self, other: Any) -> str | None:
        """The first output of another original that differs by more than a sum in another order."""
        for name, recorded in self.calls.items():
            for inputs, answer in recorded:
                theirs = getattr(other, name)(*inputs)
                for output, expected in answer.items():
                    if not _equal(expected, theirs[output]):
                        return output
        return None


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    size = np.abs(one, where=np.isfinite(one), out=np.zeros(one.shape)).max(initial=0)
    return np.allclose(one, other, rtol=0, atol=RELATIVE * float(size), equal_nan=True)


@dataclass(frozen=True)
class Change:
    """A key's other value, and the configuration with it."""

    keys: Keys
    other: Any
    values: dict[str, Any]


@dataclass(frozen=True)
class Model:
    """A tiny checkpoint, its spec, its configuration with every key, and what the original answered."""

    folder: Path
    resolved: families.Resolved
    values: dict[str, Any]
    recorder: Recorder
    cases: list[Any]
    runner: Any

    def with_config(self, values: dict[str, Any], name: str) -> Path:
        """A checkpoint of the same files with another config.json."""
        result = self.folder.with_name(name)
        result.mkdir(exist_ok=True)
        for file in self.folder.iterdir():
            if file.name != "config.json" and not (result / file.name).exists():
                os.link(file, result / file.name)
        (result / "config.json").write_text(json.dumps(values))
        return result

    def untouched(self, some: list[Change]) -> str | None:
        """The reason why transformers answers otherwise with some values changed, None if it does not."""
        values = self.values
        for one in some:
            values = changed(values, one.keys, one.other)
        try:
            original = Transformers(Checkpoint(self.with_config(values, "inert")), self.resolved, ())
            if self.recorder.difference(original) is None:
                return None
        except Exception as error:
            return f"{LIBRARY}: {first_line(error)}"
        fate = _judged(self.cases, self.runner, original)  # which leaves padding out
        return fate and f"{fate[0]}: {fate[1]}"


def tried(kind: str) -> dict[str, Any]:
    """The outcome of a family: the keys by what became of their other values, and what was wrong."""
    start = time.monotonic()
    fates: dict[str, Counter[str]] = {}
    failed: list[str] = []
    differs: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        model, config = _model(Path(name, "model"), kind)
        inert = []
        for keys, other in changes(config, model.values):
            one = Change(keys, other, changed(model.values, keys, other))
            if (fate := _fate(model, one)) is None:
                inert.append(one)
            else:
                _add(one, fate, fates, failed, differs)
        for one, why in _inert(model, inert):
            _add(one, why or (INERT, ""), fates, failed, differs)
    return {
        "keys": {fate: " ".join(_counted(counts)) for fate, counts in sorted(fates.items())},
        "values": sum(counts.total() for counts in fates.values()),
        LIBRARY: differs,
        "failed": failed,
        "seconds": round(time.monotonic() - start, 1),
    }


def _add(
    one: Change,
    fate: tuple[str, str],
    fates: dict[str, Counter[str]],
    failed: list[str],
    differs: dict[str, str],
) -> None:
    """Add a changed value's fate to those of a family."""
    name, why = fate
    key = ".".join(one.keys)
    fates.setdefault(name, Counter())[key] += 1
    if name == WRONG:
        failed.append(f"{key} = {_shown(one.other)}: {why}")
    if name == LIBRARY:
        differs[f"{key} = {_shown(one.other)}"] = _shortened(why, 160)


def _counted(counts: Counter[str]) -> list[str]:
    """The keys, each with the number of its values if there are several."""
    return [key if number == 1 else f"{key}*{number}" for key, number in sorted(counts.items())]


def _model(folder: Path, kind: str) -> tuple[Model, Any]:
    """The tiny model of a family with a config.json of every key, and its configuration."""
    tiny_checkpoint.save(folder, kind)
    resolved = families.resolve(Checkpoint(folder))
    config = from_pretrained("AutoConfig", folder)
    stored = json.loads((folder / "config.json").read_text())
    values = json.loads(config.to_json_string(use_diff=False)) | {
        key: stored[key] for key in ("architectures", "dtype") if key in stored
    }
    (folder / "config.json").write_text(json.dumps(values))
    if families.resolve(Checkpoint(folder)).spec != resolved.spec:
        raise AssertionError("with every key written, the config.json is read otherwise")
    txexport.export(folder, folder.with_name("out"), only="native")
    [(_, variant, runner, remembered)] = opened(folder.with_name("out"), "quick")
    recorder = Recorder(remembered.original)
    cases = [one for one in variant.cases if one.run is not None]
    for case in cases:
        judge(case.run, runner, recorder, case.case, RELATIVE)
    return Model(folder, resolved, values, recorder, cases, runner), config


def _fate(model: Model, one: Change) -> tuple[str, str] | None:
    """The fate of another value, and the reason; None if it changes nothing that txexport reads."""
    folder = model.with_config(one.values, "changed")
    try:
        resolved = families.resolve(Checkpoint(folder))
        if (resolved.spec, resolved.weights) == (model.resolved.spec, model.resolved.weights):
            return None
        txexport.export(folder, folder.with_name("out"), only="native", force=True)
    except TxexportError as error:
        return REFUSED, first_line(error).replace(str(folder), "")
    except Exception as error:
        return WRONG, f"{type(error).__name__}: {first_line(error)}"
    try:
        [(_, variant, runner, remembered)] = opened(folder.with_name("out"), "quick")
    except TxexportError as error:
        return LIBRARY, first_line(error).replace(str(folder), "")
    cases = [case for case in variant.cases if case.run is not None]
    return _judged(cases, runner, remembered.original) or (FOLLOWED, "")


def _judged(cases: list[Any], runner: Any, original: Any) -> tuple[str, str] | None:
    """The first fault of graphs beside an original; None if there is none."""
    recorder = Recorder(original)
    for case in cases:
        try:
            checks = judge(case.run, runner, recorder, case.case, RELATIVE)
        except Exception as error:
            why = f"{case.name}: {type(error).__name__}: {first_line(error)}"
            return LIBRARY if recorder.raised else WRONG, why
        for check in checks:
            if not check.ok:
                return WRONG, f"{case.name}: {check.output} is off by {check.error:.1e}"
    return None


def _inert(model: Model, some: list[Change]) -> list[tuple[Change, tuple[str, str] | None]]:
    """Each of the changes that nothing here reads, and what transformers does otherwise with it."""
    result: list[tuple[Change, tuple[str, str] | None]] = []
    rounds: dict[int, list[Change]] = {}
    seen: dict[Keys, int] = {}
    for one in some:  # a key's values one after another, those of all keys at once
        rounds.setdefault(seen.get(one.keys, 0), []).append(one)
        seen[one.keys] = seen.get(one.keys, 0) + 1
    for at_once in rounds.values():
        _halved(model.untouched, at_once, result)
    return result


def _halved(
    untouched: Callable[[list[Change]], str | None],
    some: list[Change],
    result: list[tuple[Change, tuple[str, str] | None]],
) -> None:
    """Add each change with what it does, trying all at once and, where something differs, halves."""
    why = untouched(some) if some else None
    if why is None:
        result += [(one, None) for one in some]
    elif len(some) == 1:
        fate, _, reason = why.partition(": ")
        result.append((some[0], (fate, reason)))
    else:
        middle = len(some) // 2
        _halved(untouched, some[:middle], result)
        _halved(untouched, some[middle:], result)


def _shown(value: Any) -> str:
    return _shortened(json.dumps(value), 40)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
