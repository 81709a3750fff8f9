"""The parts of images that texts describe; T texts, S vectors, H and h heights, W and w widths."""

import math
from collections.abc import Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import IMAGE_EMBEDS, LOGITS, TEXT_EMBEDS
from txexport.errors import InputError, counted
from txexport.runtime import memory
from txexport.runtime.batches import BATCH_TOKENS, encode, run
from txexport.runtime.interpolation import bilinear
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.text import as_texts
from txexport.runtime.session import finite
from txexport.runtime.tasks.labels import sigmoid

TOGETHER = 16  # texts that the decoder reads at once with an image


def reads_texts(bundle: LoadedBundle) -> bool:
    """Tell whether texts say which parts of images a bundle's model segments."""
    return roles.TEXT in bundle.sessions


class DescribedParts:
    """The parts of images that `texts` describe, each text encoded once.

    Raises InputError for no texts, and for one that is too long unless it may be truncated.
    """

    def __init__(self, bundle: LoadedBundle, texts: Sequence[str] | None, truncate: bool):
        self.labels = as_texts([] if texts is None else texts)
        if not self.labels:
            raise InputError("this model segments by texts; give texts=[...] (--text), one for each part")
        self.decoder, session = bundle.sessions[roles.MASK_DECODER], bundle.sessions[roles.TEXT]
        self.vectors = np.empty((len(self.labels), session.width(TEXT_EMBEDS)), np.float32)
        encodings = encode(bundle, self.labels, truncate)
        for indices, outputs, _ in run(bundle, encodings, BATCH_TOKENS, None):
            self.vectors[indices] = outputs[TEXT_EMBEDS]

    def parts(
        self, image: Prepared, states: np.ndarray, mask_threshold: float
    ) -> list[tuple[int, float | None, np.ndarray]]:
        """The number of each text, its highest probability, and the pixels (H,W) above the threshold.

        `states` (layers,S,W) are the image encoder's. Logits (h,w) are interpolated to the image's own size.
        Raises InputError for an image that is not square after resizing, of which the model has no map.
        """
        _, height, width = image.values.shape
        if height != width:
            raise InputError(
                f"the image processor makes images of {width} x {height}, and this model reads squares; "
                "export the checkpoint with --image-size of one number"
            )
        size = image.height * image.width
        what = f"{counted(len(self.labels), 'mask')} of {image.width} x {image.height} pixels"
        memory.check(what, (len(self.labels) + 8) * size)
        least = -math.inf if mask_threshold == 0 else math.log(mask_threshold / (1 - mask_threshold))
        result: list[tuple[int, float | None, np.ndarray]] = []
        for first in range(0, len(self.labels), TOGETHER):
            inputs = {IMAGE_EMBEDS: states[None], TEXT_EMBEDS: self.vectors[first : first + TOGETHER]}
            [logits] = finite(self.decoder.run(inputs))[LOGITS]  # (T, h, w)
            for number, small in enumerate(logits, first):
                pixels = bilinear(small, image.height, image.width)
                result.append((number, float(sigmoid(pixels.max())), pixels > least))
        return result
