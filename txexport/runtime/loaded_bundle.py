"""A bundle whose graphs are open: what tasks, generation and verification run."""

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from txexport import bundle
from txexport.contracts import roles
from txexport.contracts.cache_names import past_states
from txexport.contracts.names import (
    ATTENTION_MASK,
    ENCODER_ATTENTION_MASK,
    FLATTENED_PATCHES,
    IMAGE_SPANS,
    INPUT_IDS,
    INPUT_VALUES,
)
from txexport.contracts.stage import AFTER, GENERATED, IMAGE, ONCE, SOUND, STEP, TOKENS, GraphFacts, Stage
from txexport.errors import InputError, counted, shown
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.engines import ENGINES, FLOAT32, opener
from txexport.runtime.image_keys import ImageKeys
from txexport.runtime.session import Session
from txexport.runtime.vectors.token_vectors import TokenVectors
from txexport.tasks import LATE_INTERACTION, Task, served_row, tasks_of_method


class LoadedBundle:
    """The graphs of a bundle by role on one device, and its `files`.

    `later` opens graphs that run after generation, when they are first needed.
    """

    def __init__(
        self,
        folder: Path,
        manifest: bundle.Manifest,
        device: str,
        sessions: dict[str, Session],
        later: Callable[[str], Session] | None = None,
    ):
        self.folder, self.manifest, self.device = folder, manifest, device
        self._later, self._opening = later, threading.Lock()
        self.files = BundleFiles(folder.absolute())  # some are read later, wherever the process is then
        self._sessions: dict[str, Session] | None = sessions
        self.image_features: dict[bytes, np.ndarray] = {}  # of the last images or sounds in prompts
        self.image_keys: dict[bytes, ImageKeys] = {}  # the same, where the decoder attends to images
        self.last_image: tuple[bytes, Mapping[str, np.ndarray]] | None = None  # values, and outputs for them

    def __repr__(self) -> str:
        return f"<{self.manifest.model_type} for {self.manifest.task} on {self.device}, from {self.folder}>"

    def close(self) -> None:
        """Give back the memory of graphs and weights."""
        self._sessions = None

    @property
    def sessions(self) -> dict[str, Session]:
        """The graphs by role. Raises InputError once the bundle is closed."""
        if self._sessions is None:
            raise InputError(f"{self} is closed; load it again")
        return self._sessions

    def session(self, role: str) -> Session:
        """The graph of a role, which is opened if need be."""
        with self._opening:
            if role not in self.sessions and self._later is not None:
                self.sessions[role] = self._later(role)
        return self.sessions[role]

    @cached_property
    def stages(self) -> list[Stage]:
        """The graphs in running order."""
        return self.manifest.running_order

    def stage(self, role: str) -> Stage:
        """The stage of the graph of a role."""
        return next(stage for stage in self.stages if stage.role == role)

    @cached_property
    def step(self) -> Stage | None:
        """The stage that ends every step of generation, over its own cache; None if nothing is generated."""
        steps = [one for one in self.stages if one.when == STEP and one.role != roles.SHARED]
        return steps[-1] if steps else None

    @property
    def image_token_id(self) -> int | None:
        """The token in whose places images or sounds stand; None where tokens are read alone."""
        return self.manifest.image_token_id

    @cached_property
    def media_role(self) -> str:
        """The role of the graph of images or sounds in prompts, if there is one."""
        return roles.media_encoder([stage.role for stage in self.stages])

    @property
    def reads_sounds(self) -> bool:
        """True where sounds stand among tokens of prompts."""
        return self.media_role == roles.AUDIO_ENCODER

    @property
    def reads_media(self) -> bool:
        """True where prompts of text have images or sounds."""
        return self.image_token_id is not None or self.questions_images

    @property
    def reads_images(self) -> bool:
        """True where prompts of text have images."""
        return self.reads_media and not self.reads_sounds

    @cached_property
    def flattens_images(self) -> bool:
        """True where images are read as patches in a row, each with its place."""
        return FLATTENED_PATCHES in self.reader.inputs

    @property
    def draws_questions(self) -> bool:
        """True where a question is drawn above its image."""
        return self.flattens_images and self.methods[:1] == ("generate",)

    @cached_property
    def questions_images(self) -> bool:
        """True where an encoder of texts attends to an image, one for each text."""
        both = {roles.IMAGE_ENCODER, roles.ENCODER} <= {stage.role for stage in self.stages}
        return both and self.image_token_id is None

    @cached_property
    def crosses_images(self) -> bool:
        """True where the decoder attends to images, which stand in no token's place."""
        return self.step is not None and IMAGE_SPANS in self.step.inputs

    @cached_property
    def keeps_states(self) -> bool:
        """True where the decoder keeps states beside keys and values, which cannot be shortened."""
        return bool(past_states(self.decoder.inputs))

    @cached_property
    def once(self) -> list[Stage]:
        """The stages that run once for a prompt or an input."""
        return [stage for stage in self.stages if stage.when == ONCE]

    @cached_property
    def after(self) -> list[Stage]:
        """The stages that may run after generation, over all tokens."""
        return [stage for stage in self.stages if stage.when == AFTER]

    @cached_property
    def is_encoder_decoder(self) -> bool:
        """Return whether the decoder begins with a start token, after graphs that read the prompt."""
        return self.step is not None and self.step.ids_source == GENERATED

    @cached_property
    def prompt_kind(self) -> str:
        """The kind of its prompts or inputs: TOKENS, else IMAGE or SOUND."""
        kinds = [kind for kind in (TOKENS, IMAGE, SOUND) if any(stage.reads(kind) for stage in self.stages)]
        return kinds[0]

    @cached_property
    def reader(self) -> Stage:
        """The stage that reads prompts or inputs of that kind."""
        return next(stage for stage in self.stages if stage.reads(self.prompt_kind))

    @property
    def reads_any_length(self) -> bool:
        """True where its inputs are sounds of any number of samples or frames."""
        return self.reader.facts.least_samples > 0

    @property
    def masks_signals(self) -> bool:
        """True where a decoder has a mask of vectors of sounds or images, so that several can be a batch."""
        masked = self.step is not None and ENCODER_ATTENTION_MASK in self.step.inputs
        return masked and self.prompt_kind in (SOUND, IMAGE)

    def vectors(self, length: int) -> int:
        """The number of vectors of a sound of any length, in samples or frames."""
        facts = self.reader.facts
        return 1 + (length - facts.least_samples) // facts.vector_stride

    def check_vectors(self, length: int) -> None:
        """Raise InputError for a sound, in samples or frames, longer than the model's positions."""
        limit, count = self.max_length(self.reader), self.vectors(length)
        if limit is not None and count > limit:
            raise InputError(
                f"a sound of {length:,} frames has {counted(count, 'vector')}, but the model has "
                f"{counted(limit, 'position')}; shorten it"
            )

    def max_length(self, stage: Stage) -> int | None:
        """The longest sequence of a stage, in tokens; None is no limit."""
        return self.manifest.max_length(stage)

    @property
    def late_interaction(self) -> TokenVectors | None:
        """How every token of a text has a vector, of an encoder whose checkpoint is for that."""
        return self.files.token_vectors if self.manifest.task == tasks_of_method("embed")[0] else None

    @property
    def task(self) -> Task | None:
        """The row of its task; None for a task that this version does not know."""
        manifest = self.manifest
        return served_row(manifest.task, manifest.cache is not None, manifest.spec.get("type", ""))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of Model that serve what it is for, its own first."""
        if self.late_interaction is not None:
            return LATE_INTERACTION
        return () if self.task is None else self.task.methods

    @property
    def decoder(self) -> Session:
        """The graph that gives the logits of new tokens."""
        assert self.step is not None
        return self.sessions[self.step.role]

    def run(self, graph: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs by name of one graph for inputs by name, as txexport.json lists them with their shapes.

        `graph` is "encoder_model" or "decoder_model" where there are two. Raises InputError for another, and
        for inputs that are unknown, missing, of another type or shape, out of range or too long.
        """
        known = dict.fromkeys([*self.sessions, *(stage.role for stage in self.after)])
        if graph is None and len(known) > 1:
            raise InputError(f"which graph? expected one of {', '.join(known)}")
        role = next(iter(known)) if graph is None else graph
        if not isinstance(role, str) or role not in known:
            raise InputError(f"no graph {shown(role)}; expected one of {', '.join(known)}")
        session = self.session(role)
        fitted = session.fit(inputs)
        ids = fitted.get(INPUT_IDS)
        if ids is not None and self.stage(role).ids_source == TOKENS and ids.ndim == 2:
            check_length(ids.shape[1], self.max_length(self.stage(role)))
        if ids is not None and ids.size and (most := ids.max()) >= (words := self.vocab_size(role)):
            raise InputError(f"input '{INPUT_IDS}' has {most}, expected 0 to {words - 1}")
        if INPUT_VALUES in fitted and ATTENTION_MASK in fitted:
            check_rows(fitted[ATTENTION_MASK], self.stage(role).facts)
        return session.run_fitted(fitted)

    def vocab_size(self, role: str) -> int:
        """The number of token ids that a graph knows."""
        return self.stage(role).facts.vocab_size


def open_bundle(
    folder: Path,
    *,
    device: str | None = None,
    threads: int | None = None,
    check: bool = True,
    dtype: str | None = None,
    engine: str = ENGINES[0],
    precision: str = FLOAT32,
) -> LoadedBundle:
    """The bundle in `folder` with its graphs open. Arguments and errors as `load`."""
    open_graphs = opener(engine, threads, precision)
    whole = bundle.read(folder)
    if check:
        bundle.check(folder, whole)
    opened = open_graphs(folder, whole.of_dtype(dtype), device, threads, precision)
    return LoadedBundle(folder, opened.manifest, opened.device, opened.sessions, opened.later)


def check_task(bundle: LoadedBundle, method: str, command: str | None = None) -> None:
    """Raise InputError unless the bundle is for `method`, with what it is for instead.

    The message calls the method by the `command` that uses it, if there is one.
    """
    wanted = command or method
    task, served = bundle.manifest.task, tasks_of_method(method)
    if method not in bundle.methods:
        if bundle.late_interaction is not None:
            own = " or ".join(bundle.methods)
            raise InputError(
                f"the bundle is for late interaction (use {own}); {wanted} needs another checkpoint"
            )
        hint = f" (use {bundle.methods[0]})" if bundle.methods else ""
        if not served:
            needed = "a checkpoint for late interaction, as ColBERT"
            raise InputError(f"the bundle is for {task}{hint}; {wanted} needs {needed}")
        if task == served[0]:
            raise InputError(f"the bundle is for {task}{hint}; {wanted} is for other models of this task")
        raise InputError(
            f"the bundle is for {task}{hint}; {wanted} needs an export with --task {served[0]}, of a model "
            "that 'txexport families' lists for it"
        )


def check_rows(mask: np.ndarray, facts: GraphFacts) -> None:
    """Raise InputError for a waveform, of those whose samples the mask (B,samples) counts, without a vector.

    Originals read the padding of such a row as if it were sound. Of a squeezed stack, a row may have a part
    of a group of vectors.
    """
    least = facts.least_samples - max(0, facts.layer_stride - facts.vector_stride)
    for number, samples in enumerate(mask.sum(axis=1), 1):
        if samples < least:
            raise InputError(
                f"row {number} has {samples:,} samples by its attention_mask, expected {least:,} or more; "
                "leave it out"
            )


def check_length(length: int, limit: int | None) -> None:
    """Raise InputError for an input of more tokens than `limit`."""
    if limit is not None and length > limit:
        raise InputError(
            f"an input of {counted(length, 'token')} is longer than the model's {limit}; shorten it"
        )
