"""Speech recognition: Whisper (Radford et al. 2022), CTC, and decoders behind encoders of waveforms."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.contracts.names import LOGITS
from txexport.errors import InputError, shown
from txexport.runtime.generation import scheduler
from txexport.runtime.generation.prefill import prefill
from txexport.runtime.generation.requests import GenerationRequest, LogitsProcessor, check_place
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.audio import SINGLE, Source
from txexport.runtime.preprocessing.text import as_list
from txexport.runtime.tasks import ctc, speech_to_text
from txexport.runtime.tasks.transcript import Segment, Timestamps, Transcript, Word
from txexport.runtime.tasks.whisper.options import NAMES, read_options
from txexport.runtime.tasks.whisper.special_tokens import SpecialTokens
from txexport.runtime.tasks.whisper.transcripts import Transcriber
from txexport.support.arguments import check_count
from txexport.support.progress import Progress, counting


def transcribe(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    batch_tokens: int = scheduler.CACHE_TOKENS,
    first_place: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> str | Transcript | list[str] | list[Transcript]:
    """The text of a sound, or of each of many; with task "translate" its English translation.

    With `timestamps` the answer is a Transcript: with "segment" it has segments and the language, with "word"
    words too, each with the space before it.

    Sounds are those that `Model.audio` takes, of any length: a longer one than the model reads at once is
    decoded window by window, each from the last timestamp. `options` are `task`; `language`, "fr" or
    "french", by default the checkpoint's or else detected by the model; those of TranscriptOptions; and those
    of `generate`, except that max_length counts new tokens only, as in transformers for speech. Each window
    counts as many tokens as the encoder outputs. A model with a CTC head has the options of `ctc.transcribe`,
    one that generates text from a waveform those of `speech_to_text.transcribe`.
    Raises InputError for an invalid option or sound.
    """
    check_place(first_place)
    check_count("batch_tokens", batch_tokens)
    check_task(bundle, "transcribe")
    if bundle.step is None:
        return ctc.transcribe(bundle, sounds, progress=progress, **options)
    if bundle.reads_any_length:
        options |= {"batch_tokens": batch_tokens, "first_place": first_place, "progress": progress}
        return speech_to_text.transcribe(bundle, sounds, **options)
    sources: Sequence = [sounds] if isinstance(sounds, SINGLE) else as_list(sounds)
    transcriber = _transcriber(bundle, first_place, options)
    transcripts = transcriber.run(sources, batch_tokens, counting(progress))
    results: list[Any] = [*transcripts] if options.get("timestamps") else [one.text for one in transcripts]
    return results[0] if isinstance(sounds, SINGLE) else results


def stream_transcript(
    bundle: LoadedBundle, sound: Source, *, timestamps: Timestamps | None = None, **options: Any
) -> Iterator[str | Segment | Word]:
    """The text of a sound in pieces, as soon as each is complete; with `timestamps` its segments, or words.

    Together they are those of `transcribe`, whose options these are. A CTC model reads pieces of
    `chunk_length_s` seconds, and only one is in memory: `sound` may be a stream without an end, such as a
    WAV pipe. Raises InputError for an invalid option or sound.
    """
    for part in parts(bundle, sound, timestamps=timestamps, **options):
        if timestamps is None:
            yield from [part.text] if part.text else []
        else:
            yield from part.words if timestamps == "word" else part.segments


def parts(
    bundle: LoadedBundle, sound: Source, *, timestamps: Timestamps | None = None, **options: Any
) -> Iterator[Transcript]:
    """The transcript of a sound in parts, as soon as each is complete; options and errors as `transcribe`."""
    check_task(bundle, "transcribe")
    if bundle.step is None:
        return ctc.parts(bundle, sound, timestamps=timestamps, **options)
    if bundle.reads_any_length:
        texts = speech_to_text.transcribe(bundle, [sound], timestamps=timestamps, **options)
        return iter([Transcript(text) for text in texts])
    return _transcriber(bundle, 0, options | {"timestamps": timestamps}).parts(sound)


def _transcriber(bundle: LoadedBundle, first_place: int, options: dict[str, Any]) -> Transcriber:
    """The Transcriber of a Whisper bundle with these options."""
    settings = read_options(
        bundle.files.folder, {name: options[name] for name in NAMES if options.get(name) is not None}
    )
    others = {name: value for name, value in options.items() if name not in NAMES}
    if any(value > 0 for value in settings.temperatures):
        others |= {"do_sample": True}
    base = request(bundle, [], **others)
    special = SpecialTokens(bundle.files.folder)
    language, task = _language_and_task(special, options.get("language"), options.get("task"))
    start = len(special.begin(0, task, language or 0))
    config = base.config
    if config.max_length is not None:  # `request` counts the first tokens too
        config = replace(config, max_length=config.max_length - start)
    base = replace(base, config=config, first_place=first_place, read=None, begin=None)
    return Transcriber(base, settings, task, language)


def request(
    bundle: LoadedBundle,
    sounds: Any,
    *,
    language: str | None = None,
    task: str | None = None,
    logits_processor: LogitsProcessor | None = None,
    **options: Any,
) -> GenerationRequest:
    """The request for texts of sounds, of Whisper of one window each, with the decoder's first tokens."""
    check_task(bundle, "transcribe")
    if bundle.reads_any_length:
        options |= {"language": language, "task": task, "logits_processor": logits_processor}
        return speech_to_text.request(bundle, sounds, **options)
    sounds, config = (
        [sounds] if isinstance(sounds, SINGLE) else as_list(sounds),
        bundle.files.generation_config,
    )
    config = replace(config, ignored=_left_out(bundle.files.folder, config.ignored)).updated(**options)
    if config.num_return_sequences > 1:
        count = config.num_return_sequences
        raise InputError(f"a sound has one text; num_return_sequences must be 1, and is {count}")
    special = SpecialTokens(bundle.files.folder)
    spoken, chosen_task = _language_and_task(special, language, task)
    first = special.begin(0, chosen_task, spoken or 0)
    if config.max_length is not None:
        config = replace(config, max_length=config.max_length + len(first))

    def begin(batch: GenerationRequest) -> GenerationRequest:
        tokens: list[int | None] = [spoken] * len(batch.decoder_input_ids)
        if spoken is None and special.languages:
            tokens = [*special.likeliest(prefill(batch, [1] * len(tokens))[1])]
        start = batch.decoder_input_ids[0][0]
        return replace(
            batch, decoder_input_ids=[special.begin(start, chosen_task, token) for token in tokens]
        )

    special.check(bundle.decoder.width(LOGITS))
    strict, read = "max_new_tokens" in options, bundle.files.extractor.features
    return GenerationRequest(bundle, sounds, config, strict, logits_processor, read=read, begin=begin)


def _language_and_task(
    special: SpecialTokens, language: str | None, task: str | None
) -> tuple[int | None, str]:
    """The token of the language, None where it is to be detected, and the task."""
    for name, value in (("language", language), ("task", task)):
        if not isinstance(value, str | None):
            raise InputError(f"{name} is {shown(value)}, expected a text or None")
    language = language or special.own_language
    return None if language is None else special.language(language), task or special.own_task


def _left_out(folder: Path, ignored: Sequence[str]) -> tuple[str, ...]:
    """The checkpoint's settings without effect on speech; its forced first tokens do have one."""
    left = [option for option in ignored if not option.startswith("forced_decoder_ids=")]
    times = read_json(folder / "generation_config.json", missing={}).get("return_timestamps")
    return (*left, "return_timestamps=True") if times else tuple(left)
