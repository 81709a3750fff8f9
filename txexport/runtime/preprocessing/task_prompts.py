"""Florence-2's prompts, an image and a task in the words of its training, and its answers with places."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from txexport.errors import BundleError, InputError, counted
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.chat import Conversation
from txexport.runtime.preprocessing.image_tiles import Tiles
from txexport.runtime.preprocessing.special_tokens import special_tokens

# The words of tasks that have no other text, and of those in whose words a text stands (Xiao et al. 2024).
ALONE = {
    "<OCR>": "What is the text in the image?",
    "<OCR_WITH_REGION>": "What is the text in the image, with regions?",
    "<CAPTION>": "What does the image describe?",
    "<DETAILED_CAPTION>": "Describe in detail what is shown in the image.",
    "<MORE_DETAILED_CAPTION>": "Describe with a paragraph what is shown in the image.",
    "<OD>": "Locate the objects with category name in the image.",
    "<DENSE_REGION_CAPTION>": "Locate the objects in the image, with their descriptions.",
    "<REGION_PROPOSAL>": "Locate the region proposals in the image.",
}
WITH_TEXT = {
    "<CAPTION_TO_PHRASE_GROUNDING>": "Locate the phrases in the caption: {input}",
    "<REFERRING_EXPRESSION_SEGMENTATION>": "Locate {input} in the image with mask",
    "<REGION_TO_SEGMENTATION>": "What is the polygon mask of region {input}",
    "<OPEN_VOCABULARY_DETECTION>": "Locate {input} in the image.",
    "<REGION_TO_CATEGORY>": "What is the region {input}?",
    "<REGION_TO_DESCRIPTION>": "What does the region {input} describe?",
    "<REGION_TO_OCR>": "What text is in the region {input}?",
}
ENDS = "bos_token", "eos_token", "pad_token"


@dataclass(frozen=True)
class TaskPrompts:
    """The files of a bundle, the id of the token of images, and the vectors of an image.

    These are `before` and one for each square of `side` pixels, or part of one.
    """

    files: BundleFiles
    token_id: int
    side: int
    before: int

    adds_tokens: ClassVar[bool] = False  # the processor writes all special tokens itself
    rewrites: ClassVar[bool] = True

    @property
    def token(self) -> str:
        """The text that stands for a vector of an image. Raises BundleError where the tokenizer has none."""
        token: str | None = self.files.text.tokenizer.id_to_token(self.token_id)
        if token is None:
            raise BundleError(
                f"{self.files.folder}: tokenizer.json has no token {self.token_id}, which stands for images"
            )
        return token

    def tiles(self, images: Sequence[Any]) -> list[Tiles]:
        """The images of a prompt as the processor reads them. Raises InputError for an invalid one."""
        return [self.files.images.tiles(image) for image in images]

    def expanded(self, text: str, images: Sequence[Tiles]) -> str:
        """A prompt as the original reads it: the tokens of its image, then the words of its task.

        Without an image there are the words alone. Raises InputError for more images than one, for a task
        with a text that it does not take, and for the token of images in a text.
        """
        task = in_words(text)
        if self.token in task:
            raise InputError(f"a prompt has {self.token}, which is added for its image; leave it out")
        if not images:
            return task
        if len(images) > 1:
            raise InputError(f"a prompt has {counted(len(images), 'image')}, expected one")
        height, width = images[0].values.shape[2:]
        vectors = self.before + -(-height // self.side) * -(-width // self.side)
        ends = special_tokens(self.files.folder)
        return f"{self.token * vectors}{ends.get('bos_token', '')}{task}{ends.get('eos_token', '')}"

    def chat(self, conversation: Conversation, images: Sequence[Any]) -> tuple[str, list[Tiles], bool]:
        """Raise InputError: the model was trained on no conversations."""
        raise InputError(
            "chat: an encoder-decoder that reads images holds no conversations; call ask_image, or generate "
            "with images"
        )

    def decoded(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts of ids with the tokens of places, such as <loc_52>, but without those of ends and padding."""
        texts = self.files.text.decode(rows, special=True)
        ends = special_tokens(self.files.folder)
        for name in ENDS:
            token = ends.get(name)
            texts = [text.replace(token, "") for text in texts] if token else texts
        return [text.strip() for text in texts]


def in_words(text: str) -> str:
    """A prompt in the words of its task; one without a task as it is.

    Raises InputError for a task with a text that it does not take.
    """
    for task, sentence in ALONE.items():
        if task in text:
            if text != task:
                raise InputError(f"a prompt is {text[:40]!r}, expected {task} alone, which takes no text")
            text = sentence
            break
    for task, sentence in WITH_TEXT.items():
        if task in text:
            return sentence.replace("{input}", text.replace(task, "").strip())
    return text
