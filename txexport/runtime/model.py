"""A bundle, loaded."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from txexport import bundle
from txexport.arguments import checked
from txexport.errors import InputError, shown
from txexport.runtime.batches import Progress
from txexport.runtime.generation import requests, streaming
from txexport.runtime.generation.config import Settings, read_settings
from txexport.runtime.generation.generation import Adjust
from txexport.runtime.generation.requests import CACHE_TOKENS
from txexport.runtime.generation.search import Generated
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.audio import Audio
from txexport.runtime.preprocessing.chat import Messages
from txexport.runtime.preprocessing.images import Images
from txexport.runtime.preprocessing.languages import in_language, language_token, refuse_languages
from txexport.runtime.preprocessing.text import Text, as_texts, tokenizing
from txexport.runtime.session import Session, open_sessions
from txexport.runtime.tasks import (
    feature_extraction,
    image_tasks,
    question_answering,
    scoring,
    speech_recognition,
    text_tasks,
    token_classification,
)
from txexport.runtime.tasks.pooling import Pooling, read_pooling

Prompts = str | Path | np.ndarray | Sequence


@checked
def load(
    folder: str | Path, *, device: str | None = None, threads: int | None = None, check: bool = True
) -> "Model":
    """The Model of the bundle in `folder`.

    `device` is "cpu", "cuda", another execution provider of the installed ONNX Runtime, as "openvino" or
    "coreml", or None for CUDA where present; what such a provider cannot run stays on the CPU. `threads`
    limits those of one operator. `check` makes sure that all files but the weights are those that were
    exported, and that there are no others which a bundle would read. Raises BundleError for a folder that is
    no whole bundle, InputError for a device that is not there.
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
        role = next(iter(self.sessions)) if graph is None else graph
        if not isinstance(role, str) or role not in self.sessions:
            raise InputError(f"no graph {shown(role)}; expected one of {', '.join(self.sessions)}")
        session = self.sessions[role]
        fitted = session.fit(inputs)
        ids = fitted.get("input_ids")
        limit = self.manifest.limits.get("text" if role == "text_model" else "encoder")
        if ids is not None and role != "decoder_model" and ids.ndim == 2:
            self.check_length(ids.shape[1], limit)
        if ids is not None and ids.size and (most := ids.max()) >= (words := self.vocabulary(role)):
            raise InputError(f"input 'input_ids' has {most}, expected 0 to {words - 1}")
        return session.run_fitted(fitted)

    def vocabulary(self, role: str) -> int:
        """The number of token ids that a graph knows."""
        spec = self.manifest.spec
        alone = "encoder" if "encoder" in spec else "decoder"
        stack = alone if role == "model" else role.removesuffix("_model")
        return spec[stack]["embedding"]["vocab_size"]

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
        self,
        prompts: Prompts,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        adjust: Adjust | None = None,
        batch_tokens: int = CACHE_TOKENS,
        progress: Progress | None = None,
        **options: Any,
    ) -> str | list[str] | list[list[str]]:
        """The new text for a prompt, or for each of several, in their order.

        For an encoder-decoder `prompts` are its sources, for a model of speech sounds (see `audio`).
        `options` are those of `Settings`, with transformers' names and defaults over what the checkpoint
        says; with num_return_sequences above 1 there is a list of texts for each prompt. `adjust` changes
        logits at each step: it takes rows of tokens and scores (R,V), and gives scores, where -inf rules a
        token out and +inf, which one token of a row may have, forces it. `src_lang` and
        `tgt_lang` are languages by the names of the tokenizer's tokens ("fr_XX", "fra_Latn"), for a
        translator between many. Errors as `generate_ids`.

        Many prompts run in batches of like lengths. `batch_tokens` is how many tokens a batch may come to in
        the end: prompts, new tokens and padding, for each beam or sequence returned; a prompt that needs more
        runs alone. `progress` is told how many prompts are done, and of how many. With do_sample and a seed,
        what is drawn for a prompt depends on the seed and on its place among the prompts, and on nothing
        else: neither on the batches nor on the other prompts.
        """
        if self.hears:
            refuse_languages(src_lang, tgt_lang)
            return self.transcribe(
                prompts, adjust=adjust, batch_tokens=batch_tokens, progress=progress, **options
            )
        rows, single = self.rows(prompts, src_lang)
        options |= self.target(tgt_lang)
        found = self.generate_ids(
            rows, adjust=adjust, batch_tokens=batch_tokens, progress=progress, **options
        )
        texts = self.text.decode(found)
        copies = len(texts) // max(1, len(rows))
        if copies > 1:
            grouped = [texts[at : at + copies] for at in range(0, len(texts), copies)]
            return grouped[0] if single else grouped
        return texts[0] if single else texts

    def generate_ids(self, rows: Sequence[Sequence[int] | np.ndarray], **options: Any) -> list[list[int]]:
        """The new token ids for rows of ids of any lengths; for speech, of spectrograms.

        Arguments as `generate`. A row ends after an end-of-sequence token, which it keeps, at a stop string,
        or after `max_new_tokens`: by default what the checkpoint's settings say, or else 20, within the
        model's longest sequence. With num_return_sequences above 1, so many rows for each one, the best
        first. Raises InputError for a task that does not generate, for rows that are too long, and for
        options that are unknown or out of range.
        """
        return [found.tokens for found in self.search(rows, **options)]

    def search(
        self,
        rows: Sequence[Sequence[int] | np.ndarray],
        *,
        adjust: Adjust | None = None,
        log_probs: bool = False,
        batch_tokens: int = CACHE_TOKENS,
        progress: Progress | None = None,
        **options: Any,
    ) -> list[Generated]:
        """As `generate_ids`, with the scores of beams, or the tokens' log-probabilities where asked for."""
        request = replace(self.request(rows, adjust, options), log_probs=log_probs)
        return requests.finished(requests.run(self, request, batch_tokens, progress))

    def request(self, rows: Sequence, adjust: Adjust | None, options: dict[str, Any]) -> requests.Request:
        """Rows to extend by `options` over the checkpoint's settings."""
        return requests.Request(rows, self.settings.updated(**options), "max_new_tokens" in options, adjust)

    def chat(self, messages: Messages, *, adjust: Adjust | None = None, **options: Any) -> str:
        """The answer to a conversation, as the checkpoint's chat template puts it to the model.

        `messages` are {"role": "user", "content": ...} and so on. Errors as `generate`, and where there is no
        template.
        """
        text = chat.prompt(self.folder, messages)
        rows = self.generate_ids(self.plain(text), adjust=adjust, **options)
        return self.text.decode(rows)[0]

    def plain(self, text: str) -> list[list[int]]:
        """The tokens of a text that has its special tokens already."""
        with tokenizing():
            return [self.text.tokenizer.encode(text, add_special_tokens=False).ids]

    @property
    def hears(self) -> bool:
        """Whether it takes sounds."""
        encoder = self.sessions.get("encoder_model")
        return encoder is not None and "input_features" in encoder.inputs

    def target(self, language: str | None) -> dict[str, int]:
        """The option that makes a translator write a language."""
        return {} if language is None else {"forced_bos_token_id": language_token(self.text, language)}

    def rows(self, prompts: Prompts, language: str | None = None) -> tuple[list, bool]:
        """Rows of ids for texts, or spectrograms for sounds; and whether there was one alone."""
        if self.hears:
            single = isinstance(prompts, str | Path | np.ndarray)
            return list(self.audio.features(prompts)), single
        texts = as_texts(prompts)  # type: ignore[arg-type]
        encodings, single = self.text.encode(texts), isinstance(prompts, str)
        if language is not None:
            return in_language(self.text, encodings, language), single
        return [encoding.ids for encoding in encodings], single

    def check_length(self, length: int, limit: int | None) -> None:
        """Raise InputError for an input of more tokens than `limit`."""
        if limit is not None and length > limit:
            raise InputError(f"an input of {length} tokens is longer than the model's {limit}")

    answer = question_answering.answer
    choose = text_tasks.choose
    classify = text_tasks.classify
    classify_image = image_tasks.classify_image
    embed = feature_extraction.embed
    embed_image = image_tasks.embed_image
    fill_mask = text_tasks.fill_mask
    match = image_tasks.match
    next_sentence = text_tasks.next_sentence
    score = scoring.score
    stream = streaming.stream
    stream_chat = streaming.stream_chat
    stream_many = streaming.stream_many
    tag = token_classification.tag
    transcribe = speech_recognition.transcribe
    zero_shot = text_tasks.zero_shot
