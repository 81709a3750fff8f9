"""An image encoder, and a decoder of masks for prompts."""

from dataclasses import replace
from functools import cache as cached

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names, roles
from txexport.contracts.names import CORNERS, NO_POINT
from txexport.spec import Cache, MapNeckSpec, PromptableSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values
from txgraphs.map_neck import map_neck
from txgraphs.mask_decoder import mask_decoder
from txgraphs.mask_prompt import mask_prompt
from txgraphs.neck import neck
from txgraphs.prompts import frequencies, prompts
from txgraphs.stack import Given
from txgraphs.staged_stack import staged_encoder

MARKS = [*CORNERS, NO_POINT]  # the labels of a box


def promptable_models(
    spec: PromptableSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """Graphs of the image encoder and of the mask decoder; the twin of txmodels' PromptableModel.

    Where the decoder has one mask fewer, it is that of other clients: the mask for unambiguous prompts is
    left out, and a point that is none is added to the points, as a decoder that reads boxes always does.
    """
    vision, decoder = new(roles.IMAGE_ENCODER), new(roles.MASK_DECODER)
    inputs = vision.declare(signatures[roles.IMAGE_ENCODER])
    vision.add_outputs(_places(spec, vision, inputs[names.PIXEL_VALUES]))
    signature = signatures[roles.MASK_DECODER]
    all_masks = signature.outputs[0].shape[-1] == spec.decoder.masks
    decoder.add_outputs(_masks(spec, decoder, decoder.declare(signature), all_masks))
    return {roles.IMAGE_ENCODER: vision, roles.MASK_DECODER: decoder}


def _places(spec: PromptableSpec, graph: Graph, pixel_values: ir.Value) -> Values:
    """pixel_values (B,channels,height,width) -> vectors of places and positions (B,W,R,C), or maps."""
    layers = Given(maps={})
    staged_encoder(spec.vision, graph, pixel_values, layers, "vision")
    assert layers.maps is not None
    if isinstance(spec.neck, MapNeckSpec):
        maps = map_neck(spec.neck, graph / "neck", **layers.maps)
        return dict(zip(names.IMAGE_MAPS, maps, strict=True))
    vectors = _positions(spec, graph)
    return {
        names.IMAGE_EMBEDDINGS: neck(spec.neck, graph / "neck", layers.maps["0"]),
        names.IMAGE_POSITIONS: graph.call(of_every_image, vectors, pixel_values),
    }


def _positions(spec: PromptableSpec, graph: Graph) -> ir.Value:
    """The vectors of the positions of places (R,C,W)."""
    coordinates = graph.call(grid_coordinates(spec.grid, graph.dtype), name="coordinates")
    vectors: ir.Value = frequencies(graph / "frequencies", coordinates)
    return vectors


def _masks(spec: PromptableSpec, graph: Graph, inputs: Values, all_masks: bool) -> Values:
    """Places of an image, and points with labels -> iou_scores and pred_masks, and maybe objects' logits."""
    points, labels = inputs[names.INPUT_POINTS], inputs[names.INPUT_LABELS]
    decoder, image = spec.decoder, [inputs[name] for name in _image(spec)]
    if decoder.object_score:
        points, labels = graph.call(with_boxes, points, labels, inputs[names.INPUT_BOXES])
    elif not all_masks:
        points, labels = graph.call(with_no_point, points, labels)
    _, height, width = spec.vision.embedding.shape
    relative = graph.call(relative_points((height, width)), points)
    vectors = prompts(graph / "prompts", frequencies(graph / "frequencies", relative), labels)
    dense = {}
    if spec.mask_prompt is not None and all_masks:
        dense["dense"] = mask_prompt(spec.mask_prompt, graph / "mask_prompt", inputs[names.INPUT_MASKS])
        dense["has_masks"] = inputs[names.HAS_MASKS]
    if decoder.object_score:
        finest, finer, features = image
        decoder = decoder if all_masks else replace(decoder, stability=None)  # the first mask is left out
        positions = graph.call(of_every_image, _positions(spec, graph), features)
        outputs = mask_decoder(
            decoder, graph / "decoder", features, positions, vectors, finer=finer, finest=finest, **dense
        )
    else:
        outputs = mask_decoder(decoder, graph / "decoder", *image, vectors, **dense)
    masks, scores, *objects = outputs
    if not all_masks:
        masks, scores = (graph.call(without_first, part) for part in (masks, scores))
    result = {names.IOU_SCORES: scores, names.PRED_MASKS: masks}
    return result | dict(zip((names.OBJECT_SCORES,), objects, strict=False))


def _image(spec: PromptableSpec) -> tuple[str, ...]:
    """The names of what the image encoder returns."""
    plain = names.IMAGE_EMBEDDINGS, names.IMAGE_POSITIONS
    return names.IMAGE_MAPS if isinstance(spec.neck, MapNeckSpec) else plain


@cached
def grid_coordinates(grid: tuple[int, int], dtype: ir.DataType) -> OnnxFunction:
    """The centres (R,C,2) of places, x and y from 0 to 1."""
    rows, columns = grid
    numbers = [
        number
        for row in range(rows)
        for column in range(columns)
        for number in ((column + 0.5) / columns, (row + 0.5) / rows)
    ]
    shape = [rows, columns, 2]

    @script(domain, default_opset=op)
    def grid_coordinates():
        coordinates = op.Reshape(op.Constant(value_floats=numbers), op.Constant(value_ints=shape))
        return coordinates

    return grid_coordinates


@script(domain, default_opset=op)
def of_every_image(vectors, pixel_values):
    """vectors (R,C,W), pixel_values (B,...) -> (B,W,R,C)."""
    channels = op.Transpose(vectors, perm=[2, 0, 1])
    shape = op.Concat(op.Shape(pixel_values, end=1), op.Shape(channels), axis=0)
    y = op.Expand(channels, shape)
    return y


@cached
def relative_points(image_size: tuple[int, int]) -> OnnxFunction:
    """input_points (B,P,N,2) in pixels -> the same of their centres, from 0 to 1."""
    sides = [float(image_size[1]), float(image_size[0])]

    @script(domain, default_opset=op)
    def relative_points(input_points):
        y = (input_points + op.Constant(value_float=0.5)) / op.Constant(value_floats=sides)
        return y

    return relative_points


@script(domain, default_opset=op)
def with_no_point(input_points, input_labels):
    """input_points (B,P,N,2), input_labels (B,P,N) -> the same with a last point that is none."""
    one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
    groups = op.Concat(op.Shape(input_labels, end=2), one, axis=0)
    mark = op.Expand(op.CastLike(op.Constant(value_int=NO_POINT), input_labels), groups)
    zeros = op.Expand(op.CastLike(op.Constant(value_float=0.0), input_points), op.Concat(groups, two, axis=0))
    points = op.Concat(input_points, zeros, axis=2)
    labels = op.Concat(input_labels, mark, axis=2)
    return points, labels


@script(domain, default_opset=op)
def with_boxes(points, labels, boxes):
    """Points and labels, with the corners of boxes, and a last point that is none.

    points (B,P,N,2), or (B,1,0,2), labels (B,P,N), boxes (B,P,4) or (B,0,4) -> (B,P,T,2), (B,P,T).
    """
    one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
    groups = op.Shape(labels, end=2)
    corners = op.Min(op.Shape(boxes, start=1, end=2), one) * two
    placed = op.Expand(points, op.Concat(groups, op.Shape(labels, start=2), two, axis=0))
    zeros = op.Expand(op.CastLike(op.Constant(value_float=0.0), points), op.Concat(groups, one, two, axis=0))
    marks = op.Slice(op.Constant(value_ints=MARKS), two - corners, op.Constant(value_ints=[3]))
    each = op.Expand(op.CastLike(marks, labels), op.Concat(groups, corners + one, axis=0))
    ends = op.Reshape(boxes, op.Concat(groups, corners, two, axis=0), allowzero=1)  # (B, P, 2, 2)
    together = op.Concat(placed, ends, zeros, axis=2)
    return together, op.Concat(labels, each, axis=2)


@script(domain, default_opset=op)
def without_first(x):
    """x (B,P,M,...) -> the same without the first of M."""
    one, last = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
    y = op.Slice(x, one, op.Shape(x, start=2, end=3), last)
    return y
