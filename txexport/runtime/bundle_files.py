"""The files of a bundle beside its graphs, each read on first use."""

from functools import cached_property
from pathlib import Path

from txexport.bundle import read_json
from txexport.runtime.generation.config import GenerationConfig, read_generation_config
from txexport.runtime.preprocessing.extractors import Extractor, read_extractor
from txexport.runtime.preprocessing.extractors.log_mel import Audio
from txexport.runtime.preprocessing.flattened_patches import FlattenedPatches
from txexport.runtime.preprocessing.images import Images
from txexport.runtime.preprocessing.ngram_language_model import NgramLanguageModel
from txexport.runtime.preprocessing.text import Text
from txexport.runtime.preprocessing.text_length import read_max_length
from txexport.runtime.preprocessing.text_size import TextSize
from txexport.runtime.vectors.pooling import Pooling, read_pooling
from txexport.runtime.vectors.token_vectors import TokenVectors, read_token_vectors


class BundleFiles:
    """The tokenizer, preprocessing and settings in a bundle's folder. Raises BundleError for damaged ones."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def text(self) -> Text:
        """The tokenizer. Raises BundleError where the bundle has none."""
        return Text(self.folder)

    @cached_property
    def max_length(self) -> int | None:
        """The most tokens of a text that the files allow; None where they set no limit."""
        return read_max_length(self.folder)

    @cached_property
    def text_size(self) -> TextSize:
        """A lower bound on the number of tokens of a text."""
        return TextSize(self.text.tokenizer)

    @cached_property
    def images(self) -> Images:
        """The image processor, from the checkpoint's preprocessor file."""
        return Images(self.folder)

    @cached_property
    def flattened(self) -> FlattenedPatches:
        """The image processor of patches in a row, from the same file."""
        return FlattenedPatches(self.folder)

    @cached_property
    def extractor(self) -> Extractor:
        """The feature extractor of sounds, from the checkpoint's preprocessor file."""
        return read_extractor(self.folder)

    @cached_property
    def log_mel(self) -> Audio:
        """The feature extractor of sounds in prompts. Raises as `Audio`."""
        return Audio(self.folder)

    @cached_property
    def language_model(self) -> NgramLanguageModel:
        """The n-gram language model of a CTC checkpoint."""
        return NgramLanguageModel(self.folder)

    @cached_property
    def config(self) -> dict:
        """The checkpoint's config.json."""
        return read_json(self.folder / "config.json")

    @cached_property
    def generation_config(self) -> GenerationConfig:
        """The generation settings of the checkpoint's files."""
        return read_generation_config(self.folder)

    @cached_property
    def pooling(self) -> Pooling | None:
        """The pooling of the checkpoint's sentence-transformers files; None where it has none."""
        return read_pooling(self.folder)

    @cached_property
    def token_vectors(self) -> TokenVectors | None:
        """The late-interaction settings; None where no file describes them."""
        return read_token_vectors(self.folder)
