"""A decoder some of whose layers attend to images: a graph of images, and one of steps."""

from functools import partial

from txexport.contracts import cache_names, names, roles
from txexport.spec import Cache, CrossVisionLanguageSpec, SourceAttentionSpec
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values, named, past_of, present_of
from txgraphs.attention import cross_key_value
from txgraphs.decoder_stack import decoder
from txgraphs.heads.causal_lm import causal_lm_head
from txgraphs.image_mask import image_mask
from txgraphs.linear import linear
from txgraphs.position import positions
from txgraphs.stack import Given, embedded
from txgraphs.tiled_stack import tiled_encoder


def cross_vision_language_models(
    spec: CrossVisionLanguageSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """The twin of txmodels' CrossVisionLanguageModel."""
    graphs = {}
    for role, signature in signatures.items():
        graph = graphs[role] = new(role)
        inputs = graph.declare(signature)
        if role == roles.IMAGE_ENCODER:
            _images(spec, graph, inputs)
        else:
            _decode(spec, cache, graph, inputs)
    return graphs


def _images(spec: CrossVisionLanguageSpec, graph: Graph, inputs: Values) -> None:
    """pixel_values (I,T,channels,side,side), ids (I), mask (I,T) -> image_features (I,N,W).

    With their keys and values (I,K,N,H) for each layer that attends to them.
    """
    x = tiled_encoder(spec.vision, graph, inputs, "vision")
    features = linear(True, graph / "projector", x)  # (I, N, W)
    graph.add_outputs({names.IMAGE_FEATURES: features})
    for layer, block in enumerate(spec.decoder.layers):
        if isinstance(block.attention, SourceAttentionSpec):
            pair = cross_key_value(block.attention.attention, graph / f"cross.{layer}", features)
            graph.add_outputs(named(cache_names.present(layer, cache_names.ENCODER), pair))


def _decode(spec: CrossVisionLanguageSpec, cache: Cache, graph: Graph, inputs: Values) -> None:
    """Token ids (B,S), image_spans (B,I,3), keys and values of images -> logits (B,L,V), present."""
    past, picks = past_of(spec.decoder, inputs), inputs.get(names.LOGITS_INDICES)
    if names.CACHE_LENGTHS in inputs:
        lengths = inputs[names.CACHE_LENGTHS]
        position_ids = graph.call(positions, inputs[names.INPUT_IDS], lengths, name="position_ids")  # (B, S)
    else:
        position_ids = inputs[names.POSITION_IDS]
    k, _ = cache_names.past(spec.crossed[0], cache_names.ENCODER)
    embedding = spec.vision.embedding
    seen = image_mask(embedding.tiles, embedding.vectors_of_tile)
    mask, sees = graph.call(seen, inputs[names.IMAGE_SPANS], position_ids, inputs[k], name="images")
    inputs = {**inputs, names.IMAGE_MASK: mask, names.SEES_IMAGES: sees}
    embed = partial(embedded, spec.decoder, graph, "decoder", inputs)
    x, present = decoder(spec.decoder, cache, graph, inputs, past, None, Given(), embed, picks)
    graph.add_outputs({names.LOGITS: causal_lm_head(spec.head, graph / "head", x, None, None)})
    graph.add_outputs(present_of(spec.decoder, present))
