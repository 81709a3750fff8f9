"""The public Model: a loaded bundle, with the functions of `runtime/tasks` as its methods."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from txexport.bundle.manifest import Manifest
from txexport.contracts.stage import SOUND
from txexport.runtime.engines import ENGINES, FLOAT32
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.loaded_bundle import LoadedBundle, open_bundle
from txexport.runtime.methods import attached, on_bundle
from txexport.runtime.preprocessing.extractors import Extractor
from txexport.runtime.preprocessing.images import Images
from txexport.runtime.preprocessing.text import Text
from txexport.runtime.session import Session
from txexport.runtime.tasks import (
    all_masks,
    attention,
    audio_tasks,
    depth,
    described,
    detection,
    documents,
    feature_extraction,
    image_questions,
    image_tasks,
    image_to_text,
    late_interaction,
    masks,
    page_answers,
    pages,
    pose,
    prefix_session,
    question_answering,
    scoring,
    segmentation,
    sound_matching,
    speech_recognition,
    streaming,
    text_generation,
    text_tasks,
    token_classification,
)
from txexport.runtime.vectors.pooling import Pooling
from txexport.support.arguments import checked

FORMER_NAMES = {"hears": "is_speech", "search": "generate_with_scores", "settings": "generation_config"}


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
    """Load the bundle in `folder`.

    `device` is "cpu", "cuda", another execution provider of the installed ONNX Runtime such as "openvino" or
    "coreml", or None for CUDA where it is present; operators that a provider does not support run on the CPU.
    `threads` is the number of threads of one operator, by default the processors that the process or its
    container may use. `check` verifies that all files but the weights are those that were exported, and that
    there are no other files that a bundle would read. `dtype` is how the weights are stored: one of the
    dtypes of the export, None for the first.

    `engine` is "onnxruntime" or "openvino"; for the latter `device` is "cpu" or another of OpenVINO's
    devices. `precision` is the type in which OpenVINO computes: "float32", or "bfloat16", which has 8
    significant bits instead of 24 and is faster on processors that support it. Raises BundleError for a
    folder that is not a complete bundle, or that the engine cannot run, InputError for a device, a dtype or a
    precision that is not available, MissingLibraryError for an engine that is not installed.
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


@attached
class Model:
    """A bundle's graphs in an engine, with its tokenizer; made by `load`.

    Each of the methods below is for bundles of certain tasks; for another task it raises InputError, which
    names what to export. One input gives one result, several give a list in the same order, as in
    transformers' pipelines. The methods share four arguments. `truncate` cuts texts that are longer than the
    model allows, which otherwise raise InputError. `batch_tokens` is the most tokens of a batch, padding
    included; a longer text runs alone. `batch_size` is the most images or sounds of a batch. `progress` is
    called with the numbers of finished and of all inputs; True shows them on standard error.
    """

    def __init__(self, bundle: LoadedBundle):
        self.bundle = bundle

    def __repr__(self) -> str:
        return repr(self.bundle)

    if not TYPE_CHECKING:  # type checkers report a former name as an error

        def __getattr__(self, name):
            """Return what a former name stands for, with a DeprecationWarning."""
            if name not in FORMER_NAMES:
                raise AttributeError(f"'Model' object has no attribute '{name}'")
            message = f"Model.{name} is now Model.{FORMER_NAMES[name]}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(self, FORMER_NAMES[name])

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the memory of graphs and weights; a closed model can no longer run.

        Calls that are running in other threads may finish first.
        """
        self.bundle.close()

    @property
    def folder(self) -> Path:
        """The bundle's folder."""
        return self.bundle.folder

    @property
    def manifest(self) -> Manifest:
        """The contents of txexport.json."""
        return self.bundle.manifest

    @property
    def device(self) -> str:
        """The device of the graphs, such as "cpu"."""
        return self.bundle.device

    @property
    def sessions(self) -> dict[str, Session]:
        """The graphs by role. Raises InputError once the model is closed."""
        return self.bundle.sessions

    @property
    def is_speech(self) -> bool:
        """True for speech recognition. Deprecated: compare `model.manifest.task`."""
        warnings.warn(
            'Model.is_speech is deprecated: use model.manifest.task == "automatic-speech-recognition"',
            DeprecationWarning,
            stacklevel=2,
        )
        return self.bundle.step is not None and self.bundle.prompt_kind == SOUND

    @property
    def text(self) -> Text:
        """The tokenizer. Raises BundleError where the bundle has none."""
        return self.bundle.files.text

    @property
    def images(self) -> Images:
        """The image processor, from the checkpoint's preprocessor file."""
        return self.bundle.files.images

    @property
    def audio(self) -> Extractor:
        """The feature extractor of sounds, from the checkpoint's preprocessor file."""
        return self.bundle.files.extractor

    @property
    def config(self) -> dict:
        """The checkpoint's config.json."""
        return self.bundle.files.config

    @property
    def generation_config(self) -> GenerationConfig:
        """The generation settings of the checkpoint's files."""
        return self.bundle.files.generation_config

    @property
    def pooling(self) -> Pooling | None:
        """The pooling of the checkpoint's sentence-transformers files; None where it has none."""
        return self.bundle.files.pooling

    run = on_bundle(LoadedBundle.run)
    attention = on_bundle(attention.attention)
    generate = on_bundle(text_generation.generate)
    generate_ids = on_bundle(text_generation.generate_ids)
    generate_with_scores = on_bundle(text_generation.generate_with_scores)
    stream = on_bundle(streaming.stream)
    stream_many = on_bundle(streaming.stream_many)
    chat = on_bundle(text_generation.chat)
    stream_chat = on_bundle(streaming.stream_chat)
    session = on_bundle(prefix_session.session)
    score = on_bundle(scoring.score)
    transcribe = on_bundle(speech_recognition.transcribe)
    stream_transcript = on_bundle(speech_recognition.stream_transcript)
    embed = on_bundle(feature_extraction.embed)
    embed_tokens = on_bundle(late_interaction.embed_tokens)
    classify = on_bundle(text_tasks.classify)
    rerank = on_bundle(text_tasks.rerank)
    zero_shot = on_bundle(text_tasks.zero_shot)
    fill_mask = on_bundle(text_tasks.fill_mask)
    next_sentence = on_bundle(text_tasks.next_sentence)
    choose = on_bundle(text_tasks.choose)
    tag = on_bundle(token_classification.tag)
    answer = on_bundle(question_answering.answer)
    classify_audio = on_bundle(audio_tasks.classify_audio)
    diarize = on_bundle(audio_tasks.diarize)
    embed_speaker = on_bundle(audio_tasks.embed_speaker)
    embed_audio = on_bundle(sound_matching.embed_audio)
    match_audio = on_bundle(sound_matching.match_audio)
    detect = on_bundle(detection.detect)
    depth = on_bundle(depth.depth)
    segment = on_bundle(segmentation.segment)
    pose = on_bundle(pose.pose)
    masks = on_bundle(masks.masks)
    all_masks = on_bundle(all_masks.all_masks)
    classify_image = on_bundle(image_tasks.classify_image)
    image_to_text = on_bundle(image_to_text.image_to_text)
    ask_image = on_bundle(image_questions.ask_image)
    embed_image = on_bundle(image_tasks.embed_image)
    match = on_bundle(image_tasks.match)
    find = on_bundle(described.find)
    embed_words = on_bundle(documents.embed_words)
    tag_words = on_bundle(documents.tag_words)
    classify_page = on_bundle(documents.classify_page)
    answer_page = on_bundle(page_answers.answer_page)
    embed_pages = on_bundle(pages.embed_pages)
    embed_queries = on_bundle(pages.embed_queries)
    rank_pages = on_bundle(pages.rank_pages)
