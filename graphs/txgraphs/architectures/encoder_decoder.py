"""An encoder and a decoder that attends to it: two graphs, or one if the decoder does not generate."""

from dataclasses import replace
from functools import partial

import onnx_ir as ir

from txexport.contracts import cache_names, names, roles
from txexport.spec import Cache, EncoderDecoderSpec, SignalStackSpec, TextStackSpec
from txexport.spec.lengths import adapter_of
from txgraphs._graph import Graph
from txgraphs.architectures._model import (
    Build,
    Signatures,
    Values,
    add_layers,
    layers_of,
    named,
    pair_of,
    signal_states,
)
from txgraphs.attention import cross_key_value
from txgraphs.decoder_stack import KeyValues, decoder
from txgraphs.dual_attention import pictures
from txgraphs.encoder_stack import encoder
from txgraphs.heads import head_outputs
from txgraphs.heads.causal_lm import causal_lm_head
from txgraphs.linear import linear
from txgraphs.source_mask import source_mask
from txgraphs.stack import Given, embedded


def encoder_decoder_models(
    spec: EncoderDecoderSpec, cache: Cache, signatures: Signatures, new: Build
) -> dict[str, Graph]:
    """The twin of txmodels' EncoderDecoderModel: an encoder's graph, and one or several of a decoder."""
    if not signatures:
        return {}
    if not spec.generates:
        return {roles.MODEL: _one_graph(spec, signatures, new)}
    graphs = {}
    if spec.pictures is not None:
        graph = graphs[roles.IMAGE_ENCODER] = new(roles.IMAGE_ENCODER)
        pixels = graph.declare(signatures[roles.IMAGE_ENCODER])[names.PIXEL_VALUES]
        graph.add_outputs({names.IMAGE_FEATURES: pictures(spec.pictures, graph, pixels)})
    if spec.vision is not None:
        graphs[roles.IMAGE_ENCODER] = _images(spec, spec.vision, signatures, new)
    graphs[roles.ENCODER] = _encoder(spec, signatures, new)
    later = roles.DECODER
    if roles.DECODER_WITH_PAST in signatures:
        for role in (roles.DECODER, roles.DECODER_MERGED):
            graphs[role] = _hub_decoder(spec, role, signatures, new)
        later = roles.DECODER_WITH_PAST
    graphs[later] = _decoder(spec, cache, later, signatures, new)
    if roles.ALIGNMENT in signatures:
        graphs[roles.ALIGNMENT] = _alignment(spec, signatures, new)
    return graphs


def _images(spec: EncoderDecoderSpec, vision: SignalStackSpec, signatures: Signatures, new: Build) -> Graph:
    """Pixels (I,channels,height,width) -> the vectors (I,E,W) to which the encoder's tokens attend."""
    graph = new(roles.IMAGE_ENCODER)
    inputs = graph.declare(signatures[roles.IMAGE_ENCODER])
    x, _ = signal_states(vision, graph, inputs, layers_of(spec, graph, vision, names.VISION), names.VISION)
    graph.add_outputs({names.IMAGE_FEATURES: x})
    return graph


def _encoder(spec: EncoderDecoderSpec, signatures: Signatures, new: Build) -> Graph:
    """Tokens (B,S) or a signal -> hidden states, and the promised keys and values for the decoder."""
    graph = new(roles.ENCODER)
    inputs = graph.declare(signatures[roles.ENCODER])
    layers = layers_of(spec, graph, spec.encoder, names.ENCODER)
    if not isinstance(spec.encoder, TextStackSpec):
        x, mask = signal_states(spec.encoder, graph, inputs, layers)
    else:
        x, mask = encoder(spec.encoder, graph, inputs, layers, cross=_seen(spec, graph, inputs)), None
    graph.add_outputs({names.LAST_HIDDEN_STATE: x})
    if names.ENCODER_ATTENTION_MASK in graph.promised:
        if adapter_of(spec.encoder) is None:
            mask = source_mask(spec.counted, 1, graph, inputs[names.ATTENTION_MASK], x)  # (B, E)
        assert mask is not None
        graph.add_outputs({names.ENCODER_ATTENTION_MASK: mask})
    if any(map(cache_names.is_present, graph.promised)):
        for layer, pair in enumerate(_cross(spec, graph, x)):
            graph.add_outputs(named(cache_names.present(layer, cache_names.ENCODER), pair))
    add_layers(graph, layers)
    return graph


def _seen(spec: EncoderDecoderSpec, graph: Graph, inputs: Values) -> KeyValues:
    """Vectors (B,E,W) of images -> their keys and values (B,K,E,H) for each layer of the encoder, if any."""
    read = [block.cross_attention for block in spec.encoder.layers if block.cross_attention]
    return [
        cross_key_value(kind, graph / f"seen.{layer}", inputs[names.IMAGE_FEATURES])
        for layer, kind in enumerate(read)
    ]


def _one_graph(spec: EncoderDecoderSpec, signatures: Signatures, new: Build) -> Graph:
    """Tokens (B,S), which both stacks read -> the head's outputs for the decoder's hidden states."""
    graph = new(roles.MODEL)
    inputs = graph.declare(signatures[roles.MODEL])
    layers = layers_of(spec, graph, spec.encoder, names.ENCODER)
    assert isinstance(spec.encoder, TextStackSpec)
    x = encoder(spec.encoder, graph, inputs, layers)
    x, again = _read_again(spec, graph, x, inputs)
    layers.values |= again.values
    tokens = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    word = partial(graph.matrix, "decoder.embedding.word.weight")
    graph.add_outputs(head_outputs(spec.head, graph / "head", x, tokens, word))
    add_layers(graph, layers)
    return graph


def _cross(spec: EncoderDecoderSpec, graph: Graph, x: ir.Value) -> KeyValues:
    """The encoder's x (B,S,W) -> its keys and values (B,K,S,H) for each layer of the decoder."""
    if spec.projected:
        x = linear(True, graph / "cross_projection", x)
    crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
    return [cross_key_value(kind, graph / f"cross.{layer}", x) for layer, kind in enumerate(crossed)]


def _read_again(
    spec: EncoderDecoderSpec, graph: Graph, x: ir.Value, inputs: dict[str, ir.Value]
) -> tuple[ir.Value, Given]:
    """The encoder's x (B,S,W), its inputs (B,S) -> the decoder's x (B,S,W) of the same tokens."""
    assert spec.decoder_start_token_id is not None
    op, input_ids = graph.op, inputs[names.INPUT_IDS]
    batch = op.Shape(input_ids, start=0, end=1)
    first = op.Expand(
        graph.constant("first", [spec.decoder_start_token_id]), op.Concat(batch, [1], axis=0)
    )  # (B, 1)
    before = op.Slice(input_ids, [0], op.Sub(op.Shape(input_ids, start=1, end=2), [1]), [1])
    again = {
        names.INPUT_IDS: op.Concat(first, before, axis=1),
        names.ENCODER_ATTENTION_MASK: inputs[names.ATTENTION_MASK],
    }
    layers = layers_of(spec, graph, spec.decoder, names.DECODER)
    embed = partial(embedded, spec.decoder, graph, "decoder", again)
    past, cross = _no_past(spec, graph, x), _cross(spec, graph, x)
    x, _ = decoder(spec.decoder, Cache.DYNAMIC, graph, again, past, cross, layers, embed)
    return x, layers


def _no_past(spec: EncoderDecoderSpec, graph: Graph, x: ir.Value) -> KeyValues:
    """The encoder's x (B,S,W) -> empty keys and values (B,K,0,H) for each layer of the decoder."""
    op = graph.op
    past: KeyValues = []
    batch = op.Shape(x, start=0, end=1)
    for block in spec.decoder.layers:
        none = [block.dense.num_kv_heads, 0, block.dense.head_dim]
        past.append((op.CastLike(op.ConstantOfShape(op.Concat(batch, none, axis=0)), x),) * 2)
    return past


def _decoder(spec: EncoderDecoderSpec, cache: Cache, role: str, signatures: Signatures, new: Build) -> Graph:
    """input_ids (B,S), past keys and values -> logits (B,L,V), present keys and values.

    New tokens come one by one, so that only the head selects the tokens of logits_indices.
    """
    graph = new(role)
    inputs = graph.declare(signatures[role])
    past, cross = [], []
    for layer, block in enumerate(spec.decoder.layers):
        past.append(pair_of(inputs, cache_names.past(layer, cache_names.DECODER)))
        if block.cross_attention is not None:
            cross.append(pair_of(inputs, cache_names.past(layer, cache_names.ENCODER)))
    if role == roles.DECODER_WITH_PAST:
        inputs = _with_source_mask(spec, graph, inputs, cross)
    layers = layers_of(spec, graph, spec.decoder, names.DECODER)
    embed = partial(embedded, spec.decoder, graph, "decoder", inputs)
    x, present = decoder(spec.decoder, cache, graph, inputs, past, cross or None, layers, embed)
    graph.add_outputs({names.LOGITS: _logits(spec, graph, x, inputs.get(names.LOGITS_INDICES))})
    for layer, pair in enumerate(present):
        graph.add_outputs(named(cache_names.present(layer, cache_names.DECODER), pair))
    add_layers(graph, layers)
    return graph


def _alignment(spec: EncoderDecoderSpec, signatures: Signatures, new: Build) -> Graph:
    """input_ids (B,S), the encoder's keys and values -> cross-attention of the alignment's heads (B,A,S,E).

    One pass over all tokens of a sequence, as far as the last layer with such a head.
    """
    assert spec.alignment is not None
    graph = new(roles.ALIGNMENT)
    inputs = graph.declare(signatures[roles.ALIGNMENT])
    stack = replace(spec.decoder, num_layers=spec.alignment.num_layers, final_norm=None)
    cross = [
        pair_of(inputs, cache_names.past(layer, cache_names.ENCODER)) for layer in range(stack.num_layers)
    ]
    past = _no_past(spec, graph, cross[0][0])
    layers = Given([names.ATTENTIONS], names.DECODER)
    embed = partial(embedded, stack, graph, "decoder", inputs)
    decoder(stack, Cache.DYNAMIC, graph, inputs, past, cross, layers, embed)
    op, heads = graph.op, []
    for layer, head in spec.alignment.heads:
        weights = layers.values[names.of_layer(names.CROSS_ATTENTIONS, layer)]  # (B, N, S, E)
        heads.append(op.Gather(weights, graph.constant(f"head_{head}", [head]), axis=1))
    graph.add_outputs({names.ALIGNMENT_WEIGHTS: op.Concat(*heads, axis=1)})
    return graph


def _hub_decoder(spec: EncoderDecoderSpec, role: str, signatures: Signatures, new: Build) -> Graph:
    """input_ids (B,S), encoder_hidden_states (B,E,W) -> logits (B,S,V), present and cross keys and values.

    The decoder of the first step, or the merged one, which reads a past if use_cache_branch is true.
    """
    graph = new(role)
    inputs = graph.declare(signatures[role])
    encoded = inputs[names.ENCODER_HIDDEN_STATES]
    if role == roles.DECODER_MERGED:
        past, cross = _past_or_made(spec, graph, inputs)
    else:
        past, cross = _no_past(spec, graph, encoded), _cross(spec, graph, encoded)
    inputs = _with_source_mask(spec, graph, inputs, cross)
    layers = layers_of(spec, graph, spec.decoder, names.DECODER)
    embed = partial(embedded, spec.decoder, graph, "decoder", inputs)
    x, present = decoder(spec.decoder, Cache.DYNAMIC, graph, inputs, past, cross, layers, embed)
    graph.add_outputs({names.LOGITS: _logits(spec, graph, x, None)})
    for layer, (own, source) in enumerate(zip(present, cross, strict=True)):
        graph.add_outputs(named(cache_names.present(layer, cache_names.DECODER), own))
        graph.add_outputs(named(cache_names.present(layer, cache_names.ENCODER), source))
    add_layers(graph, layers)
    return graph


def _with_source_mask(spec: EncoderDecoderSpec, graph: Graph, inputs: Values, cross: KeyValues) -> Values:
    """The inputs with the mask (B,E) of the encoder's vectors in place of that (B,N) of a masked signal."""
    if not spec.masked:
        return inputs
    mask = source_mask(spec.counted, 2, graph, inputs[names.ENCODER_ATTENTION_MASK], cross[0][0])
    return {**inputs, names.ENCODER_ATTENTION_MASK: mask}


def _past_or_made(spec: EncoderDecoderSpec, graph: Graph, inputs: Values) -> tuple[KeyValues, KeyValues]:
    """Keys and values (B,K,P,H) of past tokens and (B,K,E,H) of the encoder's, for each layer of the decoder.

    They are the inputs if use_cache_branch is true, and else empty ones and those of encoder_hidden_states
    (B,E,W), which are made empty before the products if their results are not used; before products of
    integers one vector is left, since WebGPU finds the scales of no vector at all. Weights are in the main
    graph, once: runtimes open no linked file of weights from within a branch.
    """
    op, cached = graph.op, inputs[names.USE_CACHE_BRANCH]
    encoded = inputs[names.ENCODER_HIDDEN_STATES]
    of_integers = any(len(one.parts) > 1 for name, one in graph.stored.items() if ".cross_attention." in name)
    length = op.Where(cached, [int(of_integers)], op.Shape(encoded, start=1, end=2))  # (1)
    made = _cross(spec, graph, op.Slice(encoded, [0], length, [1]))
    layers = range(len(made))
    parts = (cache_names.DECODER, cache_names.ENCODER)
    given = [pair_of(inputs, cache_names.past(layer, part)) for part in parts for layer in layers]
    pairs = graph.choose(cached, given, [*_no_past(spec, graph, encoded), *made])
    return pairs[: len(made)], pairs[len(made) :]


def _logits(spec: EncoderDecoderSpec, graph: Graph, x: ir.Value, logits_indices: ir.Value | None) -> ir.Value:
    """The decoder's x (B,S,W) -> logits (B,L,V)."""
    word = graph.matrix("decoder.embedding.word.weight") if spec.head.tied else None
    return causal_lm_head(spec.head, graph / "head", x, logits_indices, word)
