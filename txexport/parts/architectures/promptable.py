"""Segmentation by prompts: an image encoder, and a decoder of masks (Kirillov et al. 2023)."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.contracts.names import ABSENT, CORNERS, NO_POINT
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import PromptCase
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, Skipped, View
from txexport.spec import MaskDecoderSpec, NeckSpec, PromptableSpec, TwoWaySpec
from txexport.spec.layer import FeedForwardSpec
from txexport.spec.parameters import dense_feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under

POINTS: tuple[int | str, ...] = (names.BATCH_SIZE, names.POINT_BATCH_SIZE, names.NUM_POINTS)


class Promptable:
    """A graph of the image encoder, which runs once, and one of the mask decoder."""

    spec = PromptableSpec

    def roles(self, spec: PromptableSpec) -> tuple[str, ...]:
        """The image encoder, and the decoder of masks."""
        return roles.IMAGE_ENCODER, roles.MASK_DECODER

    def signatures(self, spec: PromptableSpec, contract: Contract) -> dict[str, Signature]:
        """Places of an image; points with labels; scores and masks.

        Other clients' graph adds a point that is none, and leaves the mask for unambiguous prompts out.
        """
        check_no_cache(spec, contract)
        batch, width = names.BATCH_SIZE, spec.neck.size
        rows, columns = spec.vision.embedding.grid
        image = tuple(
            floats(name, batch, width, rows, columns)
            for name in (names.IMAGE_EMBEDDINGS, names.IMAGE_POSITIONS)
        )
        inputs = (*image, floats(names.INPUT_POINTS, *POINTS, 2), ints(names.INPUT_LABELS, *POINTS))
        masks = spec.decoder.masks - contract.hub
        outputs = (
            floats(names.IOU_SCORES, *POINTS[:2], masks),
            floats(names.PRED_MASKS, *POINTS[:2], masks, 4 * rows, 4 * columns),
        )
        pixels = input_of(spec.vision).ports(spec.vision, (batch,))
        return {
            roles.IMAGE_ENCODER: Signature(pixels, image),
            roles.MASK_DECODER: Signature(inputs, outputs),
        }

    def layer_ports(
        self, spec: PromptableSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("PromptableSpec: no graph returns the outputs of its layers")

    def stages(self, spec: PromptableSpec, contract: Contract) -> list[Stage]:
        """The encoder, then the decoder, which reads its outputs and the prompts."""
        graphs = self.signatures(spec, contract)
        image = {
            name: f"{roles.IMAGE_ENCODER}.{name}" for name in (names.IMAGE_EMBEDDINGS, names.IMAGE_POSITIONS)
        }
        return [
            Stage(role, ONCE, sources_of(one.inputs, image), GraphFacts()) for role, one in graphs.items()
        ]

    def limits(self, spec: PromptableSpec) -> dict[str, int | None]:
        """No limit: nothing reads a sequence."""
        return {"vision": spec.vision.limit}

    def parameters(self, spec: PromptableSpec) -> Shapes:
        """The encoder and its neck, the frequencies, the vectors of labels, and the mask decoder."""
        size = 2 * spec.frequencies
        shapes = under("vision", stacks.parameters(spec.vision)) | under("neck", _neck(spec.neck))
        shapes["frequencies.weight"] = (2, spec.frequencies)
        for label in range(CORNERS[1] + 1):
            shapes[f"prompts.labels.{label}.weight"] = (1, size)
        shapes["prompts.none.weight"] = (1, size)
        return shapes | under("decoder", _mask_decoder(spec.decoder))

    def shared(self, spec: PromptableSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: PromptableSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: PromptableSpec, stack: str) -> tuple[Readout, ...]:
        """The neck, the encoding of prompts, and the mask decoder, for one group of one point."""
        rows, columns = spec.vision.embedding.grid
        cells, width = rows * columns, spec.neck.size
        neck = 2 * cells * (spec.neck.hidden_size * width + 9 * width**2)
        note = f"{spec.decoder.masks} masks of {4 * rows} x {4 * columns}"
        return (
            Readout("neck", f"{width:,} numbers a place", operations=neck),
            Readout("frequencies"),
            Readout("prompts"),
            Readout("decoder", note, operations=operations(spec.decoder, cells) - _of_one(spec.decoder)),
        )

    def vector_output(self, spec: PromptableSpec) -> None:
        """None."""
        return None

    def cases(self, spec: PromptableSpec, view: View) -> Iterator[PromptCase | Skipped]:
        """Images with points inside and outside of objects, points that are none, padding, and boxes."""
        random, shape = np.random.default_rng(0), spec.vision.embedding.shape
        _, height, width = shape

        def points(*counts: int) -> np.ndarray:
            return (random.random((*counts, 2)) * [width, height]).astype(np.float32)

        def boxes(*counts: int) -> np.ndarray:
            return np.sort(points(*counts, 2), axis=2).reshape(*counts, 4)

        images = random.standard_normal((2, *shape), np.float32)
        yield PromptCase("one point", images[:1], points(1, 1, 1), np.array([[[1]]]))
        labels = np.array([[[1, 0], [1, ABSENT], [0, NO_POINT]], [[1, 1], [NO_POINT, ABSENT], [0, 0]]])
        yield PromptCase("two images, three groups of points each", images, points(2, 3, 2), labels)
        yield PromptCase(
            "an image of zeros, points beyond it",
            np.zeros((1, *shape), np.float32),
            points(1, 2, 3) * 3 - width,
            np.ones((1, 2, 3), np.int64),
        )
        none = np.zeros((1, 2, 0, 2), np.float32), np.zeros((1, 2, 0), np.int64)
        labels = np.array([[[1]], [[0]]])
        for case in (
            PromptCase("two boxes", images[1:], *none, boxes(1, 2)),
            PromptCase("two images, a point and a box each", images, points(2, 1, 1), labels, boxes(2, 1)),
        ):
            yield Skipped(case.name, "graphs for other clients take points alone") if view.hub else case

    def text_case(self, spec: PromptableSpec, batch: object) -> object:
        """None reads texts."""
        raise SpecError("PromptableSpec: no graph reads texts")


def operations(decoder: MaskDecoderSpec, cells: int) -> int:
    """The operations of the mask decoder for one group of one point and one that is none."""
    spec, tokens = decoder.layers, decoder.masks + 3
    width, inner = spec.hidden_size, spec.hidden_size // spec.reduction
    of_self = 4 * tokens * width**2 + 2 * tokens**2 * width
    of_network = 2 * tokens * width * spec.intermediate_size
    crossed = 2 * (tokens + cells) * width * inner + 2 * tokens * cells * inner
    layers = spec.num_layers * (of_self + of_network + 2 * crossed) + crossed
    doubled = cells * width * width + 4 * cells * (width // 4) * (width // 2)
    vectors = decoder.masks * (2 * width**2 + width * (width // 8))
    products = decoder.masks * (width // 8) * 16 * cells
    return 2 * (layers + doubled + vectors + products + _scores(decoder))


def _of_one(decoder: MaskDecoderSpec) -> int:
    """Twice the number of weights of the decoder's matrices."""
    shapes = _mask_decoder(decoder).values()
    return 2 * sum(int(np.prod(shape)) for shape in shapes if len(shape) == 2)


def _scores(decoder: MaskDecoderSpec) -> int:
    """The products of the dense layers that give the scores."""
    sizes = [decoder.layers.hidden_size, *[decoder.score_size] * (decoder.score_layers - 1), decoder.masks]
    return sum(inner * outer for inner, outer in pairwise(sizes))


def _neck(spec: NeckSpec) -> Shapes:
    """The projection and the convolution, each with its norm."""
    return {
        "project.weight": (spec.size, spec.hidden_size, 1, 1),
        **under("project_norm", norm(spec.norm)),
        "convolve.weight": (spec.size, spec.size, 3, 3),
        **under("convolve_norm", norm(spec.norm)),
    }


def _mask_decoder(spec: MaskDecoderSpec) -> Shapes:
    """The decoder's own vectors, its layers, both doublings, and the networks of masks and scores."""
    width = spec.layers.hidden_size
    shapes: Shapes = {
        "no_mask.weight": (1, width),
        "score_token.weight": (1, width),
        "mask_tokens.weight": (spec.masks, width),
        **under("layers", _two_way(spec.layers)),
        "upscale.weight": (width, width // 4, 2, 2),
        "upscale.bias": (width // 4,),
        **under("upscale_norm", norm(spec.norm)),
        "upscale_again.weight": (width // 4, width // 8, 2, 2),
        "upscale_again.bias": (width // 8,),
    }
    for mask in range(spec.masks):
        for layer in range(3):
            shapes |= under(
                f"vectors.{mask}.{layer}", linear(width, width // 8 if layer == 2 else width, True)
            )
    sizes = [width, *[spec.score_size] * (spec.score_layers - 1), spec.masks]
    for layer, (inner, outer) in enumerate(pairwise(sizes)):
        shapes |= under(f"score.{layer}", linear(inner, outer, True))
    return shapes


def _two_way(spec: TwoWaySpec) -> Shapes:
    """Every layer, the last attention, and the final norm."""
    network = FeedForwardSpec(spec.hidden_size, spec.intermediate_size, spec.activation)
    shapes: Shapes = {}
    for layer in range(spec.num_layers):
        parts = {
            "self_attention": _narrow(spec, 1),
            "to_image": _narrow(spec, spec.reduction),
            "feed_forward": dense_feed_forward(network),
            "to_prompts": _narrow(spec, spec.reduction),
        }
        for name, part in parts.items():
            shapes |= under(f"layers.{layer}.{name}", part)
            shapes |= under(f"layers.{layer}.{name}_norm", norm(spec.norm))
    return (
        shapes | under("to_image", _narrow(spec, spec.reduction)) | under("final_norm", norm(spec.final_norm))
    )


def _narrow(spec: TwoWaySpec, reduction: int) -> Shapes:
    """Query, key, value and output projections."""
    width = spec.hidden_size
    inner, shapes = width // reduction, Shapes()
    for name in ("q", "k", "v"):
        shapes |= under(name, linear(width, inner, True))
    return shapes | under("o", linear(inner, width, True))


ARCHITECTURE = Promptable()
