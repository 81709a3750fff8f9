"""What the files of a bundle say beside its graphs, each read when it is first asked for."""

from functools import cached_property
from pathlib import Path

from txexport.bundle import read_json
from txexport.runtime.generation.config import GenerationConfig, read_generation_config
from txexport.runtime.preprocessing.audio import Audio
from txexport.runtime.preprocessing.filter_bank import FilterBank
from txexport.runtime.preprocessing.images import Images
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
        """How few tokens a text can be, by its bytes."""
        return TextSize(self.text.tokenizer)

    @cached_property
    def images(self) -> Images:
        """What makes pixel values of images, as the checkpoint's preprocessor file says."""
        return Images(self.folder)

    @cached_property
    def audio(self) -> Audio:
        """What makes spectrograms of sounds, as the checkpoint's preprocessor file says."""
        return Audio(self.folder)

    @cached_property
    def filter_bank(self) -> FilterBank:
        """What makes filter banks of sounds, as the checkpoint's preprocessor file says."""
        return FilterBank(self.folder)

    @cached_property
    def config(self) -> dict:
        """The checkpoint's config.json."""
        return read_json(self.folder / "config.json")

    @cached_property
    def generation_config(self) -> GenerationConfig:
        """What the checkpoint's files say of generation."""
        return read_generation_config(self.folder)

    @cached_property
    def pooling(self) -> Pooling | None:
        """What the checkpoint's sentence-transformers files say; None where it has none."""
        return read_pooling(self.folder)

    @cached_property
    def token_vectors(self) -> TokenVectors | None:
        """How every token of a text has a vector; None where no files describe that."""
        return read_token_vectors(self.folder)
