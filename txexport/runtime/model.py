"""A bundle, loaded."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from txexport import bundle
from txexport.errors import BundleError, InputError
from txexport.runtime import answering, chat, embedding, generation, speech, tagging, tasks, tasks_image
from txexport.runtime.audio import Audio
from txexport.runtime.cache import CROSS
from txexport.runtime.chat import Messages
from txexport.runtime.generation import Adjust, Job
from txexport.runtime.images import Images
from txexport.runtime.pooling import Pooling, read_pooling
from txexport.runtime.search import Generated
from txexport.runtime.session import Session, open_sessions
from txexport.runtime.settings import Settings, read_settings
from txexport.runtime.text import Pieces, Text, as_rows, as_texts, pad

Prompts = str | Path | np.ndarray | Sequence


@dataclass(frozen=True)
class Score:
    """How likely a model finds tokens: the logarithm of each one's probability, given those before it."""

    tokens: list[int]
    log_probs: list[float]

    @property
    def total(self) -> float:
        """The logarithm of the probability of all of them."""
        return float(sum(self.log_probs))


def load(
    folder: str | Path, *, device: str | None = None, threads: int | None = None, check: bool = True
) -> "Model":
    """The Model of the bundle in `folder`.

    `device` is "cpu", "cuda", or None for CUDA where present; `threads` limits those of one operator.
    `check` makes sure that graphs are those that were exported. Raises BundleError for a folder that is no
    whole bundle, InputError for a device that is not there.
    """
    folder = Path(folder)
    manifest = bundle.read(folder)
    if check:
        bundle.check(folder, manifest)
    files = {role: folder / graph.file for role, graph in manifest.graphs.items()}
    return Model(folder, manifest, *open_sessions(files, device, threads))


class Model:
    """A bundle's graphs in ONNX Runtime, with its tokenizer; made by `load`."""

    def __init__(self, folder: Path, manifest: bundle.Manifest, device: str, sessions: dict[str, Session]):
        self.folder, self.manifest, self.device = folder, manifest, device
        self._sessions: dict[str, Session] | None = sessions

    def __repr__(self) -> str:
        return f"<{self.manifest.model_type} for {self.manifest.task} on {self.device}, from {self.folder}>"

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the memory of graphs and weights; a closed model answers nothing more.

        Calls of other threads that have begun may end first.
        """
        self._sessions = None

    @property
    def sessions(self) -> dict[str, Session]:
        """The graphs by role. Raises InputError once the model is closed."""
        if self._sessions is None:
            raise InputError(f"{self} is closed; load it again")
        return self._sessions

    def run(self, graph: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs by name of one graph for inputs by name, as txexport.json lists them.

        `graph` is "encoder_model" or "decoder_model" where there are two.
        """
        if graph is None and len(self.sessions) > 1:
            raise InputError(f"which graph? expected one of {', '.join(self.sessions)}")
        role = graph or next(iter(self.sessions))
        if role not in self.sessions:
            raise InputError(f"no graph '{role}'; expected one of {', '.join(self.sessions)}")
        ids = inputs.get("input_ids")
        limit = self.manifest.limits.get("text" if role == "text_model" else "encoder")
        if role != "decoder_model" and ids is not None and np.ndim(ids) == 2:
            self._check_length(np.shape(ids)[1], limit)
        return self.sessions[role].run(inputs)

    @cached_property
    def text(self) -> Text:
        """The tokenizer. Raises BundleError where the bundle has none."""
        return Text(self.folder)

    @cached_property
    def images(self) -> Images:
        """What makes pixel values of images, as the checkpoint's preprocessor file says."""
        return Images(self.folder)

    @cached_property
    def audio(self) -> Audio:
        """What makes spectrograms of sounds, as the checkpoint's preprocessor file says."""
        return Audio(self.folder)

    @cached_property
    def config(self) -> dict:
        """The checkpoint's config.json."""
        return bundle.read_json(self.folder / "config.json")

    @cached_property
    def settings(self) -> Settings:
        """What the checkpoint's files say of generation."""
        return read_settings(self.folder)

    @cached_property
    def pooling(self) -> Pooling | None:
        """What the checkpoint's sentence-transformers files say; None where it has none."""
        return read_pooling(self.folder)

    def generate(
        self, prompts: Prompts, *, adjust: Adjust | None = None, **options: Any
    ) -> str | list[str] | list[list[str]]:
        """The new text for a prompt, or for each of several in one batch.

        For an encoder-decoder `prompts` are its sources, for a model of speech sounds (see `audio`).
        `options` are those of `Settings`, with transformers' names and defaults over what the checkpoint
        says; with num_return_sequences above 1 there is a list of texts for each prompt. `adjust` changes
        logits at each step: it takes rows of tokens and scores (R,V), and gives scores. Errors as
        `generate_ids`.
        """
        if self._hears:
            return self.transcribe(prompts, adjust=adjust, **options)
        rows, single = self._rows(prompts)
        texts = self.text.decode(self.generate_ids(rows, adjust=adjust, **options))
        copies = len(texts) // max(1, len(rows))
        if copies > 1:
            grouped = [texts[at : at + copies] for at in range(0, len(texts), copies)]
            return grouped[0] if single else grouped
        return texts[0] if single else texts

    def generate_ids(
        self,
        rows: Sequence[Sequence[int] | np.ndarray],
        *,
        adjust: Adjust | None = None,
        **options: Any,
    ) -> list[list[int]]:
        """The new token ids for rows of ids of any lengths, in one batch; for speech, of spectrograms.

        A row ends after an end-of-sequence token, which it keeps, at a stop string, or after
        `max_new_tokens`: by default what the checkpoint's settings say, or else 20, within the model's
        longest sequence. With num_return_sequences above 1, so many rows for each one, the best first. Raises
        InputError for a task that does not generate, for rows that are too long, and for options that are
        unknown or out of range.
        """
        return [found.tokens for found in self.search(rows, adjust=adjust, **options)]

    def search(
        self,
        rows: Sequence[Sequence[int] | np.ndarray],
        *,
        adjust: Adjust | None = None,
        log_probs: bool = False,
        **options: Any,
    ) -> list[Generated]:
        """As `generate_ids`, with the scores of beams, or the tokens' log-probabilities where asked for."""
        settings = self.settings.updated(**options)
        job = self._job(rows, settings, strict="max_new_tokens" in options)
        if not job.prompts:
            return []
        results, steps = generation.run(job, settings, adjust, log_probs)
        for _ in steps:
            pass
        return results

    def stream(self, prompt: str, *, adjust: Adjust | None = None, **options: Any) -> Iterator[str]:
        """The new text for one prompt in pieces as they come, none of which splits a character."""
        for _, piece in self.stream_many([prompt], adjust=adjust, **options):
            yield piece

    def stream_many(
        self, prompts: Sequence, *, adjust: Adjust | None = None, **options: Any
    ) -> Iterator[tuple[int, str]]:
        """As `stream`, for several prompts in one batch: each piece with its prompt's number."""
        rows, _ = self._rows(prompts)
        yield from self._stream(rows, adjust, options)

    def _stream(
        self, rows: Sequence, adjust: Adjust | None, options: dict[str, Any]
    ) -> Iterator[tuple[int, str]]:
        settings = self.settings.updated(**options)
        if settings.num_return_sequences > 1:
            raise InputError("a stream has one text a prompt; num_return_sequences must be 1")
        job = self._job(rows, settings, strict="max_new_tokens" in options)
        pieces = [Pieces(self.text) for _ in rows]
        _, steps = generation.run(job, settings, adjust) if rows else ([], iter(()))
        for step in steps:
            for place, token in step:
                piece = pieces[place].add(token)
                if piece:
                    yield place, piece
        for place, left in enumerate(pieces):
            if rest := left.rest():
                yield place, rest

    def chat(self, messages: Messages, *, adjust: Adjust | None = None, **options: Any) -> str:
        """The answer to a conversation, as the checkpoint's chat template puts it to the model.

        `messages` are {"role": "user", "content": ...} and so on. Errors as `generate`, and where there is no
        template.
        """
        text = chat.prompt(self.folder, messages)
        rows = self.generate_ids(self._plain(text), adjust=adjust, **options)
        return self.text.decode(rows)[0]

    def stream_chat(
        self, messages: Messages, *, adjust: Adjust | None = None, **options: Any
    ) -> Iterator[str]:
        """As `chat`, in pieces as they come."""
        rows = self._plain(chat.prompt(self.folder, messages))
        for _, piece in self._stream(rows, adjust, options):
            yield piece

    def _plain(self, text: str) -> list[list[int]]:
        """The tokens of a text that has its special tokens already."""
        return [self.text.tokenizer.encode(text, add_special_tokens=False).ids]

    def score(self, texts: str | Sequence[str], targets: str | Sequence[str] | None = None) -> list[Score]:
        """How likely the model finds each token of texts, given those before it; the first ones have none.

        An encoder-decoder scores `targets`, as answers to `texts`. Raises InputError for a task that does not
        generate and for texts that are too long.
        """
        if self._hears:
            raise InputError("a model of speech scores no texts")
        if ("encoder_model" in self.sessions) != (targets is not None):
            raise InputError("targets are what an encoder-decoder scores, and only that")
        rows, _ = self._rows(texts)
        job = self._job(rows, self.settings, strict=False)
        if targets is not None:
            answers, _ = self._rows(targets)
            if len(answers) != len(rows):
                raise InputError(f"{len(rows)} texts have {len(answers)} targets, expected one each")
            rows = [[*prompt, *target] for prompt, target in zip(job.prompts, answers, strict=True)]
        for row in rows:
            self._check_length(len(row), job.limit)
        found = generation.score(job, rows, self.settings.pad) if rows else []
        return [Score(list(row[1:]), values.tolist()) for row, values in zip(rows, found, strict=True)]

    @property
    def _hears(self) -> bool:
        encoder = self.sessions.get("encoder_model")
        return encoder is not None and "input_features" in encoder.inputs

    def _rows(self, prompts: Prompts) -> tuple[list, bool]:
        """Rows of ids for texts, or spectrograms for sounds; and whether there was one alone."""
        if self._hears:
            single = isinstance(prompts, str | Path | np.ndarray)
            return list(self.audio.features(prompts)), single
        texts = as_texts(prompts)  # type: ignore[arg-type]
        return [encoding.ids for encoding in self.text.encode(texts)], isinstance(prompts, str)

    def _job(self, rows: Sequence, settings: Settings, strict: bool) -> Job:
        """What there is to extend. Raises InputError for a task that does not generate."""
        if self.manifest.cache is None:
            raise InputError(f"task '{self.manifest.task}' does not generate; export with another --task")
        if settings.ignored:
            warnings.warn(f"generation leaves out {', '.join(settings.ignored)}", stacklevel=3)
        crossed = "encoder_model" in self.sessions
        session = self.sessions["decoder_model" if crossed else "model"]
        limit, sources = self.manifest.limits["decoder"], None
        cross: dict = {}
        if isinstance(rows, Sequence | np.ndarray) and not len(rows):
            prompts: list[list[int]] = []
        elif not crossed:
            prompts = as_rows(rows, session.outputs["logits"].shape[-1])
        else:
            if settings.decoder_start is None:
                raise BundleError("config.json has no decoder_start_token_id, so generation cannot start")
            cross, sources = self._encode(rows, settings)
            prompts = [[settings.decoder_start]] * len(rows)
        return Job(session, self.manifest.cache, prompts, sources, cross, limit, lambda: self.text, strict)

    def _encode(self, rows: Sequence, settings: Settings) -> tuple[dict, list[list[int]] | None]:
        """Run the encoder: what it leaves for the decoder's steps, by name, and the tokens that it read."""
        encoder, rest, tokens = self.sessions["encoder_model"], {}, None
        port = next(iter(encoder.inputs.values()))
        if port.name == "input_ids":
            tokens = as_rows(rows, self._source_words())
            ids, mask = pad(tokens, settings.pad)
            self._check_length(ids.shape[1], self.manifest.limits["encoder"])
            values = {"input_ids": encoder.value(ids), "attention_mask": encoder.value(mask)}
            rest = {"encoder_attention_mask": values["attention_mask"]}
        else:
            values = {port.name: encoder.value(_stacked(rows, port.shape))}
        wanted = [name for name in encoder.outputs if CROSS in name]
        outputs = encoder.run_values(values, wanted)
        cross = {name.replace("present", "past_key_values", 1): value for name, value in outputs.items()}
        return rest | cross, tokens

    def _source_words(self) -> int:
        """How many words an encoder knows: the decoder may know others."""
        return self.manifest.spec["encoder"]["embedding"]["vocab_size"]

    def _check_length(self, length: int, limit: int | None) -> None:
        if limit is not None and length > limit:
            raise InputError(f"an input of {length} tokens is longer than the model's {limit}")

    answer = answering.answer
    choose = tasks.choose
    classify = tasks.classify
    classify_image = tasks_image.classify_image
    embed = embedding.embed
    fill_mask = tasks.fill_mask
    match = tasks_image.match
    next_sentence = tasks.next_sentence
    tag = tagging.tag
    transcribe = speech.transcribe


def _stacked(rows: Sequence, shape: Sequence[int | str]) -> np.ndarray:
    """Spectrograms of one shape as a batch. Raises InputError for any other."""
    arrays = [np.asarray(row, np.float32) for row in rows]
    for array in arrays:
        if list(array.shape) != list(shape[1:]):
            raise InputError(f"a spectrogram is {array.shape}, expected {tuple(shape[1:])}")
    return np.stack(arrays)
