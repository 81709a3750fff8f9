"""A bundle, loaded."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from txexport import bundle
from txexport.errors import BundleError, InputError
from txexport.runtime import answering, embedding, tagging, tasks, tasks_image
from txexport.runtime.audio import Audio
from txexport.runtime.cache import CROSS, open_cache
from txexport.runtime.generation import DEFAULT_NEW_TOKENS, GenerationConfig, greedy, read_config
from txexport.runtime.images import Images
from txexport.runtime.pooling import Pooling, read_pooling
from txexport.runtime.session import Session, open_sessions
from txexport.runtime.text import Text, as_rows, as_texts, pad

PROMPT_CAPACITY = 64  # smallest cache, in tokens


def load(folder: str | Path, *, device: str | None = None, threads: int | None = None) -> "Model":
    """The Model of the bundle in `folder`.

    `device` is "cpu", "cuda", or None for CUDA where present; `threads` limits those of one operator.
    Raises BundleError for a folder that is no whole bundle, InputError for a device that is not there.
    """
    folder = Path(folder)
    manifest = bundle.read(folder)
    files = {role: folder / graph.file for role, graph in manifest.graphs.items()}
    return Model(folder, manifest, *open_sessions(files, device, threads))


class Model:
    """A bundle's graphs in ONNX Runtime, with its tokenizer; made by `load`."""

    def __init__(self, folder: Path, manifest: bundle.Manifest, device: str, sessions: dict[str, Session]):
        self.folder, self.manifest, self.device, self.sessions = folder, manifest, device, sessions

    def __repr__(self) -> str:
        return f"<{self.manifest.model_type} for {self.manifest.task} on {self.device}, from {self.folder}>"

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
    def generation_config(self) -> GenerationConfig:
        """What the checkpoint's files say of generation."""
        return read_config(self.folder)

    @cached_property
    def pooling(self) -> Pooling | None:
        """What the checkpoint's sentence-transformers files say; None where it has none."""
        return read_pooling(self.folder)

    def generate(self, prompts: str | Sequence[str], *, max_new_tokens: int | None = None) -> str | list[str]:
        """The new text that greedy search gives for a prompt, or for each of several in one batch.

        For an encoder-decoder, `prompts` are its sources. Arguments and errors as `generate_ids`.
        """
        encodings = self.text.encode(as_texts(prompts))
        rows = self.generate_ids([encoding.ids for encoding in encodings], max_new_tokens=max_new_tokens)
        texts = self.text.decode(rows)
        return texts[0] if isinstance(prompts, str) else texts

    def generate_ids(
        self, rows: Sequence[Sequence[int] | np.ndarray], *, max_new_tokens: int | None = None
    ) -> list[list[int]]:
        """The new token ids that greedy search gives for rows of ids of any lengths, in one batch.

        For a model of speech, `rows` are spectrograms (bands,frames). A row ends after an end-of-sequence
        token, which it keeps, or after `max_new_tokens`: by default what the checkpoint's generation settings
        say, or else 20, within the model's longest sequence. Raises InputError for a task that does not
        generate and for rows that are too long.
        """
        if self.manifest.cache is None:
            raise InputError(f"task '{self.manifest.task}' does not generate; export with another --task")
        config, seq2seq = self.generation_config, "encoder_model" in self.sessions
        session = self.sessions["decoder_model" if seq2seq else "model"]
        if isinstance(rows, Sequence | np.ndarray) and not len(rows):
            return []
        cross: dict = {}
        if seq2seq:
            if config.decoder_start is None:
                raise BundleError("config.json has no decoder_start_token_id, so generation cannot start")
            cross, prompts = self._encode(rows, session), [[config.decoder_start]] * len(rows)
        else:
            prompts = as_rows(rows, session.outputs["logits"].shape[-1])
        ids, _ = pad(prompts, config.pad)
        new_tokens = [self._new_tokens(len(prompt), max_new_tokens) for prompt in prompts]
        total = max(len(prompt) + new for prompt, new in zip(prompts, new_tokens, strict=True))
        cache = open_cache(session, self.manifest.cache, cross, len(rows), min(total, _roomy(ids.shape[1])))
        return greedy(cache.step, prompts, ids, new_tokens, config)

    def _encode(self, rows: Sequence, decoder: Session) -> dict:
        """Run the encoder; what it leaves for every step of the decoder, by the decoder's input names."""
        encoder, rest = self.sessions["encoder_model"], {}
        port = next(iter(encoder.inputs.values()))
        if port.name == "input_ids":
            ids, mask = pad(as_rows(rows, self._source_words(decoder)), self.generation_config.pad)
            self._check_length(ids.shape[1], self.manifest.limits["encoder"])
            values = {"input_ids": encoder.value(ids), "attention_mask": encoder.value(mask)}
            rest = {"encoder_attention_mask": values["attention_mask"]}
        else:
            values = {port.name: encoder.value(_stacked(rows, port.shape))}
        wanted = [name for name in encoder.outputs if CROSS in name]
        outputs = encoder.run_values(values, wanted)
        cross = {name.replace("present", "past_key_values", 1): value for name, value in outputs.items()}
        return rest | cross

    def _source_words(self, decoder: Session) -> int:
        """How many words an encoder knows: the decoder may know others."""
        words = self.manifest.spec["encoder"]["embedding"].get("vocab_size")
        return words or decoder.outputs["logits"].shape[-1]

    def _new_tokens(self, prompt: int, asked: int | None) -> int:
        """How many tokens a prompt of that length may grow by."""
        config, limit = self.generation_config, self.manifest.limits["decoder"]
        room = None if limit is None else limit - prompt
        if asked is not None:
            if isinstance(asked, bool) or not isinstance(asked, (int, np.integer)) or asked < 1:
                raise InputError(f"max_new_tokens is {asked!r}, expected a whole number of at least 1")
            if room is not None and asked > room:
                raise InputError(
                    f"a prompt of {prompt} tokens and {asked} new ones exceed the model's {limit}"
                )
            return int(asked)
        if room is not None and room < 1:
            raise InputError(f"a prompt of {prompt} tokens leaves no room in the model's {limit}")
        default = config.max_new_tokens or DEFAULT_NEW_TOKENS
        if config.max_new_tokens is None and config.max_length is not None:
            default = config.max_length - prompt
            if default < 1:
                raise InputError(
                    f"a prompt of {prompt} tokens leaves no room in the checkpoint's max_length of "
                    f"{config.max_length}; choose max_new_tokens"
                )
        return default if room is None else min(default, room)

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


def _roomy(prompt: int) -> int:
    """A first capacity for a prompt of that length; it grows from there."""
    return max(PROMPT_CAPACITY, 2 * prompt)


def _stacked(rows: Sequence, shape: Sequence[int | str]) -> np.ndarray:
    """Spectrograms of one shape as a batch. Raises InputError for any other."""
    arrays = [np.asarray(row, np.float32) for row in rows]
    for array in arrays:
        if list(array.shape) != list(shape[1:]):
            raise InputError(f"a spectrogram is {array.shape}, expected {tuple(shape[1:])}")
    return np.stack(arrays)
