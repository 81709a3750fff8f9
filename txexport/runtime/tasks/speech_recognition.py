"""Speech recognition: Whisper, with the first tokens of its decoder (Radford et al. 2022, 2.3), and CTC."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import read_json
from txexport.contracts.names import LOGITS
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.prefill import prefill
from txexport.runtime.generation.requests import GenerationRequest, LogitsProcessor, check_place
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.audio import SINGLE
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.tasks import ctc
from txexport.support.progress import Progress


class Speech:
    """The special tokens of a speech model, from its generation_config.json."""

    def __init__(self, folder: Path):
        values = read_json(folder / "generation_config.json", missing={})
        self.languages: dict[str, int] = _ids(values, "lang_to_id")
        self.tasks: dict[str, int] = _ids(values, "task_to_id")
        self.no_times: int | None = _own(values, "no_timestamps_token_id", int)
        self.own_language: str | None = _own(values, "language", str)
        self.own_task: str = _own(values, "task", str) or "transcribe"

    def begin(self, start: int, task: str, language: int | None) -> list[int]:
        """The first tokens: start, then language and task if the model is multilingual, and no timestamps.

        Raises InputError for a task that the model does not know.
        """
        tokens = [start]
        if self.languages:
            if task not in self.tasks:
                raise InputError(f"task '{task}' is not known; expected one of {', '.join(self.tasks)}")
            assert language is not None
            tokens += [language, self.tasks[task]]
        elif task != "transcribe":
            raise InputError(f"task '{task}' needs a model of many languages")
        return tokens if self.no_times is None else [*tokens, self.no_times]

    def language(self, name: str) -> int:
        """The token of a language by its code, as "fr". Raises InputError for one that the model lacks."""
        token = name if name in self.languages else f"<|{name.lower()}|>"
        if token not in self.languages:
            known = ", ".join(code.strip("<|>") for code in sorted(self.languages))
            raise InputError(f"language '{name}' is not known; expected one of {known}")
        return self.languages[token]

    def check(self, vocab_size: int) -> None:
        """Raise BundleError for a special token outside the vocabulary."""
        tokens = [*self.languages.values(), *self.tasks.values(), self.no_times or 0]
        if not all(0 <= token < vocab_size for token in tokens):
            raise BundleError(
                f"generation_config.json: special tokens run from {min(tokens)} to {max(tokens)}, "
                f"expected 0 to {vocab_size - 1}"
            )

    def likeliest(self, logits: np.ndarray) -> list[int]:
        """The likeliest language tokens (B) by the logits (B,V) after the start token."""
        tokens = np.array(sorted(self.languages.values()))
        return tokens[logits[:, tokens].argmax(axis=1)].tolist()


def transcribe(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    batch_tokens: int = scheduler.CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | list[str]:
    """The transcript of a sound, or of each of many; with task "translate" its English translation.

    Sounds are those that `Model.audio` takes, at most as long as the model reads at once. `options` are
    `task`; `language`, a code such as "fr", by default the checkpoint's or else detected by the model; and
    those of `generate`, except that max_length counts new tokens only, as in transformers for speech. Sounds
    are read batch by batch; each counts as many tokens as the encoder outputs. A model with a CTC head has no
    options, and reads sounds one by one, each in one piece. Raises InputError for an invalid task, language
    or sound.
    """
    check_place(first_place)
    check_task(bundle, "transcribe")
    if bundle.step is None:
        if options:
            raise InputError(f"{next(iter(options))} is an option of models that generate text; leave it out")
        return ctc.transcribe(bundle, sounds, progress)
    generation_request = replace(request(bundle, sounds, **options), first_place=first_place)
    results = scheduler.finished(generation_request, batch_tokens, progress)
    texts = bundle.files.text.decode([result.tokens for result in results])
    return texts[0] if isinstance(sounds, SINGLE) else texts


def request(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    language: str | None = None,
    task: str | None = None,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> GenerationRequest:
    """The request for transcripts, with the decoder's first tokens. Errors as `transcribe`."""
    check_task(bundle, "transcribe")
    sounds, config = (
        [sounds] if isinstance(sounds, SINGLE) else as_list(sounds),
        bundle.files.generation_config,
    )
    config = replace(config, ignored=_left_out(bundle.files.folder, config.ignored)).updated(**options)
    if config.num_return_sequences > 1:
        count = config.num_return_sequences
        raise InputError(f"a sound has one text; num_return_sequences must be 1, and is {count}")
    speech = Speech(bundle.files.folder)
    for name, value in (("language", language), ("task", task)):
        if not isinstance(value, str | None):
            raise InputError(f"{name} is {shown(value)}, expected a text or None")
    language, chosen_task = language or speech.own_language, task or speech.own_task
    spoken = None if language is None else speech.language(language)
    first = speech.begin(0, chosen_task, spoken or 0)
    if config.max_length is not None:
        config = replace(config, max_length=config.max_length + len(first))

    def begin(batch: GenerationRequest) -> GenerationRequest:
        tokens: list[int | None] = [spoken] * len(batch.decoder_input_ids)
        if spoken is None and speech.languages:
            tokens = [*speech.likeliest(prefill(batch, [1] * len(tokens))[1])]
        start = batch.decoder_input_ids[0][0]
        return replace(batch, decoder_input_ids=[speech.begin(start, chosen_task, token) for token in tokens])

    speech.check(bundle.decoder.width(LOGITS))
    strict, read = "max_new_tokens" in options, bundle.files.extractor.features
    return GenerationRequest(bundle, sounds, config, strict, logits_processor, read=read, begin=begin)


def _left_out(folder: Path, ignored: Sequence[str]) -> tuple[str, ...]:
    """The checkpoint's settings without effect on speech; its forced first tokens do have one."""
    left = [option for option in ignored if not option.startswith("forced_decoder_ids=")]
    times = read_json(folder / "generation_config.json", missing={}).get("return_timestamps")
    return (*left, "return_timestamps=True") if times else tuple(left)


def _own(values: Mapping[str, Any], key: str, kind: type) -> Any:
    value = values.get(key)
    if value is not None and not isinstance(value, kind):
        raise BundleError(f"generation_config.json: {key} is {shown(value)}, expected {kind.__name__}")
    return value


def _ids(values: Mapping[str, Any], key: str) -> dict[str, int]:
    ids = values.get(key) or {}
    if not isinstance(ids, dict) or not all(isinstance(token, int) for token in ids.values()):
        raise BundleError(f"generation_config.json: {key} is {shown(ids)}, expected token ids by name")
    return ids
