"""The public Model: a loaded bundle, with the functions of `runtime/tasks` as its methods."""

import warnings
from pathlib import Path

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
    attention,
    audio_tasks,
    feature_extraction,
    image_tasks,
    image_to_text,
    late_interaction,
    prefix_session,
    question_answering,
    scoring,
    speech_recognition,
    streaming,
    text_generation,
    text_tasks,
    token_classification,
)
from txexport.runtime.vectors.pooling import Pooling
from txexport.support.arguments import checked


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


@attached
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
        """Whether it transcribes sounds. Deprecated: compare `model.manifest.task`."""
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
        """What makes pixel values of images, as the checkpoint's preprocessor file says."""
        return self.bundle.files.images

    @property
    def audio(self) -> Extractor:
        """The feature extractor of sounds, as the checkpoint's preprocessor file describes it."""
        return self.bundle.files.extractor

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
    classify_image = on_bundle(image_tasks.classify_image)
    image_to_text = on_bundle(image_to_text.image_to_text)
    embed_image = on_bundle(image_tasks.embed_image)
    match = on_bundle(image_tasks.match)
