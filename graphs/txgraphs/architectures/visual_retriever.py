"""Pages and queries as a vector for each token (Faysse et al. 2024, 4)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names, roles
from txexport.spec import Cache, VisualRetrieverSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values
from txgraphs.connector import connector
from txgraphs.encoder_stack import encoder, signal_encoder
from txgraphs.linear import linear
from txgraphs.splice import spliced
from txgraphs.stack import Given, embedded


def visual_retriever_models(
    spec: VisualRetrieverSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """A graph of images and one of tokens; the twin of txmodels' VisualRetrieverModel.

    For other clients, one graph reads both.
    """
    graphs = {}
    for role, signature in signatures.items():
        graph = graphs[role] = new(role)
        inputs = graph.declare(signature)
        if role == roles.IMAGE_ENCODER:
            graph.add_outputs({names.IMAGE_FEATURES: _images(spec, graph, inputs)})
            continue
        features = inputs.get(names.IMAGE_FEATURES)
        features = _images(spec, graph, inputs) if features is None else features
        graph.add_outputs({names.EMBEDDINGS: _vectors(spec, graph, inputs, features)})
    return graphs


def _images(spec: VisualRetrieverSpec, graph: Graph, inputs: Values) -> ir.Value:
    """pixel_values (I,channels,height,width) -> image_features (N,W), of all images.

    Of images of any size, patches (P,numbers) with grids (I,3).
    """
    signals = {names.PIXEL_VALUES: inputs[names.PIXEL_VALUES]}
    if spec.vision.packed is not None:
        signals[spec.vision.packed.grids] = inputs[spec.vision.packed.grids]
    x, _ = signal_encoder(spec.vision, graph, signals, Given(), "vision")  # (I, S, W)
    features = connector(spec.connector, graph / "connector", x)
    return graph.op.Reshape(features, graph.constant("every", [-1, spec.connector.size]))  # (N, W)


def _vectors(spec: VisualRetrieverSpec, graph: Graph, inputs: Values, features: ir.Value) -> ir.Value:
    """input_ids and attention_mask (B,S), image_features (N,W) -> embeddings (B,S,size)."""
    ids, mask = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    tokens = {names.INPUT_IDS: ids, names.ATTENTION_MASK: mask}
    x = embedded(spec.text, graph, "text", tokens, ids)  # (B, S, W), which have no positions
    x = graph.call(spliced(spec.image_token_id), x, ids, features, name="spliced")
    x = encoder(spec.text, graph, tokens | {names.INPUTS_EMBEDS: x}, Given(), "text")
    projected = linear(True, graph / "projection", x)  # (B, S, D)
    return graph.call(unit_unless_masked, projected, mask, name="unit")


@script(domain, default_opset=op)
def unit_unless_masked(x, attention_mask):
    """x (B,S,D), attention_mask (B,S) -> L2-normalised vectors (B,S,D), zeros where the mask is 0.

    Squares are added in float32: those of float16 overflow from 256 on.
    """
    wide = op.Cast(x, to=1)
    length = op.Sqrt(op.ReduceSum(wide * wide, op.Constant(value_ints=[-1]), keepdims=1))
    y = op.CastLike(wide / length, x)
    real = op.Unsqueeze(op.Cast(attention_mask, to=9), op.Constant(value_ints=[2]))  # (B, S, 1)
    y = op.Where(real, y, op.CastLike(op.Constant(value_float=0.0), y))
    return y
