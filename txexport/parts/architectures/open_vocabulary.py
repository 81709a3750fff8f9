"""Objects in images that texts describe (Minderer et al. 2022, 3.1)."""

from collections.abc import Iterator, Mapping

import numpy as np

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.stage import Stage
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures._two_encoders import stages_of
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import DescribedCase, EncoderCase
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, View
from txexport.spec import OpenVocabularySpec
from txexport.spec.shapes import Shapes, linear, norm, under

TEXTS, QUERIES = names.TEXT_BATCH_SIZE, names.NUM_QUERIES


class OpenVocabulary:
    """A graph for each encoder and one that compares them; a single graph for other clients."""

    spec = OpenVocabularySpec

    def roles(self, spec: OpenVocabularySpec) -> tuple[str, ...]:
        """The text encoder, the image encoder, and the comparison of texts with patches."""
        return roles.TEXT, roles.VISION, roles.SIMILARITY

    def signatures(self, spec: OpenVocabularySpec, contract: Contract) -> dict[str, Signature]:
        """Texts; images with boxes; the scores of each text for each patch.

        In other clients' graph, every image has the same number of texts.
        """
        check_no_cache(spec, contract)
        batch, (rows, columns) = names.BATCH_SIZE, spec.grid
        count, width = rows * columns, spec.vision.hidden_size
        image = floats(names.IMAGE_EMBEDS, batch, rows, columns, width)
        boxes = floats(names.PRED_BOXES, batch, count, 4)
        pixels = input_of(spec.vision).ports(spec.vision, (batch,))
        texts = floats(names.TEXT_EMBEDS, batch, spec.size)
        encoders = {
            roles.TEXT: Signature(input_of(spec.text).ports(spec.text, stacks.TOKENS), (texts,)),
            roles.VISION: Signature(pixels, (image, boxes)),
        }
        if contract.hub:
            inputs = (*input_of(spec.text).ports(spec.text, (TEXTS, names.SEQUENCE_LENGTH)), *pixels)
            vectors = floats(names.TEXT_EMBEDS, batch, QUERIES, spec.size)
            outputs = floats(names.LOGITS, batch, count, QUERIES), boxes, vectors, image
            return {roles.MODEL: Signature(inputs, outputs), **encoders}
        compared = floats(names.TEXT_EMBEDS, TEXTS, spec.size), image
        scores = floats(names.LOGITS, batch, count, TEXTS)
        return {**encoders, roles.SIMILARITY: Signature(compared, (scores,))}

    def layer_ports(
        self, spec: OpenVocabularySpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("OpenVocabularySpec: no graph returns the outputs of its layers")

    def stages(self, spec: OpenVocabularySpec, contract: Contract) -> list[Stage]:
        """Both encoders and the comparison, or one graph of all."""
        return stages_of(spec.text, spec.vision, self.signatures(spec, contract))

    def limits(self, spec: OpenVocabularySpec) -> dict[str, int | None]:
        """The longest text."""
        return {"text": spec.text.limit}

    def parameters(self, spec: OpenVocabularySpec) -> Shapes:
        """Both encoders, the text's projection, the norm and layers of objects, and the comparison."""
        width = spec.vision.hidden_size
        shapes = under("text", stacks.parameters(spec.text)) | under("vision", stacks.parameters(spec.vision))
        shapes |= under("text_projection", linear(spec.text.hidden_size, spec.size, False))
        shapes |= under("objects.norm", norm(spec.norm))
        for number, size in enumerate((width, width, 4)):
            shapes |= under(f"objects.box.{number}", linear(width, size, True))
        for part, size in (("project", spec.size), ("shift", 1), ("scale", 1)):
            shapes |= under(f"descriptions.{part}", linear(width, size, True))
        return shapes

    def shared(self, spec: OpenVocabularySpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: OpenVocabularySpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: OpenVocabularySpec, stack: str) -> tuple[Readout, ...]:
        """The projection of texts; boxes, and the comparison of every patch with one text."""
        if stack == names.TEXT:
            return (Readout("text_projection", f"{spec.size:,} numbers"),)
        rows, columns = spec.grid
        # Matrices are counted with every vector, and the class token's meets none.
        width = spec.vision.hidden_size
        boxes, scores = width * (2 * width + 4), width * (spec.size + 2)
        products = rows * columns * spec.size
        return (
            Readout("objects", f"{rows * columns:,} boxes", every=True, operations=-2 * boxes),
            Readout("descriptions", "of patches", every=True, operations=2 * (products - scores)),
        )

    def vector_output(self, spec: OpenVocabularySpec) -> None:
        """None."""

    def cases(self, spec: OpenVocabularySpec, view: View) -> Iterator[DescribedCase]:
        """Ragged texts, padded on the right, with one, two and three images; none begins with padding."""
        random = np.random.default_rng(0)
        vocab_size, longest = spec.text.embedding.vocab_size, view.longest(spec.text)
        for name, lengths, images in [
            ("one text in one image", [5], 1),
            ("three ragged texts in two images", [5, 9, 2], 2),
            ("longest and short text in three images", [longest, 3], 3),
        ]:
            lengths = [min(length, longest) for length in lengths]
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = np.where(mask, random.integers(1, vocab_size - 1, mask.shape), vocab_size - 1)
            ids[np.arange(len(lengths)), np.array(lengths) - 1] = vocab_size - 1
            pixels = np.stack(input_of(spec.vision).rows(spec.vision, random, [1] * images))
            yield DescribedCase(name, ids, mask.astype(np.int64), pixels)

    def text_case(self, spec: OpenVocabularySpec, batch: EncoderCase) -> DescribedCase:
        """The batch of texts with two images; the original takes a text that begins with 0 for padding."""
        pixels = np.stack(input_of(spec.vision).rows(spec.vision, np.random.default_rng(0), [1, 1]))
        ids = batch.input_ids.copy()
        ids[:, 0] = np.maximum(ids[:, 0], 1)
        return DescribedCase(batch.name, ids, batch.attention_mask, pixels)


ARCHITECTURE = OpenVocabulary()
