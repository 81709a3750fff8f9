"""The parts of images that texts describe (Lüddecke and Ecker 2022, 3.1)."""

from collections.abc import Iterator, Mapping

import numpy as np

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.stage import Stage
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures._two_encoders import stages_of
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import DescribedSegmentsCase, EncoderCase
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, View
from txexport.spec import DescribedSegmentsSpec, PatchSpec
from txexport.spec.parameters import block
from txexport.spec.shapes import Shapes, convolution, linear, under

TEXTS = names.TEXT_BATCH_SIZE


class DescribedSegments:
    """A graph for each encoder and one of the decoder over both; a single graph for other clients."""

    spec = DescribedSegmentsSpec

    def roles(self, spec: DescribedSegmentsSpec) -> tuple[str, ...]:
        """The text encoder, the image encoder, and the decoder, whose prompts are texts."""
        return roles.TEXT, roles.VISION, roles.MASK_DECODER

    def signatures(self, spec: DescribedSegmentsSpec, contract: Contract) -> dict[str, Signature]:
        """Texts; images; the pixels of each image that each text describes.

        Other clients' graph reads as many texts as images, each text with the image of its place.
        """
        check_no_cache(spec, contract)
        batch, length = names.BATCH_SIZE, names.SEQUENCE_LENGTH
        image = floats(names.IMAGE_EMBEDS, batch, len(spec.layers), length, spec.width)
        pixels = input_of(spec.vision).ports(spec.vision, (batch,))
        tokens = input_of(spec.text).ports(spec.text, stacks.TOKENS)
        encoders = {
            roles.TEXT: Signature(tokens, (floats(names.TEXT_EMBEDS, batch, spec.size),)),
            roles.VISION: Signature(pixels, (image,)),
        }
        area = names.LOGITS_HEIGHT, names.LOGITS_WIDTH
        if contract.hub:
            logits = floats(names.LOGITS, batch, *area)
            return {roles.MODEL: Signature((*tokens, *pixels), (logits,)), **encoders}
        read = image, floats(names.TEXT_EMBEDS, TEXTS, spec.size)
        logits = floats(names.LOGITS, batch, TEXTS, *area)
        return {**encoders, roles.MASK_DECODER: Signature(read, (logits,))}

    def layer_ports(
        self, spec: DescribedSegmentsSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("DescribedSegmentsSpec: no graph returns the outputs of its layers")

    def stages(self, spec: DescribedSegmentsSpec, contract: Contract) -> list[Stage]:
        """Both encoders and the decoder, or one graph of all."""
        return stages_of(spec.text, spec.vision, self.signatures(spec, contract))

    def limits(self, spec: DescribedSegmentsSpec) -> dict[str, int | None]:
        """The longest text."""
        return {"text": spec.text.limit}

    def parameters(self, spec: DescribedSegmentsSpec) -> Shapes:
        """Both encoders, the text's projection, those of the image's layers, and the decoder."""
        width, strides = spec.width, spec.strides
        shapes = under("text", stacks.parameters(spec.text)) | under("vision", stacks.parameters(spec.vision))
        shapes |= under("text_projection", linear(spec.text.hidden_size, spec.size, False))
        for number in range(len(spec.layers)):
            shapes |= under(f"states.projects.{number}", linear(spec.vision.hidden_size, width, True))
        for part in ("scale", "shift"):
            shapes |= under(f"decoder.film.{part}", linear(spec.size, width, True))
        inner = width // 2 if spec.refined else 1
        shapes |= under("decoder.pixels.expand", _expansion(width, inner, strides[0]))
        if spec.refined:
            shapes |= under("decoder.pixels.convolve", convolution(width, width, 3))
            shapes |= under("decoder.pixels.expand_again", _expansion(inner, 1, strides[1]))
        for number in range(len(spec.layers)):
            shapes |= under(f"decoder.layers.{number}", block(spec.block))
        return shapes

    def shared(self, spec: DescribedSegmentsSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: DescribedSegmentsSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: DescribedSegmentsSpec, stack: str) -> tuple[Readout, ...]:
        """The projection of texts; those of an image's layers, and the decoder for one text."""
        if stack == names.TEXT:
            return (Readout("text_projection", f"{spec.size:,} numbers"),)
        patches = spec.vision.embedding
        assert isinstance(patches, PatchSpec)
        width, attention = spec.width, spec.block.attention
        heads = attention.num_heads * spec.block.dense.head_dim
        pairs = 4 * heads * patches.length**2 * len(spec.layers)
        cells, first = patches.patches, spec.strides[0] ** 2
        pixels = cells * first * width
        if spec.refined:
            inner = width // 2
            pixels = cells * (9 * width**2 + first * width * inner + first * spec.strides[1] ** 2 * inner)
        layers = ", ".join(map(str, spec.layers))
        return (
            Readout("states", f"{width:,} numbers of the layers {layers}", every=True),
            Readout("decoder.film", "of one text"),
            Readout("decoder.layers", every=True, operations=pairs),
            Readout("decoder.pixels", operations=2 * pixels),
        )

    def vector_output(self, spec: DescribedSegmentsSpec) -> None:
        """None."""

    def cases(self, spec: DescribedSegmentsSpec, view: View) -> Iterator[DescribedSegmentsCase]:
        """Ragged texts, padded on the right, with square images of several sizes."""
        random = np.random.default_rng(0)
        vocab_size, longest = spec.text.embedding.vocab_size, view.longest(spec.text)
        mark = vocab_size - 1 if spec.eos_token_id is None else spec.eos_token_id
        for name, lengths, images, more in [
            ("one text in one image", [5], 1, 0),
            ("three ragged texts in two images", [5, 9, 2], 2, 2),
            ("longest and short text in three images", [longest, 3], 3, -1),
        ]:
            lengths = [min(length, longest) for length in lengths]
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = random.integers(0, vocab_size - 1, mask.shape)
            ids = np.where((ids == mark) | ~mask, mark - 1 if mark else 1, ids)
            ids[np.arange(len(lengths)), np.array(lengths) - 1] = mark
            pixels = _images(spec, random, images, more)
            yield DescribedSegmentsCase(name, ids, mask.astype(np.int64), pixels)

    def text_case(self, spec: DescribedSegmentsSpec, batch: EncoderCase) -> DescribedSegmentsCase:
        """The batch of texts with two images."""
        pixels = _images(spec, np.random.default_rng(0), 2, 0)
        return DescribedSegmentsCase(batch.name, batch.input_ids, batch.attention_mask, pixels)


def _images(spec: DescribedSegmentsSpec, random: np.random.Generator, count: int, more: int) -> np.ndarray:
    """Square images with that many `more` rows of patches than the table of positions, and a pixel beside."""
    patches = spec.vision.embedding
    assert isinstance(patches, PatchSpec)
    side = max(1, patches.grid[0] + more) * patches.patch_size + (more > 0)
    return random.standard_normal((count, patches.channels, side, side), np.float32)


def _expansion(inputs: int, outputs: int, side: int) -> Shapes:
    """A transposed convolution."""
    return {"weight": (inputs, outputs, side, side), "bias": (outputs,)}


ARCHITECTURE = DescribedSegments()
