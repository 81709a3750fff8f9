"""Whole models, put together from a spec: one graph function call a component and layer."""

from collections.abc import Mapping

import onnx_ir as ir

from txexport.parameters import word_matrix
from txexport.spec import AttentionSpec, Cache, HeadKind, ModelSpec, RelativeSpec, StackSpec
from txgraphs._graph import Graph
from txgraphs.attention import cross_key_value
from txgraphs.block import decoder_block, encoder_block
from txgraphs.embedding import embedding
from txgraphs.heads import causal_lm_head, masked_lm_head, pooler, sequence_head, span_head, token_head
from txgraphs.mask import biased_mask, cache_mask, causal_mask, padding_mask
from txgraphs.norm import norm
from txgraphs.position import positions, relative_bias, rotation, token_positions

INT, FLOAT = ir.DataType.INT64, ir.DataType.FLOAT
TOKENS = ("batch_size", "sequence_length")
SOURCE = ("batch_size", "encoder_sequence_length")

Tensors = Mapping[str, ir.TensorProtocol]
KeyValues = list[tuple[ir.Value, ir.Value]]


def models(spec: ModelSpec, cache: Cache, tensors: Tensors) -> dict[str, Graph]:
    """The graphs of a model by role, with weights taken from `tensors` by parameter name."""
    if spec.decoder is None:
        return {"model": encoder_model(spec, tensors)}
    if spec.encoder is None:
        return {"model": decoder_model(spec, cache, tensors)}
    return {
        "encoder_model": encoder_model(spec, tensors),
        "decoder_model": decoder_model(spec, cache, tensors),
    }


def encoder(spec: StackSpec, graph: Graph, inputs: dict[str, ir.Value], word: str) -> ir.Value:
    """A stack that reads a whole sequence at once; the twin of txmodels' Encoder."""
    input_ids, attention_mask = inputs["input_ids"], inputs["attention_mask"]
    attention, op = spec.block.attention, graph.builder.op
    padding = spec.embedding.position.padding
    if padding is None:
        start = op.Expand(graph.constant("start", [0]), op.Shape(input_ids, start=0, end=1))  # (B)
        places = graph.call(positions, input_ids, start, name="positions")  # (B, S)
    else:
        places = graph.call(token_positions(padding), input_ids, name="positions")
    if attention.causal:
        visible = causal_mask(attention.window)
        mask = graph.call(visible, attention_mask, input_ids, places, name="mask")  # (B, 1, S, S)
    else:
        mask = graph.call(padding_mask, attention_mask, input_ids, name="mask")
    if spec.relative is not None:
        mask = _bias(spec.relative, graph, "encoder", places, places, mask)  # (B, N, S, S)
    cos, sin = _rotate(attention, graph, places)
    x = _embed(spec, graph, "encoder", word, input_ids, places, inputs.get("token_type_ids"))
    for layer in range(spec.num_layers):
        x = graph.call(encoder_block(spec.block), x, mask, cos, sin, under=f"encoder.layers.{layer}")
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under="encoder.final_norm")
    return x


def decoder(
    spec: StackSpec,
    cache: Cache,
    graph: Graph,
    inputs: dict[str, ir.Value],
    word: str,
    past: KeyValues,
    cross: KeyValues | None,
) -> tuple[ir.Value, KeyValues]:
    """A stack that reads new tokens over a cache of past ones; the twin of txmodels' Decoder."""
    input_ids, cache_lengths = inputs["input_ids"], inputs.get("cache_lengths")
    attention, op = spec.block.attention, graph.builder.op
    if cache == Cache.STATIC:
        places, mask = graph.call(positions, input_ids, cache_lengths, name="positions"), None  # (B, S)
        if attention.window is not None or attention.biased:
            visible = cache_mask(attention.window)
            mask = graph.call(visible, cache_lengths, past[0][0], input_ids, name="mask")  # (B, 1, S, C)
    else:
        attention_mask, places = inputs.get("attention_mask"), inputs.get("position_ids")
        length = op.Shape(past[0][0], start=2, end=3)  # P
        if attention_mask is None:
            attention_mask = _ones(graph, input_ids, length)
        if places is None:
            start = op.Expand(length, op.Shape(input_ids, start=0, end=1))  # (B)
            places = graph.call(positions, input_ids, start, name="positions")
        visible = causal_mask(attention.window)
        order = op.CumSum(attention_mask, 1)  # padding between tokens is no distance
        mask = graph.call(visible, attention_mask, input_ids, order, name="mask")  # (B, 1, S, T)
    if spec.relative is not None:
        slots = op.Range(0, op.Squeeze(op.Shape(mask, start=3, end=4)), 1)  # (T)
        keys = op.Unsqueeze(slots, [0])  # (1, T)
        mask = _bias(spec.relative, graph, "decoder", places, keys, mask)  # (B, N, S, T)
    cross_mask = None
    if cross is not None:
        source = inputs["encoder_attention_mask"]
        cross_mask = graph.call(padding_mask, source, input_ids, name="cross_mask")  # (B, 1, S, E)
    cos, sin = _rotate(attention, graph, places)
    x = _embed(spec, graph, "decoder", word, input_ids, places, None)
    present = []
    for layer in range(spec.num_layers):
        cross_k, cross_v = cross[layer] if cross else (None, None)
        x, k, v = graph.call(
            decoder_block(spec.block, cache),
            *(x, mask, cos, sin, cache_lengths, *past[layer], cross_mask, cross_k, cross_v),
            under=f"decoder.layers.{layer}",
        )
        present.append((k, v))
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under="decoder.final_norm")
    return x, present


def encoder_model(spec: ModelSpec, tensors: Tensors) -> Graph:
    """input_ids, attention_mask (B,S) -> hidden states or logits, and cross keys and values for a decoder."""
    assert spec.encoder is not None
    graph, shape = Graph("encoder_model" if spec.decoder else "model", tensors), TOKENS
    if spec.decoder is not None:
        shape = SOURCE
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (spec.encoder.embedding.segments > 1)
    inputs = {name: graph.input(name, INT, shape) for name in names}
    word = word_matrix(spec, "encoder")
    x = encoder(spec.encoder, graph, inputs, word)
    _head_outputs(spec, graph, x, word, shape)
    if spec.decoder is not None:
        crossed = spec.decoder.block.cross_attention
        assert crossed is not None
        for layer in range(spec.decoder.num_layers):
            pair = graph.call(cross_key_value(crossed), x, under=f"cross.{layer}")
            _cache_outputs(graph, crossed, pair, f"present.{layer}.encoder", "encoder_sequence_length")
    return graph


def _head_outputs(spec: ModelSpec, graph: Graph, x: ir.Value, word: str, shape: tuple[str, str]) -> None:
    """What an encoder's head makes of its hidden states x (B,S,W), or those themselves."""
    head, batch = spec.head, shape[0]
    if head.kind == HeadKind.MASKED_LM:
        logits = graph.call(masked_lm_head(head), x, graph.weight(word), under="head")
        graph.output(logits, "logits", FLOAT, (*shape, spec.stack.embedding.vocab_size))
    elif head.kind == HeadKind.SEQUENCE:
        logits = graph.call(sequence_head(head), x, under="head")
        graph.output(logits, "logits", FLOAT, (batch, head.labels))
    elif head.kind == HeadKind.TOKENS:
        logits = graph.call(token_head(head), x, under="head")
        graph.output(logits, "logits", FLOAT, (*shape, head.labels))
    elif head.kind == HeadKind.SPANS:
        start_logits, end_logits = graph.call(span_head(head), x, under="head")
        graph.output(start_logits, "start_logits", FLOAT, shape)
        graph.output(end_logits, "end_logits", FLOAT, shape)
    else:
        assert spec.encoder is not None
        width = spec.encoder.hidden_size
        graph.output(x, "last_hidden_state", FLOAT, (*shape, width))
        if spec.pooler:
            graph.output(graph.call(pooler(), x, under="pooler"), "pooler_output", FLOAT, (batch, width))


def decoder_model(spec: ModelSpec, cache: Cache, tensors: Tensors) -> Graph:
    """input_ids (B,S), past keys and values -> logits (B,L,V), present keys and values."""
    assert spec.decoder is not None
    static, crossed = cache == Cache.STATIC, spec.decoder.block.cross_attention
    graph = Graph("decoder_model" if crossed else "model", tensors)
    inputs = {"input_ids": graph.input("input_ids", INT, TOKENS)}
    if static:
        inputs["cache_lengths"] = graph.input("cache_lengths", INT, TOKENS[:1])
        inputs["logits_indices"] = graph.input("logits_indices", INT, ("batch_size", "logits_length"))
    elif crossed is None:
        inputs["attention_mask"] = graph.input("attention_mask", INT, ("batch_size", "total_sequence_length"))
        inputs["position_ids"] = graph.input("position_ids", INT, TOKENS)
    if crossed is not None:
        inputs["encoder_attention_mask"] = graph.input("encoder_attention_mask", INT, SOURCE)
    own, attention = ".decoder" if crossed else "", spec.decoder.block.attention
    before, after = ("capacity",) * 2 if static else ("past_sequence_length", "total_sequence_length")
    past, cross = [], []
    for layer in range(spec.decoder.num_layers):
        past.append(_cache_inputs(graph, attention, f"past_key_values.{layer}{own}", before))
        if crossed is not None:
            source = f"past_key_values.{layer}.encoder"
            cross.append(_cache_inputs(graph, crossed, source, "encoder_sequence_length"))
    word = word_matrix(spec, "decoder")
    x, present = decoder(spec.decoder, cache, graph, inputs, word, past, cross or None)
    head = causal_lm_head(spec.head, static)
    logits = graph.call(head, x, inputs.get("logits_indices"), graph.weight(word), under="head")
    length = "logits_length" if static else "sequence_length"
    graph.output(logits, "logits", FLOAT, ("batch_size", length, spec.decoder.embedding.vocab_size))
    for layer, pair in enumerate(present):
        _cache_outputs(graph, attention, pair, f"present.{layer}{own}", after)
    return graph


def _embed(
    spec: StackSpec,
    graph: Graph,
    stack: str,
    word: str,
    input_ids: ir.Value,
    places: ir.Value,
    token_type_ids: ir.Value | None,
) -> ir.Value:
    """The embedding call; its word matrix may be another stack's."""
    function = embedding(spec.embedding)
    return graph.call(
        function, input_ids, places, token_type_ids, graph.weight(word), under=f"{stack}.embedding"
    )


def _rotate(spec: AttentionSpec, graph: Graph, places: ir.Value) -> tuple[ir.Value | None, ir.Value | None]:
    """The cosines and sines that every layer rotates by, where attention does."""
    if spec.rotary is None:
        return None, None
    return graph.call(rotation(spec.rotary), places, name="rotation")


def _bias(
    spec: RelativeSpec, graph: Graph, stack: str, queries: ir.Value, keys: ir.Value, mask: ir.Value | None
) -> ir.Value:
    """The mask with the bias of relative positions, which all layers share."""
    bias = graph.call(relative_bias(spec), queries, keys, under=f"{stack}.relative")
    return graph.call(biased_mask, bias, mask, name="biased_mask")


def _ones(graph: Graph, input_ids: ir.Value, length: ir.Value) -> ir.Value:
    """A mask (B,P+S) that hides nothing."""
    op = graph.builder.op
    batch, new = op.Shape(input_ids, start=0, end=1), op.Shape(input_ids, start=1, end=2)
    one = graph.constant("one", [1])
    return op.Expand(one, op.Concat(batch, op.Add(length, new), axis=0))


def _cache_inputs(graph: Graph, spec: AttentionSpec, name: str, length: str) -> tuple[ir.Value, ir.Value]:
    shape = ("batch_size", spec.num_kv_heads, length, spec.head_dim)
    return graph.input(f"{name}.key", FLOAT, shape), graph.input(f"{name}.value", FLOAT, shape)


def _cache_outputs(
    graph: Graph, spec: AttentionSpec, pair: tuple[ir.Value, ir.Value], name: str, length: str
) -> None:
    shape = ("batch_size", spec.num_kv_heads, length, spec.head_dim)
    for value, kind in zip(pair, ("key", "value"), strict=True):
        graph.output(value, f"{name}.{kind}", FLOAT, shape)
