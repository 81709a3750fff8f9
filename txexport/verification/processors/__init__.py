"""Checks of a bundle's processors against transformers: tokenizer, chat template, images, sounds.

Every module here has one function of this shape, and an entry in CHECKS:

    def check(folder, manifest, checkpoint, *, quick) -> list[TensorCheck]

`folder` is the bundle, read by the code that users run (`runtime.bundle_files.BundleFiles`); `checkpoint` is
read by transformers through `original.original`. `quick` asks for fewer seeded inputs. The function returns a
TensorCheck for each kind of answer, by `original.equal`, with the count of compared answers as `elements`. It
raises AssertionError, by `original.differs`, for the first input with different answers, which it names; and
SkipError if there is nothing to compare, or to compare with. `verify` runs these checks like those of
contents, as cases of the report by their names in CHECKS.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.contracts.names import (
    BBOX,
    FLATTENED_PATCHES,
    INPUT_FEATURES,
    INPUT_IDS,
    INPUT_VALUES,
    PIXEL_VALUES,
)
from txexport.families import Resolved
from txexport.verification.checks import (
    CHAT_TEMPLATE,
    CTC_TOKENIZER,
    IMAGE_PROCESSOR,
    IMAGE_PROMPTS,
    PAGES,
    SOUND_PROCESSOR,
    SOUND_PROMPTS,
    TOKENIZER,
    TensorCheck,
)
from txexport.verification.processors import (
    chat,
    ctc_tokenizer,
    documents,
    flattened,
    pages,
    prompts,
    signals,
    sounds,
    tasks,
    tokenizer,
)
from txexport.verification.processors.original import task_of


class Check(Protocol):
    """A check of one processor; see the module."""

    def __call__(
        self, folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool
    ) -> list[TensorCheck]:
        """One check for each kind of answer. Raises AssertionError, SkipError."""
        ...


def _chats(manifest: Manifest) -> bool:
    """True if a bundle answers conversations: it generates, and reads tokens alone."""
    row = task_of(manifest)
    return row is not None and row.methods[0] == "generate"


def _recognises(manifest: Manifest) -> bool:
    """True if a bundle recognises speech without generating text: by a CTC head."""
    row = task_of(manifest)
    return row is not None and row.methods[0] == "transcribe" and not row.caches


def _check_tokenizer(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool
) -> list[TensorCheck]:
    """The check of texts, or of words in their boxes where the model reads these."""
    check = documents.check if _reads(manifest, BBOX) else tokenizer.check
    return check(folder, manifest, checkpoint, quick=quick)


# By the name of the case in a report: whether it applies to a bundle, and the check.
CHECKS: dict[str, tuple[Callable[[Manifest], bool], Check]] = {
    TOKENIZER: (lambda manifest: _reads(manifest, INPUT_IDS), _check_tokenizer),
    CHAT_TEMPLATE: (_chats, chat.check),
    CTC_TOKENIZER: (_recognises, ctc_tokenizer.check),
    IMAGE_PROCESSOR: (
        lambda manifest: _reads(manifest, PIXEL_VALUES, FLATTENED_PATCHES),
        lambda folder, manifest, checkpoint, *, quick: _images_of(manifest)(
            folder, manifest, checkpoint, quick=quick
        ),
    ),
    IMAGE_PROMPTS: (
        lambda manifest: _has_prompts(manifest, roles.IMAGE_ENCODER),
        lambda folder, manifest, checkpoint, *, quick: _prompts_of(manifest)(
            folder, manifest, checkpoint, quick=quick
        ),
    ),
    PAGES: (lambda manifest: _ranks_pages(manifest), pages.check),
    SOUND_PROCESSOR: (lambda manifest: _reads(manifest, INPUT_FEATURES, INPUT_VALUES), signals.check_sounds),
    SOUND_PROMPTS: (lambda manifest: _has_prompts(manifest, roles.AUDIO_ENCODER), sounds.check),
}


def checks(manifest: Manifest, *, quick: bool) -> dict[str, Callable[..., list[TensorCheck]]]:
    """The checks that apply to a bundle, by the names of their cases, called like those of contents."""

    def called(check: Check) -> Callable[..., list[TensorCheck]]:
        def run(
            folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
        ) -> list[TensorCheck]:
            return check(folder, manifest, checkpoint, quick=quick)

        return run

    return {name: called(check) for name, (applies, check) in CHECKS.items() if applies(manifest)}


def _has_prompts(manifest: Manifest, role: str) -> bool:
    """True if images or sounds, which the graph `role` reads, stand among the tokens of prompts."""
    return manifest.image_token_id is not None and role in manifest.graphs and not _ranks_pages(manifest)


def _prompts_of(manifest: Manifest) -> Check:
    """The check of prompts with images: of tasks, where an encoder reads them."""
    return tasks.check if roles.ENCODER in manifest.graphs else prompts.check


def _images_of(manifest: Manifest) -> Check:
    """The check of images: of patches in a row, or of pixels."""
    return flattened.check if _reads(manifest, FLATTENED_PATCHES) else signals.check_images


def _ranks_pages(manifest: Manifest) -> bool:
    """True if a bundle has vectors of pages and queries."""
    row = task_of(manifest)
    return row is not None and row.methods[0] == "rank_pages"


def _reads(manifest: Manifest, *inputs: str) -> bool:
    """True if a graph has one of these inputs."""
    return any(port.name in inputs for graph in manifest.every_graph for port in graph.inputs)
