"""Generation requests: options, prompts and their checks, and the encoder's output for each batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from txexport.contracts.names import (
    INPUT_FEATURES,
    INPUT_VALUES,
    LOGITS,
    PIXEL_VALUES,
)
from txexport.contracts.stage import MEDIA, TOKENS
from txexport.errors import BundleError, InputError, counted, warn
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.constraints import Constraint, compiled
from txexport.runtime.generation.crossed_pictures import crossed_inputs
from txexport.runtime.generation.encoding import Shapes, media_inputs, run_once, sound_of
from txexport.runtime.generation.media import Media, check_media
from txexport.runtime.generation.penalties import Processor
from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.loaded_bundle import LoadedBundle, check_length, check_task
from txexport.runtime.preprocessing.text import as_list, as_rows
from txexport.runtime.session import Value
from txexport.support.arguments import check_count

ASSISTANT, PREFIX_STORE = "assistant_model", "prefix_store"
OBJECTS = (ASSISTANT, PREFIX_STORE)  # options that are objects, which no file can hold
MEDIA_INPUTS = (PIXEL_VALUES, INPUT_FEATURES, INPUT_VALUES)

LogitsProcessor: TypeAlias = Callable[[Sequence[Sequence[int]], np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class GenerationRequest:
    """Prompts to extend, all of a call or one batch of them, and the options.

    `inputs` are rows of token ids, or sounds or images, from which `read` makes the encoder's input. `media`
    has the media behind the placeholder ids of each row, or is empty where all rows are text. With `strict`,
    more new tokens than the decoder has room for are an error. `first_place` is the position of the first row
    in a call that is answered in parts; samples depend on it. With `stops_in_prompts`, stop strings may begin
    in the prompt, as in transformers. `rule` changes scores before they are sampled. `begin` may replace the
    decoder's first tokens. `encoded` sets `decoder_input_ids`, the decoder's first tokens, and `cross`, the
    cross-attention inputs of every step by name.
    """

    bundle: LoadedBundle
    inputs: Sequence
    config: GenerationConfig
    strict: bool = True
    logits_processor: LogitsProcessor | None = None
    assistant: LoadedBundle | None = None
    log_probs: bool = False
    first_place: int = 0
    stops_in_prompts: bool = True
    read: Callable[[Sequence], Sequence | np.ndarray] | None = None
    constraint: Constraint | None = None
    rule: Processor | None = None
    prefix_store: PrefixStore | None = None
    begin: "Callable[[GenerationRequest], GenerationRequest] | None" = None
    decoder_input_ids: list[list[int]] = field(default_factory=list)
    cross: dict[str, Value] = field(default_factory=dict)
    media: Sequence[Media] = ()

    def of_rows(self, rows: Sequence[int]) -> "GenerationRequest":
        """The request for some of its rows."""
        media = [self.media[row] for row in rows] if self.media else ()
        return replace(self, inputs=[self.inputs[row] for row in rows], media=media)

    def media_of(self, row: int) -> Media:
        """The media of a row's prompt."""
        return self.media[row] if self.media else ()

    @property
    def media_inputs(self) -> Shapes:
        """The graph inputs, with the shape of a row, through which the bundle reads this request's media."""
        return media_inputs(self.bundle) if any(self.media) else _prompt_media(self.bundle)

    @property
    def vocab_size(self) -> int:
        """The decoder's vocabulary size."""
        return self.bundle.decoder.width(LOGITS)

    @property
    def limit(self) -> int | None:
        """The decoder's longest sequence."""
        assert self.bundle.step is not None
        return self.bundle.max_length(self.bundle.step)

    @property
    def encoder_input_ids(self) -> Sequence[Sequence[int]] | None:
        """The ids for the encoder_ options: the prompts if there is no encoder, None if it reads no text."""
        if not self.bundle.is_encoder_decoder:
            return self.decoder_input_ids
        return self.inputs if self.bundle.prompt_kind == TOKENS else None


def check_place(first_place: object) -> None:
    """Raise InputError unless `first_place` is a whole number of at least 0."""
    check_count("first_place", first_place, 0)


def request_of(
    bundle: LoadedBundle,
    inputs: Sequence,
    logits_processor: LogitsProcessor | None,
    options: dict[str, Any],
) -> GenerationRequest:
    """A request with `options` over the checkpoint's settings."""
    values = {name: options[name] for name in options if name not in OBJECTS}
    config = bundle.files.generation_config.updated(**values)
    assistant = _assistant(bundle, options.get(ASSISTANT), config)
    _check_states(bundle, assistant, config)
    return GenerationRequest(
        bundle,
        inputs,
        config,
        "max_new_tokens" in options,
        logits_processor,
        assistant,
        prefix_store=check_store(bundle, options.get(PREFIX_STORE)),
    )


def check_store(bundle: LoadedBundle, store: object) -> PrefixStore | None:
    """Check a prefix store; None for a bundle that does not read prompts in parts.

    Raises InputError for another object, and for a bundle with an encoder.
    """
    if store is None:
        return None
    if not isinstance(store, PrefixStore):
        raise InputError(f"{PREFIX_STORE} is a {type(store).__name__}, expected a txexport.PrefixStore")
    if bundle.is_encoder_decoder:
        raise InputError(f"{PREFIX_STORE} needs a decoder-only model, and {bundle} has an encoder")
    # Where all tokens of a prompt attend to each other, no part of it can be read before.
    return None if bundle.step is not None and bundle.step.facts.mutual_prompts else store


def _assistant(bundle: LoadedBundle, model: object, config: GenerationConfig) -> LoadedBundle | None:
    """The bundle of an assistant Model. Raises InputError for one that cannot assist."""
    if model is None:
        return None
    assistant = getattr(model, "bundle", None)
    if not isinstance(assistant, LoadedBundle):
        raise InputError(f"{ASSISTANT} is a {type(model).__name__}, expected a Model that txexport.load made")
    check_task(assistant, "generate")
    vocab_size, expected = assistant.decoder.width(LOGITS), bundle.decoder.width(LOGITS)
    if vocab_size != expected:
        raise InputError(
            f"{ASSISTANT} has {counted(vocab_size, 'token')}, expected the {expected} of the model that it "
            "assists"
        )
    if assistant.is_encoder_decoder != bundle.is_encoder_decoder:
        raise InputError(f"{ASSISTANT} is {assistant}, expected one that reads texts as {bundle} does")
    if config.num_beams > 1:
        raise InputError(f"num_beams is {config.num_beams}, expected 1 with {ASSISTANT}")
    if config.prompt_lookup_num_tokens is not None:
        raise InputError(f"prompt_lookup_num_tokens is given, expected none with {ASSISTANT}")
    return assistant


def _check_states(bundle: LoadedBundle, assistant: LoadedBundle | None, config: GenerationConfig) -> None:
    """Raise InputError for drafts of a model with states, which cannot be rolled back to accepted tokens."""
    option = "prompt_lookup_num_tokens" if assistant is None else ASSISTANT
    if assistant is None and config.prompt_lookup_num_tokens is None:
        return
    for one in (bundle, assistant):
        if one is not None and one.keeps_states:
            raise InputError(
                f"{option} is given, but {one} has recurrent or convolution states, which cannot be rolled "
                "back when drafted tokens are rejected; leave it out"
            )


def _prompt_media(bundle: LoadedBundle) -> Shapes:
    """The inputs for media that every request of the bundle has, because its prompts are media."""
    return media_inputs(bundle) if bundle.prompt_kind in MEDIA else {}


def _check_media(request: GenerationRequest) -> None:
    """Raise InputError for media that the bundle, or its assistant, cannot read."""
    if request.media:
        for row, media in zip(request.inputs, request.media, strict=True):
            check_media(media, len(row))
    if request.bundle.questions_images and sum(map(bool, request.media)) < len(request.inputs):
        raise InputError("a question has no image; give one with each as images")
    needed, assistant = request.media_inputs, request.assistant
    if any(request.media) and not needed:
        raise InputError(f"a prompt has media, and {request.bundle} reads none; give text alone")
    if assistant is None:
        return
    if any(request.media) and request.bundle.crosses_images:
        raise InputError(
            f"{ASSISTANT} is given, but {request.bundle} attends to images, which no assistant reads; "
            "leave it out"
        )
    readable = media_inputs(assistant)
    unread = [name for name, shape in needed.items() if readable.get(name) != shape]
    if unread:
        raise InputError(
            f"{ASSISTANT} is {assistant}, which does not read the prompts' {', '.join(unread)} as "
            f"{request.bundle} does; choose one that does, or none"
        )
    if missing := _prompt_media(assistant).keys() - needed.keys():
        raise InputError(
            f"{ASSISTANT} is {assistant}, which reads {', '.join(sorted(missing))}; choose one for text"
        )


def checked(request: GenerationRequest) -> GenerationRequest:
    """The request, with rows of token ids as lists and its compiled constraint.

    Raises InputError for a task that does not generate, and for bad rows. Warns of settings of the checkpoint
    that are ignored.
    """
    bundle, config = request.bundle, request.config
    check_task(bundle, "generate")
    if bundle.manifest.cache is None:
        raise BundleError(f"{bundle.folder}: txexport.json names no cache to generate over; export again")
    if config.ignored:
        warn(f"generation ignores {', '.join(config.ignored)}")
    request = replace(request, constraint=compiled(config, bundle.files, request.vocab_size))
    _check_media(request)
    rows: Sequence = as_list(request.inputs)
    if bundle.reads_any_length and request.read is None:
        rows = [sound_of(row, bundle) for row in rows]
    if not rows or bundle.prompt_kind != TOKENS:
        return replace(request, inputs=rows)
    if not bundle.is_encoder_decoder:
        sizes = [one.reader.facts.vocab_size for one in (bundle, request.assistant) if one is not None]
        return replace(request, inputs=as_rows(rows, min(sizes)))
    rows = as_rows(rows, bundle.reader.facts.vocab_size)  # not the decoder's
    check_length(max(map(len, rows)), bundle.max_length(bundle.reader))
    return replace(request, inputs=rows)


def encoded(request: GenerationRequest) -> GenerationRequest:
    """A batch of a checked request, ready for its decoder. Raises InputError for bad sounds and images."""
    inputs = list(request.inputs if request.read is None else request.read(request.inputs))
    batch = replace(request, inputs=inputs, decoder_input_ids=inputs)
    if request.bundle.is_encoder_decoder:
        batch = replace(batch, decoder_input_ids=[[_decoder_start(request)]] * len(inputs))
    if batch.bundle.crosses_images:
        media = [batch.media_of(row) for row in range(len(inputs))]
        copies = max(batch.config.num_beams, batch.config.num_return_sequences)
        batch = replace(batch, cross=crossed_inputs(batch.bundle.decoder, media, copies))
    else:
        batch = replace(batch, cross=run_once(batch.bundle, inputs, batch.config.pad, batch.media))
    return batch if request.begin is None else request.begin(batch)


def _decoder_start(request: GenerationRequest) -> int:
    """The first token of an encoder-decoder's decoder.

    Raises BundleError where the checkpoint names none, InputError for a token that the decoder does not know,
    and for padding where padding has a position of its own (M2M-100).
    """
    start = request.config.decoder_start
    if start is None:
        raise BundleError(
            "config.json has no decoder_start_token_id, so generation cannot start; "
            "give the checkpoint's config.json one and export it again"
        )
    if start >= request.vocab_size:
        raise InputError(f"decoder_start_token_id is {start}, expected 0 to {request.vocab_size - 1}")
    if any(stage.facts.pad_token_id == start for stage in request.bundle.once):
        raise InputError(
            f"decoder_start_token_id is {start}, the padding, whose position is not supported; choose another"
        )
    return start
