"""Questions about an image, which the encoder of their tokens attends to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from txexport.errors import InputError, counted
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.image_tiles import Tiles


@dataclass(frozen=True)
class QuestionPrompts:
    """Prompts that are questions, each about one image; `files` are those of the bundle."""

    files: BundleFiles

    adds_tokens: ClassVar[bool] = True
    rewrites: ClassVar[bool] = True  # each prompt is checked

    def tiles(self, images: Sequence[Any]) -> list[Tiles]:
        """The images of a prompt as the processor reads them. Raises InputError for an invalid one."""
        return [self.files.images.tiles(image) for image in images]

    def expanded(self, text: str, images: Sequence[Tiles]) -> str:
        """The question as it is. Raises InputError for none or several images."""
        if len(images) != 1:
            raise InputError(f"a question has {counted(len(images), 'image')}, expected one")
        return text

    def chat(self, conversation: Conversation, images: Sequence[Any]) -> tuple[str, list[Tiles], bool]:
        """Raise InputError: the model was trained on no conversations."""
        raise InputError("chat: a model of questions holds no conversations; call ask_image")
