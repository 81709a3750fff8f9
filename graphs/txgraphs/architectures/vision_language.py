"""A decoder that reads images or sounds among its tokens: a graph of images, and one of steps."""

from functools import partial

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names, roles
from txexport.spec import Cache, Mutual, VisionLanguageSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values, past_of, present_of
from txgraphs.connector import connector
from txgraphs.decoder_stack import decoder
from txgraphs.encoder_stack import signal_encoder
from txgraphs.group_mask import first_step, image_groups
from txgraphs.heads.causal_lm import causal_lm_head
from txgraphs.mosaic import mosaic
from txgraphs.patch_merger import patch_merger
from txgraphs.real_vectors import real_vectors
from txgraphs.splice import spliced
from txgraphs.squares import squares
from txgraphs.stack import Given, embedded


def vision_language_models(
    spec: VisionLanguageSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """The twin of txmodels' VisionLanguageModel; for other clients, tokens have a graph of their own."""
    graphs = {}
    for role, signature in signatures.items():
        graph = graphs[role] = new(role)
        inputs = graph.declare(signature)
        if role in (roles.IMAGE_ENCODER, roles.GENAI_VISION):
            graph.add_outputs(_images(spec, graph, inputs))
        elif role == roles.AUDIO_ENCODER:
            graph.add_outputs(_sounds(spec, graph, inputs))
        elif role == roles.EMBED_TOKENS:
            x = embedded(spec.decoder, graph, "decoder", inputs, inputs[names.INPUT_IDS])  # no positions
            graph.add_outputs({names.INPUTS_EMBEDS: x})
        elif role == roles.EMBEDDING:
            graph.add_outputs({names.INPUTS_EMBEDS: _vectors(spec, graph, inputs)})
        else:
            _decode(spec, cache, graph, inputs)
    return graphs


def _sounds(spec: VisionLanguageSpec, graph: Graph, inputs: Values) -> Values:
    """input_features (I,bands,frames) -> audio_features (N,W), without those of padding if it has a mask.

    The mask is feature_attention_mask (I,frames).
    """
    x, mask = signal_encoder(spec.vision, graph, inputs, Given(), "vision")  # (I, S, W), (I, S)
    features = connector(spec.connector, graph / "connector", x)
    if mask is None:
        return {
            names.AUDIO_FEATURES: graph.op.Reshape(features, graph.constant("every", [-1, spec.features]))
        }
    real = real_vectors(spec.connector.consecutive)
    return {names.AUDIO_FEATURES: graph.call(real, features, mask, name="real")}  # (N, W)


def _images(spec: VisionLanguageSpec, graph: Graph, inputs: Values) -> Values:
    """pixel_values (I,channels,height,width) -> image_features (I,N,W).

    Of images of any size, patches (P,numbers) with grids (I,3) -> image_features (N,W); or of one in tiles,
    with tile_grid (1,6); or patches (I,P,numbers) with their mask (I,P) and spatial_shapes (I,2).
    For other clients, tiles (B,I,channels,height,width) with their pixels' mask (B,I,height,width).
    """
    if spec.masked_images:
        return {names.IMAGE_FEATURES: _of_any_shape(spec, graph, inputs)}
    mask, pixels = inputs.get(names.PIXEL_ATTENTION_MASK), inputs[names.PIXEL_VALUES]
    if mask is not None:
        pixels = graph.call(of_every_prompt, pixels)
    signals = {names.PIXEL_VALUES: pixels}
    if spec.vision.packed is not None:
        grids = spec.vision.packed.grids
        signals[grids] = inputs[grids if grids in inputs else names.IMAGE_GRIDS]
    states: dict[str, ir.Value] | None = {} if spec.deep else None
    x, _ = signal_encoder(spec.vision, graph, signals, Given(states=states), "vision")  # (I, S, W)
    if spec.merger is not None and spec.vision.patches is not None:
        x = patch_merger(spec.merger, spec.vision.patches.patch_size, graph / "merger", x, pixels)
    features: ir.Value = connector(spec.connector, graph / "connector", x)
    if spec.square:
        features = graph.op.Reshape(features, graph.constant("every", [-1, spec.features]))  # (N, W)
    if states is not None:
        parts = [
            connector(spec.deep_connector, graph / f"deep.{number}", states[str(layer + 1)])
            for number, layer in enumerate(spec.deep)
        ]
        features = graph.op.Concat(features, *parts, axis=-1)
    if spec.vision.packed is not None:
        features = graph.op.Squeeze(features, graph.constant("first_axis", [0]))  # (N, W)
    if spec.mosaic is not None:
        features = mosaic(spec.mosaic, graph / "mosaic", features, inputs[names.TILE_GRID])  # (N, W)
    if mask is not None:
        features = graph.call(without_padding, features, mask)
    return {names.IMAGE_FEATURES: features}


def _of_any_shape(spec: VisionLanguageSpec, graph: Graph, inputs: Values) -> ir.Value:
    """Patches (I,P,numbers), their mask (I,P), spatial_shapes (I,2) -> image_features (N,W)."""
    x, mask = signal_encoder(spec.vision, graph, inputs, Given(), "vision")  # (I, P, W)
    merged, shapes = spec.connector.merged, inputs[names.SPATIAL_SHAPES]
    x = graph.call(squares(merged), x, mask, shapes, name="squares")  # (1, all patches, W)
    features = connector(spec.connector, graph / "connector", x)  # (1, N, W)
    return graph.op.Squeeze(features, graph.constant("first_axis", [0]))


@script(domain, default_opset=op)
def of_every_prompt(pixels):
    """pixels (B,I,channels,height,width) -> (B*I,channels,height,width)."""
    y = op.Reshape(pixels, op.Concat(op.Constant(value_ints=[-1]), op.Shape(pixels, start=2), axis=0))
    return y


@script(domain, default_opset=op)
def within_tokens(positions, mask):
    """positions (A,B,S), mask (B,T) -> positions (A,B,S), each at most the number of tokens before it.

    Positions of texts with images are never larger. transformers.js passes larger ones to the steps after a
    prompt without images.
    """
    last = op.Constant(value_ints=[-1])
    counts = op.CumSum(mask, op.Constant(value_int=1)) - op.Constant(value_int=1)  # (B, T)
    start = op.Neg(op.Shape(positions, start=2))
    before = op.Slice(counts, start, op.Constant(value_ints=[2**62]), last)  # (B, S)
    y = op.Min(positions, before)
    return y


@script(domain, default_opset=op)
def without_padding(features, mask):
    """features (B*I,N,W), mask (B,I,height,width) -> those of tiles with a pixel."""
    count = op.Constant(value_ints=[-1])
    rows = op.Reshape(op.Cast(mask, to=7), op.Concat(op.Shape(features, end=1), count, axis=0))
    pixels = op.ReduceSum(rows, op.Constant(value_ints=[1]), keepdims=0)  # (B*I)
    real = op.Greater(pixels, op.Constant(value_int=0))
    y = op.Gather(features, op.Reshape(op.NonZero(real), count))
    return y


def _decode(spec: VisionLanguageSpec, cache: Cache, graph: Graph, inputs: Values) -> None:
    """Token ids (B,S) with image_features (N,W), or vectors in their place -> logits (B,L,V), present."""
    past = past_of(spec.decoder, inputs)
    if spec.deep:
        inputs = _with_deep(spec, graph, inputs)
    if spec.axes and names.INPUTS_EMBEDS in inputs:  # for other clients
        positions, mask = inputs[names.POSITION_IDS], inputs[names.ATTENTION_MASK]
        inputs = {**inputs, names.POSITION_IDS: graph.call(within_tokens, positions, mask, name="positions")}
    embed, picks = partial(_vectors, spec, graph, inputs), inputs.get(names.LOGITS_INDICES)
    groups = None
    if spec.mutual == Mutual.PREFIX and names.PREFIX_LENGTHS not in inputs:  # of other clients
        mask, new = inputs[names.ATTENTION_MASK], inputs[names.INPUTS_EMBEDS]
        prefix = graph.call(first_step, mask, new, name=names.PREFIX_LENGTHS)  # (B)
        inputs = {**inputs, names.PREFIX_LENGTHS: prefix}
    if spec.mutual == Mutual.IMAGE:
        ids = inputs[names.INPUT_IDS]
        groups = graph.call(image_groups(spec.image_token_id), ids, name="groups")  # (B, S)
    x, present = decoder(spec.decoder, cache, graph, inputs, past, None, Given(), embed, picks, groups)
    word = graph.matrix("decoder.embedding.word.weight") if spec.head.tied else None
    graph.add_outputs({names.LOGITS: causal_lm_head(spec.head, graph / "head", x, None, word)})
    graph.add_outputs(present_of(spec.decoder, present))


def _with_deep(spec: VisionLanguageSpec, graph: Graph, inputs: Values) -> Values:
    """The inputs with image_features of the decoder's width, and what is added behind each first layer."""
    ids, count, op = inputs[names.INPUT_IDS], 1 + len(spec.deep), graph.op
    sizes = graph.constant("features", [spec.decoder.hidden_size] * count)
    first, *deep = op.Split(inputs[names.IMAGE_FEATURES], sizes, axis=1, _outputs=count)
    zero = op.CastLike(op.Constant(value_float=0.0), first)
    width = graph.constant("width", [spec.decoder.hidden_size])
    zeros = op.Expand(zero, op.Concat(op.Shape(ids), width, axis=0))  # (B, S, W)
    replaced = spliced(spec.image_token_id, graph.captured)
    added = {
        f"{names.DEEP_FEATURES}.{layer}": graph.call(replaced, zeros, ids, one, name="behind")
        for layer, one in enumerate(deep)
    }
    return {**inputs, names.IMAGE_FEATURES: first, **added}


def _vectors(
    spec: VisionLanguageSpec, graph: Graph, inputs: Values, _positions: ir.Value | None = None
) -> ir.Value:
    """The vectors of new tokens (B,S,W), which have no positions, those of images among them."""
    if names.INPUTS_EMBEDS in inputs:
        return inputs[names.INPUTS_EMBEDS]
    ids = inputs[names.INPUT_IDS]
    x = embedded(spec.decoder, graph, "decoder", inputs, ids)
    features = inputs[names.media_features(inputs)]
    y: ir.Value = graph.call(spliced(spec.image_token_id, graph.captured), x, ids, features, name="spliced")
    return y
