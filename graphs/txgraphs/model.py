"""Whole models, put together from a spec: one graph function call a component and layer."""

from collections.abc import Mapping, Sized

import onnx_ir as ir

from txexport.parameters import word_matrix
from txexport.spec import (
    AlibiSpec,
    AttentionSpec,
    BlockSpec,
    Cache,
    EmbeddingSpec,
    ExpertsSpec,
    HeadKind,
    ModelSpec,
    PatchSpec,
    RotarySpec,
    SoundSpec,
    StackSpec,
    TowersSpec,
)
from txgraphs._graph import Graph
from txgraphs.attention import cross_key_value
from txgraphs.block import decoder_block, encoder_block
from txgraphs.embedding import embedding
from txgraphs.experts import experts
from txgraphs.heads import causal_lm_head, masked_lm_head, pooler, sequence_head, span_head, token_head
from txgraphs.mask import biased_mask, cache_mask, causal_mask, near_mask, padding_mask
from txgraphs.norm import norm
from txgraphs.position import alibi, positions, relative_bias, rotation, token_positions
from txgraphs.signal import patch_embedding, sound_embedding
from txgraphs.sparse_block import sparse_encoder_block
from txgraphs.towers import image_vectors, similarity_model, text_vectors

INT, FLOAT = ir.DataType.INT64, ir.DataType.FLOAT
TOKENS = ("batch_size", "sequence_length")
SOURCE = ("batch_size", "encoder_sequence_length")

Tensors = Mapping[str, ir.TensorProtocol]
KeyValues = list[tuple[ir.Value, ir.Value]]


def models(spec: ModelSpec, cache: Cache, tensors: Tensors) -> dict[str, Graph]:
    """The graphs of a model by role, with weights taken from `tensors` by parameter name."""
    if spec.towers is not None:
        return tower_models(spec.towers, tensors)
    if spec.decoder is None:
        return {"model": encoder_model(spec, tensors)}
    if spec.encoder is None:
        return {"model": decoder_model(spec, cache, tensors)}
    return {
        "encoder_model": encoder_model(spec, tensors),
        "decoder_model": decoder_model(spec, cache, tensors),
    }


def tower_models(spec: TowersSpec, tensors: Tensors) -> dict[str, Graph]:
    """Graphs for texts, for images, and for comparing their vectors; the twin of txmodels' Towers."""
    text, vision = Graph("text_model", tensors), Graph("vision_model", tensors)
    inputs = {name: text.input(name, INT, TOKENS) for name in ("input_ids", "attention_mask")}
    x = encoder(spec.text, text, inputs, "text.embedding.word.weight", "text")
    vectors = text_vectors(spec, text, x, (inputs["input_ids"], inputs["attention_mask"]))
    text.output(vectors, "text_embeds", FLOAT, ("batch_size", spec.size))
    assert isinstance(spec.vision.embedding, PatchSpec)
    name, sizes = spec.vision.embedding.input
    x = signal_encoder(spec.vision, vision, vision.input(name, FLOAT, ("batch_size", *sizes)), "vision")
    vision.output(image_vectors(vision, x), "image_embeds", FLOAT, ("batch_size", spec.size))
    return {
        "text_model": text,
        "vision_model": vision,
        "similarity_model": similarity_model(spec, tensors),
    }


def encoder(
    spec: StackSpec, graph: Graph, inputs: dict[str, ir.Value], word: str, stack: str = "encoder"
) -> ir.Value:
    """A stack that reads a whole sequence at once; the twin of txmodels' Encoder."""
    input_ids, attention_mask = inputs["input_ids"], inputs["attention_mask"]
    op, padding = graph.builder.op, spec.words.position.padding
    start = op.Expand(graph.constant("start", [0]), op.Shape(input_ids, start=0, end=1))  # (B)
    order = graph.call(positions, input_ids, start, name="order")  # (B, S)
    places = order if padding is None else graph.call(token_positions(padding), input_ids, name="positions")
    # How far apart tokens are: linear biases do not count the padding between them.
    linear = isinstance(spec.relative, AlibiSpec)
    apart = op.Sub(op.CumSum(attention_mask, 1), 1) if linear else order  # (B, S)
    masks: dict[int | None, ir.Value] = {}
    for window in _windows(spec):
        name = _numbered("mask", masks)
        if spec.causal:
            mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name=name)
        elif window is not None:
            mask = graph.call(near_mask(window), attention_mask, input_ids, order, name=name)
        else:
            mask = graph.call(padding_mask, attention_mask, input_ids, name=name)
        masks[window] = _bias(spec, graph, stack, apart, apart, mask)
    rotations = _rotations(spec, graph, order)
    x = _embed(spec, graph, stack, word, places, inputs)
    for layer, block in enumerate(spec.layers):
        name = f"{stack}.layers.{layer}"
        if block.sparse:
            x = sparse_encoder_block(block, graph, name, x, *(inputs[m] for m in block.attention.token_masks))
        else:
            mask, turns = masks[block.dense.window], rotations[block.dense.rotary]  # (B, 1, S, S)
            x = graph.call(encoder_block(block), x, mask, *turns, under=name)
            x = _mixture(block, graph, x, name)
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under=f"{stack}.final_norm")
    return x


def signal_encoder(spec: StackSpec, graph: Graph, signal: ir.Value, name: str = "encoder") -> ir.Value:
    """A stack that reads a whole image or sound at once; the twin of txmodels' SignalEncoder."""
    if isinstance(spec.embedding, PatchSpec):
        x = graph.call(patch_embedding(spec.embedding), signal, under=f"{name}.embedding")
    else:
        assert isinstance(spec.embedding, SoundSpec)
        x = graph.call(sound_embedding(spec.embedding), signal, under=f"{name}.embedding")
    for layer, block in enumerate(spec.layers):
        x = graph.call(encoder_block(block), x, None, None, None, under=f"{name}.layers.{layer}")
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under=f"{name}.final_norm")
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
    places, masks = _over_cache(spec, cache, graph, inputs, past)
    cross_mask = None
    if "encoder_attention_mask" in inputs:
        source = inputs["encoder_attention_mask"]
        cross_mask = graph.call(padding_mask, source, input_ids, name="cross_mask")  # (B, 1, S, E)
    rotations = _rotations(spec, graph, places)
    x = _embed(spec, graph, "decoder", word, places, inputs)
    present = []
    for layer, block in enumerate(spec.layers):
        mask = masks.get(block.dense.window)
        if cache == Cache.STATIC and block.dense.by_length:
            mask = None
        cross_k, cross_v = cross[layer] if cross else (None, None)
        turns, name = rotations[block.dense.rotary], f"decoder.layers.{layer}"
        x, k, v = graph.call(
            decoder_block(block, cache),
            *(x, mask, *turns, cache_lengths, *past[layer], cross_mask, cross_k, cross_v),
            under=name,
        )
        x = _mixture(block, graph, x, name)
        present.append((k, v))
    if spec.final_norm is not None:
        x = graph.call(norm(spec.final_norm), x, under="decoder.final_norm")
    return x, present


def _over_cache(
    spec: StackSpec, cache: Cache, graph: Graph, inputs: dict[str, ir.Value], past: KeyValues
) -> tuple[ir.Value, dict[int | None, ir.Value]]:
    """Positions of new tokens (B,S), and by window, where a layer needs one, the mask over the cache."""
    input_ids, op = inputs["input_ids"], graph.builder.op
    masks: dict[int | None, ir.Value] = {}
    if cache == Cache.STATIC:
        cache_lengths, buffer = inputs["cache_lengths"], past[0][0]
        places = graph.call(positions, input_ids, cache_lengths, name="positions")  # (B, S)
        slots = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(buffer, start=2, end=3)), 1), [0])  # (1, C)
        for window in _windows(spec, masked=True):
            name = _numbered("mask", masks)
            mask = graph.call(cache_mask(window), cache_lengths, buffer, input_ids, name=name)  # (B, 1, S, C)
            masks[window] = _bias(spec, graph, "decoder", places, slots, mask)
        return places, masks
    attention_mask, given = inputs.get("attention_mask"), inputs.get("position_ids")
    length = op.Shape(past[0][0], start=2, end=3)  # P
    if attention_mask is None:
        attention_mask = _ones(graph, input_ids, length)
    if given is None:
        start = op.Expand(length, op.Shape(input_ids, start=0, end=1))  # (B)
        given = graph.call(positions, input_ids, start, name="positions")
    order = op.Sub(op.CumSum(attention_mask, 1), 1)  # (B, T): padding between tokens is no distance
    for window in _windows(spec):
        name = _numbered("mask", masks)
        mask = graph.call(causal_mask(window), attention_mask, input_ids, order, name=name)  # (B, 1, S, T)
        masks[window] = _bias(spec, graph, "decoder", given, order, mask)
    return given, masks


def _windows(spec: StackSpec, masked: bool = False) -> list[int | None]:
    """The windows of a stack's layers, each once; where `masked`, of those that lengths do not serve."""
    kinds = [block.dense for block in spec.blocks if not block.sparse]
    return list(dict.fromkeys(kind.window for kind in kinds if not (masked and kind.by_length)))


def _numbered(name: str, taken: Sized) -> str:
    return f"{name}_{len(taken) + 1}" if taken else name


def _mixture(spec: BlockSpec, graph: Graph, x: ir.Value, under: str) -> ir.Value:
    """A mixture of experts in its residual, for a block that ends in one."""
    if not isinstance(spec.feed_forward, ExpertsSpec):
        return x
    inner = graph.call(norm(spec.norm), x, under=f"{under}.feed_forward_norm")
    return graph.builder.op.Add(x, experts(spec.feed_forward, graph, inner, f"{under}.feed_forward"))


def encoder_model(spec: ModelSpec, tensors: Tensors) -> Graph:
    """Masks and ids of tokens (B,S) -> hidden states or logits, and cross keys and values for a decoder."""
    assert spec.encoder is not None
    graph = Graph("encoder_model" if spec.decoder else "model", tensors)
    if not isinstance(spec.encoder.embedding, EmbeddingSpec):
        name, sizes = spec.encoder.embedding.input
        x = signal_encoder(spec.encoder, graph, graph.input(name, FLOAT, ("batch_size", *sizes)))
        _head_outputs(spec, graph, x, "", ("batch_size", spec.encoder.embedding.length), {}, None)
    else:
        names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (spec.encoder.words.segments > 1)
        names += ["global_attention_mask"] * spec.encoder.global_tokens
        shape, word = TOKENS if spec.decoder is None else SOURCE, word_matrix(spec, "encoder")
        if spec.head.kind == HeadKind.CHOICES:
            inputs, choices = _choices(graph, names)
        else:
            inputs, choices = {name: graph.input(name, INT, shape) for name in names}, None
        x = encoder(spec.encoder, graph, inputs, word)
        _head_outputs(spec, graph, x, word, shape, inputs, choices)
    if spec.decoder is not None:
        for layer, block in enumerate(spec.decoder.layers):
            crossed = block.cross_attention
            assert crossed is not None
            pair = graph.call(cross_key_value(crossed), x, under=f"cross.{layer}")
            _cache_outputs(graph, crossed, pair, f"present.{layer}.encoder", _source_length(spec))
    return graph


def _source_length(spec: ModelSpec) -> str | int:
    """How many vectors an encoder gives its decoder: of a sound always as many."""
    assert spec.encoder is not None
    embedding = spec.encoder.embedding
    return "encoder_sequence_length" if isinstance(embedding, EmbeddingSpec) else embedding.length


def _choices(graph: Graph, names: list[str]) -> tuple[dict[str, ir.Value], ir.Value]:
    """Inputs (B,C,S), each as rows (B*C,S), and the shape (B,C) of their scores."""
    op, inputs = graph.builder.op, {}
    shape = ("batch_size", "num_choices", "sequence_length")
    for name in names:
        given = graph.input(name, INT, shape)
        length = op.Shape(given, start=2, end=3)
        inputs[name] = op.Reshape(given, op.Concat([-1], length, axis=0))  # (B*C, S)
    return inputs, op.Shape(graph.graph.inputs[0], start=0, end=2)


def _head_outputs(
    spec: ModelSpec,
    graph: Graph,
    x: ir.Value,
    word: str,
    shape: tuple[str, str | int],
    inputs: dict[str, ir.Value],
    choices: ir.Value | None,
) -> None:
    """What an encoder's head makes of its hidden states x (B,S,W), or those themselves."""
    head, batch, op = spec.head, shape[0], graph.builder.op
    tokens = inputs.get("input_ids"), inputs.get("attention_mask")
    if head.kind == HeadKind.MASKED_LM:
        logits = graph.call(masked_lm_head(head), x, graph.weight(word), under="head")
        name = "logits" if spec.next_sentence is None else "prediction_logits"
        graph.output(logits, name, FLOAT, (*shape, spec.stack.words.vocab_size))
        if spec.next_sentence is not None:
            pair = graph.call(sequence_head(spec.next_sentence), x, *tokens, under="next_sentence")
            graph.output(pair, "seq_relationship_logits", FLOAT, (batch, spec.next_sentence.labels))
    elif head.kind == HeadKind.SEQUENCE:
        logits = graph.call(sequence_head(head), x, *tokens, under="head")
        if spec.distilled:
            logits = _distilled(spec, graph, x, logits)
        graph.output(logits, "logits", FLOAT, (batch, head.labels))
    elif head.kind == HeadKind.CHOICES:
        scores = graph.call(sequence_head(head), x, *tokens, under="head")  # (B*C, 1)
        graph.output(op.Reshape(scores, choices), "logits", FLOAT, (batch, "num_choices"))
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


def _distilled(spec: ModelSpec, graph: Graph, x: ir.Value, first: ir.Value) -> ir.Value:
    """The average of the first token's scores (B,labels) and the second's, both of which come out too."""
    op, shape = graph.builder.op, ("batch_size", spec.head.labels)
    rest = op.Slice(x, [1], op.Shape(x, start=1, end=2), [1])  # (B, S - 1, W)
    second = graph.call(sequence_head(spec.head), rest, None, None, under="distilled")
    logits = op.Div(op.Add(first, second), op.CastLike(graph.constant("two", [2]), first))
    graph.output(first, "cls_logits", FLOAT, shape)
    graph.output(second, "distillation_logits", FLOAT, shape)
    return logits


def decoder_model(spec: ModelSpec, cache: Cache, tensors: Tensors) -> Graph:
    """input_ids (B,S), past keys and values -> logits (B,L,V), present keys and values."""
    assert spec.decoder is not None
    static, crossed = cache == Cache.STATIC, spec.decoder.crossed
    graph = Graph("decoder_model" if crossed else "model", tensors)
    inputs = {"input_ids": graph.input("input_ids", INT, TOKENS)}
    if static:
        inputs["cache_lengths"] = graph.input("cache_lengths", INT, TOKENS[:1])
        inputs["logits_indices"] = graph.input("logits_indices", INT, ("batch_size", "logits_length"))
    elif not crossed:
        inputs["attention_mask"] = graph.input("attention_mask", INT, ("batch_size", "total_sequence_length"))
        inputs["position_ids"] = graph.input("position_ids", INT, TOKENS)
    source = _source_length(spec) if crossed else 0
    if isinstance(source, str):  # a sound has no padding
        inputs["encoder_attention_mask"] = graph.input("encoder_attention_mask", INT, SOURCE)
    own = ".decoder" if crossed else ""
    before, after = ("capacity",) * 2 if static else ("past_sequence_length", "total_sequence_length")
    past, cross = [], []
    for layer, block in enumerate(spec.decoder.layers):
        past.append(_cache_inputs(graph, block.dense, f"past_key_values.{layer}{own}", before))
        if block.cross_attention is not None:
            name = f"past_key_values.{layer}.encoder"
            cross.append(_cache_inputs(graph, block.cross_attention, name, source))
    word = word_matrix(spec, "decoder")
    x, present = decoder(spec.decoder, cache, graph, inputs, word, past, cross or None)
    head = causal_lm_head(spec.head, static)
    logits = graph.call(head, x, inputs.get("logits_indices"), graph.weight(word), under="head")
    length = "logits_length" if static else "sequence_length"
    graph.output(logits, "logits", FLOAT, ("batch_size", length, spec.decoder.words.vocab_size))
    for layer, (block, pair) in enumerate(zip(spec.decoder.layers, present, strict=True)):
        _cache_outputs(graph, block.dense, pair, f"present.{layer}{own}", after)
    return graph


def _embed(
    spec: StackSpec, graph: Graph, stack: str, word: str, places: ir.Value, inputs: dict[str, ir.Value]
) -> ir.Value:
    """The embedding call; its word matrix may be another stack's."""
    segments = inputs.get("token_type_ids")
    masked = spec.words.masked or spec.words.dropped is not None
    mask = inputs.get("attention_mask") if masked else None
    tokens = inputs["input_ids"], places, segments, mask
    return graph.call(embedding(spec.words), *tokens, graph.weight(word), under=f"{stack}.embedding")


def _rotations(
    spec: StackSpec, graph: Graph, places: ir.Value
) -> dict[RotarySpec | None, tuple[ir.Value | None, ir.Value | None]]:
    """Cosines and sines for every way of rotating that a layer has."""
    found: dict[RotarySpec | None, tuple[ir.Value | None, ir.Value | None]] = {}
    for kind in dict.fromkeys(block.dense.rotary for block in spec.blocks if not block.sparse):
        name = _numbered("rotation", found)
        found[kind] = (None, None) if kind is None else graph.call(rotation(kind), places, name=name)
    return found


def _bias(
    spec: StackSpec, graph: Graph, stack: str, queries: ir.Value, keys: ir.Value, mask: ir.Value
) -> ir.Value:
    """The mask, with the bias of relative positions where there is one."""
    if spec.relative is None:
        return mask
    if isinstance(spec.relative, AlibiSpec):
        bias = graph.call(alibi(spec.relative), queries, keys, name="alibi")
    else:
        bias = graph.call(relative_bias(spec.relative), queries, keys, under=f"{stack}.relative")
    return graph.call(biased_mask, bias, mask, name="biased_mask")


def _ones(graph: Graph, input_ids: ir.Value, length: ir.Value) -> ir.Value:
    """A mask (B,P+S) that hides nothing."""
    op = graph.builder.op
    batch, new = op.Shape(input_ids, start=0, end=1), op.Shape(input_ids, start=1, end=2)
    return op.Expand(graph.constant("one", [1]), op.Concat(batch, op.Add(length, new), axis=0))


def _cache_inputs(
    graph: Graph, spec: AttentionSpec, name: str, length: str | int
) -> tuple[ir.Value, ir.Value]:
    shape = ("batch_size", spec.num_kv_heads, length, spec.head_dim)
    return graph.input(f"{name}.key", FLOAT, shape), graph.input(f"{name}.value", FLOAT, shape)


def _cache_outputs(
    graph: Graph, spec: AttentionSpec, pair: tuple[ir.Value, ir.Value], name: str, length: str | int
) -> None:
    shape = ("batch_size", spec.num_kv_heads, length, spec.head_dim)
    for value, kind in zip(pair, ("key", "value"), strict=True):
        graph.output(value, f"{name}.{kind}", FLOAT, shape)
