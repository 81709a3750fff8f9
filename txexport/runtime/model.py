"""The public Model: a loaded bundle, and a method for each thing that one may ask of it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.runtime.batches import BATCH_TOKENS
from txexport.runtime.engines import ENGINES, FLOAT32
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.prefixes import TOKENS, PrefixStore
from txexport.runtime.generation.prompts import Prompts
from txexport.runtime.generation.requests import LogitsProcessor, check_store
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle, check_task, open_bundle
from txexport.runtime.prefix_session import PrefixSession
from txexport.runtime.preprocessing.audio import Audio
from txexport.runtime.preprocessing.chat import Conversation, Messages, Tools
from txexport.runtime.preprocessing.images import Images, Source
from txexport.runtime.preprocessing.text import Item, Text
from txexport.runtime.session import Session
from txexport.runtime.tasks import (
    attention,
    audio_tasks,
    feature_extraction,
    image_tasks,
    image_to_text,
    late_interaction,
    question_answering,
    scoring,
    speech_recognition,
    streaming,
    text_generation,
    text_tasks,
    token_classification,
)
from txexport.runtime.tasks.attention import AttentionMap
from txexport.runtime.tasks.audio_tasks import BATCH_SOUNDS
from txexport.runtime.tasks.image_tasks import BATCH_IMAGES
from txexport.runtime.tasks.labels import Label
from txexport.runtime.tasks.question_answering import Answer
from txexport.runtime.tasks.scoring import Score
from txexport.runtime.tasks.text_tasks import Ranked
from txexport.runtime.tasks.token_classification import Entity
from txexport.runtime.vectors.pooling import Pooling
from txexport.support.arguments import checked
from txexport.support.progress import Progress


@checked
def load(
    folder: str | Path,
    *,
    device: str | None = None,
    threads: int | None = None,
    check: bool = True,
    dtype: str | None = None,
    engine: str = ENGINES[0],
    precision: str = FLOAT32,
) -> "Model":
    """The Model of the bundle in `folder`.

    `device` is "cpu", "cuda", another execution provider of the installed ONNX Runtime, as "openvino" or
    "coreml", or None for CUDA where present; what such a provider cannot run stays on the CPU. `threads`
    limits those of one operator, by default to the processors that the process or its container may use.
    `check` makes sure that all files but the weights are those that were exported, and that there are no
    others which a bundle would read. `dtype` is one of those in which the bundle was exported, None for the
    first: how weights are stored.

    `engine` is "onnxruntime" or "openvino", of which `device` is "cpu" or another that OpenVINO has here.
    `precision` is what OpenVINO computes in: "float32", or "bfloat16", which keeps 8 bits of a float32's 24
    and is the faster where a processor multiplies it. Raises BundleError for a folder that is no whole
    bundle, or that the engine cannot run, InputError for a device, a dtype or a precision that is not there,
    MissingLibraryError for an engine that is not installed.
    """
    return Model(
        open_bundle(
            Path(folder),
            device=device,
            threads=threads,
            check=check,
            dtype=dtype,
            engine=engine,
            precision=precision,
        )
    )


class Model:
    """A bundle's graphs in an engine, with its tokenizer; made by `load`.

    Of the methods below, each is for bundles of certain tasks, and raises InputError for others, with what to
    export. One input gives one answer, several give a list in the order given, like those of transformers'
    pipelines. They share four arguments. `truncate` cuts texts that are longer than the model allows, which
    are otherwise an InputError. `batch_tokens` is how many tokens, padding included, a batch may have; a text
    longer than that stands alone. `batch_size` is how many images it may have. `progress` is told how many
    inputs are done, and of how many; True shows it on standard error.
    """

    def __init__(self, bundle: LoadedBundle):
        self.bundle = bundle

    def __repr__(self) -> str:
        return repr(self.bundle)

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the memory of graphs and weights; a closed model answers nothing more.

        Calls of other threads that have begun may end first.
        """
        self.bundle.close()

    @property
    def folder(self) -> Path:
        """Where the bundle is."""
        return self.bundle.folder

    @property
    def manifest(self) -> Manifest:
        """What txexport.json says."""
        return self.bundle.manifest

    @property
    def device(self) -> str:
        """Where the graphs run, as "cpu"."""
        return self.bundle.device

    @property
    def sessions(self) -> dict[str, Session]:
        """The graphs by role. Raises InputError once the model is closed."""
        return self.bundle.sessions

    @property
    def is_speech(self) -> bool:
        """Whether it writes down sounds."""
        return self.bundle.is_speech

    @property
    def text(self) -> Text:
        """The tokenizer. Raises BundleError where the bundle has none."""
        return self.bundle.files.text

    @property
    def images(self) -> Images:
        """What makes pixel values of images, as the checkpoint's preprocessor file says."""
        return self.bundle.files.images

    @property
    def audio(self) -> Audio:
        """What makes spectrograms of sounds, as the checkpoint's preprocessor file says."""
        return self.bundle.files.audio

    @property
    def config(self) -> dict:
        """The checkpoint's config.json."""
        return self.bundle.files.config

    @property
    def generation_config(self) -> GenerationConfig:
        """What the checkpoint's files say of generation."""
        return self.bundle.files.generation_config

    @property
    def pooling(self) -> Pooling | None:
        """What the checkpoint's sentence-transformers files say; None where it has none."""
        return self.bundle.files.pooling

    def run(self, graph: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs by name of one graph for inputs by name, as txexport.json lists them with their shapes.

        `graph` is "encoder_model" or "decoder_model" where there are two. Raises InputError for another, and
        for inputs that are unknown, missing, of another type or shape, out of range or too long.
        """
        return self.bundle.run(graph, **inputs)

    def attention(
        self,
        text: Item,
        target: str | None = None,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        truncate: bool = False,
        **options: Any,
    ) -> dict[str, AttentionMap]:
        """What every token of a text, or of a pair, attends to: the weights of all layers and heads, by name.

        Of an encoder or a decoder, in one pass over the text, it is "attentions"; of an encoder-decoder
        "encoder_attentions", "decoder_attentions" and "cross_attentions", whose rows are tokens that the
        decoder writes: those of `target`, or else of what it generates greedily, with `options`, `src_lang`
        and `tgt_lang` as of `generate`. Raises InputError for a bundle that was exported without attentions,
        for a text that is too long (unless `truncate` cuts it, where a text is read as a whole), and for a
        target where none is written, UnsupportedError where images or sounds are read.
        """
        return attention.attention(
            self.bundle,
            text,
            target,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            truncate=truncate,
            **options,
        )

    def generate(
        self,
        prompts: Prompts,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        logits_processor: LogitsProcessor | None = None,
        batch_tokens: int = CACHE_TOKENS,
        first_place: int = 0,
        progress: Progress | None = None,
        **options: Any,
    ) -> str | list[str] | list[list[str]]:
        """The new text for a prompt, or for each of several, in their order.

        For an encoder-decoder `prompts` are its sources, for a model of speech sounds (see `transcribe`), for
        one of images those (see `image_to_text`).
        `options` are those of `GenerationConfig`, with transformers' names and defaults over what the
        checkpoint says; with num_return_sequences above 1 there is a list of texts for each prompt.
        `logits_processor` changes logits at each step: it takes rows of tokens and scores (R,V), and gives
        scores, where -inf rules a token out and +inf, which one token of a row may have, forces it.
        `assistant_model` is a smaller Model of the same tokens, which proposes what this one then confirms
        several tokens a step; `prefix_store` a PrefixStore of what was read before.
        `src_lang` and `tgt_lang` are languages by the names of the tokenizer's tokens ("fr_XX", "fra_Latn",
        or "fr" for "__fr__"), for a translator between many. Errors as `generate_ids`.

        Many prompts run in batches of like lengths. `batch_tokens` is how many tokens a batch may come to in
        the end: prompts, new tokens and padding, for each beam or sequence returned; a prompt that needs more
        runs alone. With do_sample and a seed, what is drawn for a prompt depends on the seed and on its place
        among the prompts, and on nothing else: neither on the batches nor on the other prompts. `first_place`
        is the place of the first, where these go on after others.
        """
        return text_generation.generate(
            self.bundle,
            prompts,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            logits_processor=logits_processor,
            batch_tokens=batch_tokens,
            first_place=first_place,
            progress=progress,
            **options,
        )

    def generate_ids(
        self, input_ids: Sequence[Sequence[int] | np.ndarray], **options: Any
    ) -> list[list[int]]:
        """The new token ids for rows of ids of any lengths; of spectrograms for speech, of pixels for images.

        Arguments as `generate`. A row ends after an end-of-sequence token, which it keeps, at a stop string,
        or after `max_new_tokens`: by default what the checkpoint's settings say, or else 20, within the
        model's longest sequence. With num_return_sequences above 1, so many rows for each one, the best
        first. Raises InputError for a task that does not generate, for rows that are too long, and for
        options that are unknown or out of range.
        """
        return text_generation.generate_ids(self.bundle, input_ids, **options)

    def generate_with_scores(
        self,
        input_ids: Sequence[Sequence[int] | np.ndarray],
        *,
        logits_processor: LogitsProcessor | None = None,
        log_probs: bool = False,
        batch_tokens: int = CACHE_TOKENS,
        first_place: int = 0,
        progress: Progress | None = None,
        **options: Any,
    ) -> list[Generated]:
        """As `generate_ids`, with the scores of beams, or with `log_probs` the tokens' log-probabilities."""
        return text_generation.generate_with_scores(
            self.bundle,
            input_ids,
            logits_processor=logits_processor,
            log_probs=log_probs,
            batch_tokens=batch_tokens,
            first_place=first_place,
            progress=progress,
            **options,
        )

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """The new text for one prompt in pieces as they come, none of which splits a character.

        Arguments and errors as `stream_many`, which come when the first piece is asked for.
        """
        return streaming.stream(self.bundle, prompt, **options)

    def stream_many(
        self,
        prompts: Sequence,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        logits_processor: LogitsProcessor | None = None,
        batch_tokens: int = CACHE_TOKENS,
        **options: Any,
    ) -> Iterator[tuple[int, str]]:
        """As `stream`, for several prompts: each piece with its prompt's number.

        Those of one batch come side by side, and batches one after another, as `generate` makes them.
        Arguments and errors as there; num_return_sequences must be 1.
        """
        return streaming.stream_many(
            self.bundle,
            prompts,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            logits_processor=logits_processor,
            batch_tokens=batch_tokens,
            **options,
        )

    def chat(
        self,
        messages: Messages,
        *,
        tools: Tools | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        continue_final_message: bool | str = False,
        logits_processor: LogitsProcessor | None = None,
        **options: Any,
    ) -> str:
        """The answer to a conversation, as the checkpoint's chat template puts it to the model.

        `messages` are {"role": "user", "content": ...} and so on; `tools` are the functions that the model
        may call, {"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}, as
        of transformers' `apply_chat_template`. A call is text, in the form that the checkpoint was trained to
        write. Of several templates by name `chat_template` is one; else it is the default, or "tool_use" for
        tools. `chat_template_kwargs` are values that it reads, as {"enable_thinking": False} or {"documents":
        [...]}. With `continue_final_message` the answer goes on the last message, or that key of it, as
        "reasoning_content". Errors as `generate`, where there is no template, and where it reads no tools,
        or not a value.
        """
        conversation = Conversation(
            messages, tools, chat_template, chat_template_kwargs, continue_final_message
        )
        return text_generation.chat(self.bundle, conversation, logits_processor=logits_processor, **options)

    def stream_chat(
        self,
        messages: Messages,
        *,
        tools: Tools | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        continue_final_message: bool | str = False,
        logits_processor: LogitsProcessor | None = None,
        **options: Any,
    ) -> Iterator[str]:
        """As `chat`, in pieces as they come."""
        conversation = Conversation(
            messages, tools, chat_template, chat_template_kwargs, continue_final_message
        )
        return streaming.stream_chat(self.bundle, conversation, logits_processor=logits_processor, **options)

    def session(self, max_tokens: int = TOKENS, *, max_bytes: int | None = None) -> PrefixSession:
        """A session, whose `generate`, `chat` and `stream` do not read again what they have read before.

        It keeps the keys and values of at most `max_tokens` tokens, and of `max_bytes` of memory where that
        is given; what was not used for longest leaves. For decoders without an encoder.
        """
        check_task(self.bundle, "generate")
        store = PrefixStore(max_tokens, max_bytes)
        check_store(self.bundle, store)
        return PrefixSession(self, store)

    def score(
        self,
        texts: str | Sequence[str],
        targets: str | Sequence[str] | None = None,
        *,
        batch_tokens: int = CACHE_TOKENS,
        progress: Progress | None = None,
    ) -> list[Score]:
        """How likely the model finds each token of texts, given those before it; the first ones have none.

        An encoder-decoder scores `targets`, as answers to `texts`. `batch_tokens` as in `generate`. Raises
        InputError for a task that does not generate and for texts that are too long.
        """
        return scoring.score(self.bundle, texts, targets, batch_tokens=batch_tokens, progress=progress)

    def transcribe(
        self,
        sounds: Any,
        *,
        batch_tokens: int = CACHE_TOKENS,
        first_place: int = 0,
        progress: Progress | None = None,
        **options: Any,
    ) -> str | list[str]:
        """What is said in sounds, written down or with task "translate" in English; for one, or each of many.

        A sound is as `Model.audio` takes it, at most as long as the model hears at once. `options` are
        `task`, `language`, a code as "fr", where None is what the checkpoint says or else lets the model
        tell, and those of `generate`, but that max_length counts new tokens alone, as transformers counts for
        speech. Sounds are read batch by batch, each as many tokens as the encoder makes of it. Raises
        InputError for a task, a language or a sound that cannot be.
        """
        return speech_recognition.transcribe(
            self.bundle,
            sounds,
            batch_tokens=batch_tokens,
            first_place=first_place,
            progress=progress,
            **options,
        )

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Sentence vectors (len(texts), W) float32, or (W) for one text, as sentence-transformers makes them.

        `prompt` is put before every text, or that of the checkpoint's prompts that has `prompt_name`, as
        "query". `pooling` ("mean", "cls", "max", "lasttoken", "weightedmean" or "mean_sqrt_len_tokens") and
        `normalize` (to length 1) default to what the checkpoint's sentence-transformers files say. W is the
        model's width, or that of the last dense layer which those files name, or `truncate_dim`: the first
        numbers of a vector trained for that (Kusupati et al. 2022), of length 1 with `normalize=True` alone.
        Raises InputError for a name or a width that there is not, and where neither files nor arguments say
        how to pool, but for a model with a vector of its own, as one tower of CLIP. A model of texts and
        images pools them its own way, to length 1.
        """
        return feature_extraction.embed(
            self.bundle,
            texts,
            prompt_name=prompt_name,
            prompt=prompt,
            pooling=pooling,
            normalize=normalize,
            truncate_dim=truncate_dim,
            truncate=truncate,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def embed_tokens(
        self,
        texts: str | Sequence[str],
        *,
        is_query: bool = False,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """A vector for each token of a text, (T, V) float32 of length 1, as ColBERT and PyLate make them.

        For late interaction, where texts are documents, and with `is_query` queries: each has its own first
        token and longest length, as the checkpoint's files say, queries are filled up to theirs with mask
        tokens, which have vectors too, and documents have none of punctuation. What those compare is
        `rerank`. Raises InputError for a checkpoint of another kind.
        """
        return late_interaction.embed_tokens(
            self.bundle,
            texts,
            is_query=is_query,
            truncate=truncate,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def classify(
        self,
        texts: str | Sequence[Item],
        *,
        top_k: int | None = None,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Label] | list[list[Label]]:
        """The labels of a text, likeliest first: all of them, or the first `top_k`.

        Several `texts` may hold pairs, as in [("premise", "hypothesis")]. Scores are probabilities that sum
        to 1, or of each label alone, or plain numbers of a regression, as config.json's problem_type says;
        those of a cross-encoder of sentence-transformers are what its predict gives by the activation that
        its files name.
        """
        return text_tasks.classify(
            self.bundle, texts, top_k=top_k, truncate=truncate, batch_tokens=batch_tokens, progress=progress
        )

    def rerank(
        self,
        queries: str | Sequence[str],
        documents: Sequence[str],
        *,
        top_k: int | None = None,
        return_documents: bool = False,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Ranked] | list[list[Ranked]]:
        """How well each of `documents` answers a query, the best first, as CrossEncoder.rank has it.

        For a model of one label that reads a query and a document together: `corpus_id` is a document's place
        among those given, `score` what the checkpoint's activation makes of the label, or else its
        probability; `text` is there with `return_documents`. `top_k` is how many are given. Several queries
        have a list each. `truncate` cuts the longer of the two. Raises InputError for a model of more labels.
        For late interaction it reads each alone, and a score is the sum, over the query's tokens, of the
        greatest product with a document's (see `embed_tokens`).
        """
        return text_tasks.rerank(
            self.bundle,
            queries,
            documents,
            top_k=top_k,
            return_documents=return_documents,
            truncate=truncate,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def zero_shot(
        self,
        texts: str | Sequence[str],
        candidate_labels: Sequence[str],
        *,
        hypothesis_template: str = "This example is {}.",
        multi_label: bool = False,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Label] | list[list[Label]]:
        """How likely each of `candidate_labels`, of any words, fits a text, likeliest first.

        For a model of natural language inference (Yin et al. 2019, 5): a label's score is how far the text
        entails the `hypothesis_template` with the label in the place of {}. Scores sum to 1 over the labels
        or, with `multi_label`, each is the probability of entailment against contradiction. `truncate` cuts
        the text, never the hypothesis. Raises InputError where no label of the model begins with "entail".
        """
        return text_tasks.zero_shot(
            self.bundle,
            texts,
            candidate_labels,
            hypothesis_template=hypothesis_template,
            multi_label=multi_label,
            truncate=truncate,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def fill_mask(
        self,
        texts: str | Sequence[str],
        *,
        top_k: int = 5,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Any]:
        """The `top_k` likeliest words for the mask in a text; with several masks, a list for each of them.

        A mask is written as the tokenizer does: [MASK], <mask>. Raises InputError for a text without one.
        """
        return text_tasks.fill_mask(
            self.bundle, texts, top_k=top_k, truncate=truncate, batch_tokens=batch_tokens, progress=progress
        )

    def next_sentence(
        self,
        first: str | Sequence[str],
        second: str | Sequence[str],
        *,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> float | list[float]:
        """The probability that `second` goes on where `first` ends, or of each pair (Devlin et al. 2019)."""
        return text_tasks.next_sentence(
            self.bundle, first, second, truncate=truncate, batch_tokens=batch_tokens, progress=progress
        )

    def choose(
        self,
        question: str | Sequence[str],
        choices: Sequence[str] | Sequence[Sequence[str]],
        *,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[float] | list[list[float]]:
        """The probability of each of the `choices`, in their order; for several questions, of their own."""
        return text_tasks.choose(
            self.bundle, question, choices, truncate=truncate, batch_tokens=batch_tokens, progress=progress
        )

    def tag(
        self,
        texts: str | Sequence[str],
        *,
        aggregation: str = "simple",
        ignore: Collection[str] = ("O",),
        stride: int | None = None,
        truncate: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Entity] | list[list[Entity]]:
        """The entities of a text in their order, without those whose label is in `ignore`.

        `aggregation` is "simple", "first", "average", "max" or "none", as in transformers' pipeline. With
        `stride`, a text longer than the model allows is read in windows that share so many tokens; of
        entities that overlap the longest stays.
        """
        return token_classification.tag(
            self.bundle,
            texts,
            aggregation=aggregation,
            ignore=ignore,
            stride=stride,
            truncate=truncate,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def answer(
        self,
        question: str | Sequence[str],
        context: str | Sequence[str],
        *,
        top_k: int = 1,
        max_answer_len: int = 15,
        max_seq_len: int | None = None,
        doc_stride: int | None = None,
        align_to_words: bool = True,
        handle_impossible_answer: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Answer] | list[list[Answer]]:
        """The `top_k` likeliest answers within a context; for several questions or contexts, of each pair.

        An answer has at most `max_answer_len` tokens, widened to whole words unless `align_to_words` is
        false. Question and context longer than `max_seq_len` tokens (384 or the model's limit) are read in
        windows whose contexts share `doc_stride` tokens (half, at most 128). Scores of one text found twice
        are added. `handle_impossible_answer` lets "" stand for no answer. Raises InputError for a question or
        context without text, and for a question that leaves no room for its context.
        """
        return question_answering.answer(
            self.bundle,
            question,
            context,
            top_k=top_k,
            max_answer_len=max_answer_len,
            max_seq_len=max_seq_len,
            doc_stride=doc_stride,
            align_to_words=align_to_words,
            handle_impossible_answer=handle_impossible_answer,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def classify_audio(
        self,
        sounds: Any,
        *,
        top_k: int | None = 5,
        truncate: bool = False,
        batch_size: int = BATCH_SOUNDS,
        progress: Progress | None = None,
    ) -> list[Label] | list[list[Label]]:
        """The `top_k` likeliest labels of a sound, likeliest first, or of each of several.

        A sound is the path of a WAV file or an array of floats (N,) between -1 and 1 at the rate of the
        checkpoint's feature extractor. Raises InputError for what is none, and unless `truncate` cuts it, for
        one that is longer than the model reads.
        """
        return audio_tasks.classify_audio(
            self.bundle, sounds, top_k=top_k, truncate=truncate, batch_size=batch_size, progress=progress
        )

    def classify_image(
        self,
        images: "Source | Sequence[Source]",
        *,
        top_k: int | None = 5,
        batch_size: int = BATCH_IMAGES,
        progress: Progress | None = None,
    ) -> list[Label] | list[list[Label]]:
        """The `top_k` likeliest labels of an image, or all of them for None, likeliest first.

        Scores are as those of `classify`.
        """
        return image_tasks.classify_image(
            self.bundle, images, top_k=top_k, batch_size=batch_size, progress=progress
        )

    def image_to_text(
        self,
        images: "Source | Sequence[Source]",
        *,
        batch_tokens: int = CACHE_TOKENS,
        first_place: int = 0,
        progress: Progress | None = None,
        **options: Any,
    ) -> str | list[str]:
        """What an image shows or says, in words; for one, or each of several.

        An image is as `Model.images` takes it. `options` are those of `generate`. Images are opened batch by
        batch, each as many tokens as the encoder makes of it. Raises InputError for what is no image, and for
        num_return_sequences above 1.
        """
        return image_to_text.image_to_text(
            self.bundle,
            images,
            batch_tokens=batch_tokens,
            first_place=first_place,
            progress=progress,
            **options,
        )

    def embed_image(
        self,
        images: "Source | Sequence[Source]",
        *,
        pooling: str | None = None,
        normalize: bool = False,
        batch_size: int = BATCH_IMAGES,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Vectors of images (len(images), W) float32, or (W) for one image.

        Of two towers, those that `match` compares with what `embed` gives of texts; they have length 1.
        Of an encoder of images, by `pooling`, the vector of its first token ("cls", the default), the mean of
        the patches' ("mean") or what the checkpoint's pooler makes of the first ("pooler", the default
        of one tower of CLIP); `normalize` makes their length 1. Raises InputError for another pooling.
        """
        return image_tasks.embed_image(
            self.bundle,
            images,
            pooling=pooling,
            normalize=normalize,
            batch_size=batch_size,
            progress=progress,
        )

    def match(
        self,
        images: "Source | Sequence[Source]",
        texts: Sequence[str],
        *,
        template: str = "{}",
        truncate: bool = False,
        batch_size: int = BATCH_IMAGES,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
    ) -> list[Label] | list[list[Label]]:
        """How likely each of `texts` is the one that fits an image, likeliest first.

        Probabilities over the texts (Radford et al. 2021, 3.1), or each text's alone where the model was
        trained so (Zhai et al. 2023, 3.2). `template` is what the model reads of a text, which takes the
        place of {} in it, as in "a photo of {}.". Raises InputError for no texts, and for a template without
        {}.
        """
        return image_tasks.match(
            self.bundle,
            images,
            texts,
            template=template,
            truncate=truncate,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            progress=progress,
        )
