"""One mutant: a folder of mutated files, and the check of the outcome."""

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import txexport
from fuzzing.seeds import CANARY
from txexport.contracts import roles
from txexport.errors import LONGEST_MESSAGE
from txexport.tasks import TASKS

LONGEST = LONGEST_MESSAGE + 100  # characters of an error message's line
Change = Callable[[Random, bytes], tuple[bytes, str]]


class FaultError(Exception):
    """A fault without an exception of its own."""


class Case:
    """A mutant under construction: `seeds` to copy from, `work` for the mutated copy, and one random source.

    `notes` describe the changes. They are written also to the file `log`, in case the process dies.
    """

    def __init__(self, seeds: Path, work: Path, random: Random, log: Path):
        self.seeds, self.work, self.random, self.log = seeds, work, random, log
        self.notes: list[str] = []
        log.unlink(missing_ok=True)

    def note(self, text: str) -> None:
        """Record a change."""
        self.notes.append(repr(text)[1:-1])
        self.log.write_text("\n".join(self.notes), encoding="utf-8")

    def copy(self, seed: str) -> Path:
        """A fresh copy of a seed, file or folder."""
        source, copy = self.seeds / seed, self.work / Path(seed).name
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copyfile(source, copy)
        return copy

    def change(self, file: Path, how: Change) -> Path:
        """The file, changed."""
        data, note = how(self.random, file.read_bytes())
        file.write_bytes(data)
        self.note(f"{file.relative_to(self.work)}: {note}")
        return file

    def attempt(self, call: Callable, *arguments: Any, **options: Any) -> Any:
        """The result of the call; None where it raises TxexportError with a message of one line.

        Any other exception propagates. Raises FaultError for a message of several lines, and for NaN.
        """
        try:
            result = call(*arguments, **options)
        except txexport.TxexportError as error:
            lines = str(error).splitlines()
            if len(lines) != 1 or len(lines[0]) > LONGEST:
                size = f"{len(lines)} lines, {len(str(error))} characters"
                raise FaultError(f"{type(error).__name__} not of one line: {size}") from error
            return None
        if not all(math.isfinite(number) for number in _numbers(result)):
            raise FaultError("an answer that is not finite")
        return result

    def try_checkpoint(self, folder: Path, *calls: Callable[["txexport.Model"], Any]) -> None:
        """Export the checkpoint, load the bundle and run its task; or make the `calls`."""
        if self.attempt(txexport.export, folder, self.work / "out") is not None:
            self.try_bundle(self.work / "out", *calls)

    def try_bundle(self, folder: Path, *calls: Callable[["txexport.Model"], Any]) -> None:
        """Load the bundle and run its task."""
        model = self.attempt(txexport.load, folder, device="cpu", threads=1)
        if model is not None:
            for call in calls or (ask,):
                self.attempt(call, model)

    def model(self, name: str) -> "txexport.Model":
        """The model of a seed bundle, shared by all mutants of a process."""
        return _model(self.seeds / "bundles" / name)

    def check_outside(self) -> None:
        """Raise FaultError where a file outside of the readers' folders is gone or changed."""
        for file in canaries(self.work):
            if not file.is_file() or file.read_bytes() != CANARY:
                raise FaultError("a file outside of the folder was changed or deleted")


def canaries(work: Path) -> tuple[Path, Path]:
    """The files "../canary" and "../../canary", seen from a folder in `work`."""
    return work / "canary", work.parent / "canary"


@cache
def _model(folder: Path) -> "txexport.Model":
    return txexport.load(folder, device="cpu", threads=1)


TEXTS = ["the cat sat on the mat", "Anna lives in Paris"]
PIXELS = np.arange(20 * 25 * 3, dtype=np.uint8).reshape(20, 25, 3)
SOUND = np.sin(np.arange(3000) / 7) / 2
NEW_TOKENS: dict[str, Any] = {"max_new_tokens": 4}


# The call of each task's method, with plain arguments.
OCR = {"words": ["the", "cat"], "boxes": [[0, 0, 90, 80], [10, 2, 500, 1000]]}
ASKED: dict[str, Callable[["txexport.Model"], Any]] = {
    "generate": lambda model: model.generate(TEXTS, max_new_tokens=4),
    "transcribe": lambda model: model.transcribe(SOUND, **NEW_TOKENS if model.manifest.cache else {}),
    "image_to_text": lambda model: model.image_to_text(PIXELS, max_new_tokens=4),
    "embed": lambda model: model.embed(TEXTS, pooling=None if model.pooling else "mean"),
    "classify": lambda model: model.classify(TEXTS),
    "tag": lambda model: model.tag(TEXTS),
    "answer": lambda model: model.answer("who sat on the mat", TEXTS[0]),
    "choose": lambda model: model.choose("who", TEXTS),
    "fill_mask": lambda model: model.fill_mask("the [MASK] sat"),
    "next_sentence": lambda model: model.next_sentence(*TEXTS),
    "classify_audio": lambda model: model.classify_audio(SOUND),
    "diarize": lambda model: model.diarize(SOUND),
    "embed_speaker": lambda model: model.embed_speaker(SOUND),
    "match_audio": lambda model: model.match_audio(SOUND, TEXTS),
    "classify_image": lambda model: model.classify_image(PIXELS),
    "embed_image": lambda model: model.embed_image(PIXELS),
    "detect": lambda model: model.detect(PIXELS, threshold=0.1),
    "depth": lambda model: model.depth(PIXELS)["predicted_depth"],
    "masks": lambda model: model.masks(PIXELS, {"points": [[3, 4]]})[0]["mask"],
    "pose": lambda model: model.pose(PIXELS, [[1, 2, 9, 9]]),
    "segment": lambda model: model.segment(PIXELS, **_described(model))[0]["mask"],
    "match": lambda model: model.match(PIXELS, TEXTS),
    "embed_words": lambda model: model.embed_words(OCR),
    "tag_words": lambda model: model.tag_words(OCR),
    "classify_page": lambda model: model.classify_page(OCR),
    "answer_page": lambda model: model.answer_page("the", OCR),
    "rank_pages": lambda model: model.rank_pages(TEXTS, [PIXELS]),
    "find": lambda model: model.find(PIXELS, TEXTS),
}


def _described(model: "txexport.Model") -> dict[str, Any]:
    """The texts that say what to segment, for a model that reads them."""
    return {"texts": TEXTS} if roles.TEXT in model.bundle.sessions else {}


def ask(model: "txexport.Model") -> Any:
    """The model's result; None where a corrupted manifest has an unknown task."""
    task = TASKS.get(model.manifest.task) if isinstance(model.manifest.task, str) else None
    return task and ASKED[task.methods[0]](model)


def look(model: "txexport.Model") -> Any:
    """The result of `ask`; of a model that also reads images, its answer about one."""
    if model.manifest.task == "image-text-to-text":
        return model.ask_image(PIXELS, "who sat?", **NEW_TOKENS)
    return ask(model)


def _numbers(value: Any) -> Iterator[float]:
    """The floats of a result."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield float(value.sum(dtype=np.float64))
    elif isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner)
