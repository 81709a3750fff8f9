"""Segmentation by prompts: an image encoder, and a decoder of masks (Kirillov et al. 2023)."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.contracts.names import ABSENT, CORNERS, NO_POINT
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures._mask_decoder import mask_decoder, mask_prompt, of_one, operations
from txexport.parts.architectures._necks import neck
from txexport.parts.architectures._necks import operations as of_neck
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import PromptCase
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, Skipped, View
from txexport.spec import MapNeckSpec, PromptableSpec
from txexport.spec.shapes import Shapes, under

MASKED = "two images, points and a mask each"


class Promptable:
    """A graph of the image encoder, which runs once, and one of the mask decoder."""

    spec = PromptableSpec

    def roles(self, spec: PromptableSpec) -> tuple[str, ...]:
        """The image encoder, and the decoder of masks."""
        return roles.IMAGE_ENCODER, roles.MASK_DECODER

    def signatures(self, spec: PromptableSpec, contract: Contract) -> dict[str, Signature]:
        """Places of an image; points with labels, and boxes beside several maps; scores and masks.

        Other clients' graph leaves the mask for unambiguous prompts out, and takes no masks. Without boxes,
        it adds a point that is none.
        """
        check_no_cache(spec, contract)
        image, groups = _image(spec), (names.BATCH_SIZE, names.POINT_BATCH_SIZE)
        points: tuple[Port, ...] = (
            floats(names.INPUT_POINTS, *groups, names.NUM_POINTS, 2),
            ints(names.INPUT_LABELS, *groups, names.NUM_POINTS),
        )
        if spec.decoder.object_score:
            groups = names.BATCH_SIZE, names.LABEL_BATCH_SIZE
            labels = ints(names.INPUT_LABELS, *groups, names.NUM_POINTS)
            points = points[0], labels, floats(names.INPUT_BOXES, names.BATCH_SIZE, names.NUM_BOXES, 4)
        masks, (rows, columns) = spec.decoder.masks - contract.hub, spec.grid
        if spec.mask_prompt is not None and not contract.hub:
            every = names.BATCH_SIZE, names.MASK_BATCH_SIZE
            dense = floats(names.INPUT_MASKS, *every, 4 * rows, 4 * columns), ints(names.HAS_MASKS, *every)
            points = *points, *dense
        outputs: tuple[Port, ...] = (
            floats(names.IOU_SCORES, *groups, masks),
            floats(names.PRED_MASKS, *groups, masks, 4 * rows, 4 * columns),
        )
        if spec.decoder.object_score:
            outputs = *outputs, floats(names.OBJECT_SCORES, *groups, 1)
        pixels = input_of(spec.vision).ports(spec.vision, (names.BATCH_SIZE,))
        return {
            roles.IMAGE_ENCODER: Signature(pixels, image),
            roles.MASK_DECODER: Signature((*image, *points), outputs),
        }

    def layer_ports(
        self, spec: PromptableSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("PromptableSpec: no graph returns the outputs of its layers")

    def stages(self, spec: PromptableSpec, contract: Contract) -> list[Stage]:
        """The encoder, then the decoder, which reads its outputs and the prompts."""
        graphs = self.signatures(spec, contract)
        image = {port.name: f"{roles.IMAGE_ENCODER}.{port.name}" for port in _image(spec)}
        return [
            Stage(role, ONCE, sources_of(one.inputs, image), GraphFacts()) for role, one in graphs.items()
        ]

    def limits(self, spec: PromptableSpec) -> dict[str, int | None]:
        """No limit: nothing reads a sequence."""
        return {"vision": spec.vision.limit}

    def parameters(self, spec: PromptableSpec) -> Shapes:
        """The encoder and its neck, the frequencies, the vectors of labels, and the mask decoder."""
        size = 2 * spec.frequencies
        shapes = under("vision", stacks.parameters(spec.vision)) | under("neck", neck(spec.neck))
        shapes["frequencies.weight"] = (2, spec.frequencies)
        for label in range(CORNERS[1] + 1):
            shapes[f"prompts.labels.{label}.weight"] = (1, size)
        shapes["prompts.none.weight"] = (1, size)
        if spec.mask_prompt is not None:
            shapes |= under("mask_prompt", mask_prompt(spec.mask_prompt, size))
        return shapes | under("decoder", mask_decoder(spec.decoder))

    def shared(self, spec: PromptableSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: PromptableSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: PromptableSpec, stack: str) -> tuple[Readout, ...]:
        """The neck, the encoding of prompts, and the mask decoder, for one group of one point."""
        (rows, columns), width = spec.grid, spec.neck.size
        cells = [math.prod(grid) for grid in spec.vision.grids(spec.vision.embedding.grid)]
        note = f"{spec.decoder.masks} masks of {4 * rows} x {4 * columns}"
        decoder = operations(spec.decoder, rows * columns) - of_one(spec.decoder)
        masked = [] if spec.mask_prompt is None else [Readout("mask_prompt", "of no mask")]
        return (
            Readout("neck", f"{width:,} numbers a place", operations=of_neck(spec.neck, cells)),
            Readout("frequencies"),
            Readout("prompts"),
            *masked,
            Readout("decoder", note, operations=decoder),
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
            skipped = view.hub and not spec.decoder.object_score
            yield Skipped(case.name, "graphs for other clients take points alone") if skipped else case
        if spec.mask_prompt is not None:
            rows, columns = spec.grid
            logits = random.standard_normal((2, 1, 4 * rows, 4 * columns), np.float32) * 8
            case = PromptCase(MASKED, images, points(2, 1, 2), labels.repeat(2, axis=2), input_masks=logits)
            yield Skipped(case.name, "graphs for other clients take no masks") if view.hub else case

    def text_case(self, spec: PromptableSpec, batch: object) -> object:
        """None reads texts."""
        raise SpecError("PromptableSpec: no graph reads texts")


def _image(spec: PromptableSpec) -> tuple[Port, ...]:
    """The places of an image: their vectors and positions, or several maps, the finest first."""
    batch, width = names.BATCH_SIZE, spec.neck.size
    if isinstance(spec.neck, MapNeckSpec):
        grids = spec.vision.grids(spec.vision.embedding.grid)
        maps = zip(names.IMAGE_MAPS, (*spec.neck.narrow, width), grids, strict=False)
        return tuple(floats(name, batch, size, *grid) for name, size, grid in maps)
    return tuple(
        floats(name, batch, width, *spec.grid) for name in (names.IMAGE_EMBEDDINGS, names.IMAGE_POSITIONS)
    )


ARCHITECTURE = Promptable()
