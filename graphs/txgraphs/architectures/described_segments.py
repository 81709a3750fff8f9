"""The parts of images that texts describe (Lüddecke and Ecker 2022, 3.1)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names, roles
from txexport.spec import Cache, DescribedSegmentsSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values, layers_of
from txgraphs.block import encoder_block
from txgraphs.encoder_stack import encoder, signal_encoder
from txgraphs.feature_fusion import AROUND, convolution
from txgraphs.heads.pick import pick
from txgraphs.linear import linear
from txgraphs.stack import Given


@component("image_embeds")
def narrow_states(spec: DescribedSegmentsSpec, g: Body, states: dict[str, ir.Value]) -> ir.Value:
    """The outputs of several layers of an image encoder, as wide as the decoder (Lüddecke 2022, 3.1).

    states (B,S,V), one for each layer of the decoder -> image_embeds (B,L,S,W).
    """
    op, axis = g.op, g.op.Constant(value_ints=[1])
    narrow = [linear(True, g / f"projects.{number}", state) for number, state in enumerate(states.values())]
    return op.Concat(*(op.Unsqueeze(one, axis) for one in narrow), axis=1)


@component("y")
def film(spec: DescribedSegmentsSpec, g: Body, x: ir.Value, text_embeds: ir.Value) -> ir.Value:
    """Vectors of an image, scaled and shifted by projections of a text's vector (Perez et al. 2018, 2).

    x (N,S,W), text_embeds (N,D) -> y (N,S,W).
    """
    op = g.op
    text = op.Unsqueeze(text_embeds, op.Constant(value_ints=[1]), name="text")  # (N, 1, D)
    scale, shift = linear(True, g / "scale", text), linear(True, g / "shift", text)
    return op.Add(op.Mul(scale, x, name="scaled"), shift)


@component("logits")
def described_pixels(spec: DescribedSegmentsSpec, g: Body, x: ir.Value) -> ir.Value:
    """A logit for each pixel of a square of patches (Lüddecke and Ecker 2022, 3.1).

    x (N,S,W), the class token first -> logits (N,height,width).
    """
    op, (first, *others) = g.op, spec.strides
    grid = g.call(square, x)  # (N, W, R, R)
    if spec.refined:
        grid = op.Relu(convolution(g, "convolve", grid, pads=AROUND))
    pixels = _expanded(g, "expand", grid, first)
    for stride in others:
        pixels = _expanded(g, "expand_again", op.Relu(pixels), stride)
    return op.Squeeze(pixels, op.Constant(value_ints=[1]))  # (N, height, width)


def _expanded(g: Body, part: str, x: ir.Value, stride: int) -> ir.Value:
    """x (N,W,R,C) through the transposed convolution `part`: a square of that side for each place."""
    sides, weights = [stride, stride], (g.weight(f"{part}.weight"), g.weight(f"{part}.bias"))
    y: ir.Value = g.op.ConvTranspose(x, *weights, kernel_shape=sides, strides=sides, name=part)
    return y


@script(domain, default_opset=op)
def square(x):
    """x (N,1 + R * R,W) -> the map (N,W,R,R) of all vectors but the first."""
    one = op.Constant(value_ints=[1])
    patches = op.Transpose(op.Slice(x, one, op.Shape(x, start=1, end=2), one), perm=[0, 2, 1])
    count = op.Cast(op.Shape(patches, start=2), to=1)
    rows = op.Cast(op.Sqrt(count), to=7)
    y = op.Reshape(patches, op.Concat(op.Shape(patches, end=2), rows, rows, axis=0))
    return y


@component("logits")
def segment_decoder(
    spec: DescribedSegmentsSpec, g: Body, image_embeds: ir.Value, text_embeds: ir.Value
) -> ir.Value:
    """Logits of the pixels of an image that a text describes (Lüddecke and Ecker 2022, 3.1).

    image_embeds (N,L,S,W), text_embeds (N,D) -> logits (N,height,width).
    """
    op, x = g.op, None
    for number in range(len(spec.layers)):
        state = op.Gather(image_embeds, op.Constant(value_int=number), axis=1)  # (N, S, W)
        x = state if x is None else op.Add(x, state)
        if number == spec.conditioned:
            x = film(spec, g / "film", x, text_embeds)
        (x,) = encoder_block(spec.block, False, g / f"layers.{number}", x, mask=None, cos=None, sin=None)
    return described_pixels(spec, g / "pixels", x)


@script(domain, default_opset=op)
def each_pair(image_embeds, text_embeds):
    """image_embeds (B,L,S,W), text_embeds (T,D) -> both of each pair: (B * T,L,S,W), (B * T,D)."""
    one, every = op.Constant(value_ints=[1]), op.Constant(value_ints=[-1])
    images, texts = op.Shape(image_embeds, end=1), op.Shape(text_embeds, end=1)
    layers, size = op.Shape(image_embeds, start=1), op.Shape(text_embeds, start=1)
    pairs = op.Concat(images, texts, layers, axis=0)
    repeated = op.Expand(op.Unsqueeze(image_embeds, one), pairs)  # (B, T, L, S, W)
    image = op.Reshape(repeated, op.Concat(every, layers, axis=0))
    tiled = op.Expand(
        op.Unsqueeze(text_embeds, op.Constant(value_ints=[0])), op.Concat(images, texts, size, axis=0)
    )
    text = op.Reshape(tiled, op.Concat(every, size, axis=0))
    return image, text


@script(domain, default_opset=op)
def by_image(logits, image_embeds, text_embeds):
    """logits (B * T,height,width), image_embeds (B,L,S,W), text_embeds (T,D) -> logits (B,T,height,width)."""
    images, texts = op.Shape(image_embeds, end=1), op.Shape(text_embeds, end=1)
    y = op.Reshape(logits, op.Concat(images, texts, op.Shape(logits, start=1), axis=0))
    return y


def described_segments_models(
    spec: DescribedSegmentsSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """Graphs of both encoders, and of the decoder or of all; twin of txmodels' DescribedSegmentsModel."""
    text, vision = new(roles.TEXT), new(roles.VISION)
    text.add_outputs({names.TEXT_EMBEDS: _text_embeds(spec, text, text.declare(signatures[roles.TEXT]))})
    inputs = vision.declare(signatures[roles.VISION])
    vision.add_outputs({names.IMAGE_EMBEDS: _image_embeds(spec, vision, inputs)})
    encoders = {roles.TEXT: text, roles.VISION: vision}
    role = roles.MODEL if roles.MODEL in signatures else roles.MASK_DECODER
    graph = new(role)
    inputs = graph.declare(signatures[role])
    if role == roles.MODEL:
        vectors = _image_embeds(spec, graph, inputs), _text_embeds(spec, graph, inputs)
        graph.add_outputs({names.LOGITS: segment_decoder(spec, graph / "decoder", *vectors)})
        return {role: graph, **encoders}
    vectors = inputs[names.IMAGE_EMBEDS], inputs[names.TEXT_EMBEDS]
    logits = segment_decoder(spec, graph / "decoder", *graph.call(each_pair, *vectors, name="pairs"))
    graph.add_outputs({names.LOGITS: graph.call(by_image, logits, *vectors, name="by_image")})
    return {**encoders, role: graph}


def _text_embeds(spec: DescribedSegmentsSpec, graph: Graph, inputs: Values) -> ir.Value:
    """input_ids and attention_mask (T,S) -> text_embeds (T,D)."""
    x = encoder(spec.text, graph, inputs, layers_of(spec, graph, spec.text, names.TEXT), "text")
    ids, mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    picked = graph.call(pick(spec.pick, spec.eos_token_id), x, ids, mask, name="text.pick")
    return linear(False, graph / "text_projection", picked)


def _image_embeds(spec: DescribedSegmentsSpec, graph: Graph, inputs: Values) -> ir.Value:
    """pixel_values (B,channels,height,width) -> image_embeds (B,L,S,W)."""
    layers = Given(states={})
    pixels = {names.PIXEL_VALUES: inputs[names.PIXEL_VALUES]}
    signal_encoder(spec.vision, graph, pixels, layers, "vision")
    assert layers.states is not None
    read = enumerate(reversed(spec.layers))
    states = {str(number): layers.states[str(layer + 1)] for number, layer in read}
    return narrow_states(spec, graph / "states", states)
