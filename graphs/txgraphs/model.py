"""Whole models, put together from a spec."""

from collections.abc import Mapping
from typing import assert_never

import onnx_ir as ir

from txexport.spec import (
    AttentionSpec,
    Cache,
    DecoderSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    ModelSpec,
    PatchSpec,
    SignalStackSpec,
)
from txexport.spec.parameters import word_matrix
from txgraphs._graph import Graph
from txgraphs.attention import cross_key_value
from txgraphs.dual_encoder import image_vectors, similarity_model, text_vectors
from txgraphs.heads import causal_lm_head, masked_lm_head, pooler, sequence_head, span_head, token_head
from txgraphs.stack import decoder, encoder, signal_encoder

INT, FLOAT = ir.DataType.INT64, ir.DataType.FLOAT
TOKENS = ("batch_size", "sequence_length")
SOURCE = ("batch_size", "encoder_sequence_length")

Tensors = Mapping[str, ir.TensorProtocol]


def models(spec: ModelSpec, cache: Cache, tensors: Tensors) -> dict[str, Graph]:
    """The graphs of a model by role, with weights taken from `tensors` by parameter name."""
    match spec:
        case EncoderSpec():
            return {"model": encoder_model(spec, tensors)}
        case DecoderSpec():
            return {"model": decoder_model(spec, cache, tensors)}
        case EncoderDecoderSpec() if not spec.generates:
            return {"model": encoder_model(spec, tensors)}
        case EncoderDecoderSpec():
            return {
                "encoder_model": encoder_model(spec, tensors),
                "decoder_model": decoder_model(spec, cache, tensors),
            }
        case DualEncoderSpec():
            return dual_encoder_models(spec, tensors)
        case _:
            assert_never(spec)


def dual_encoder_models(spec: DualEncoderSpec, tensors: Tensors) -> dict[str, Graph]:
    """Graphs for texts, for images, and for comparing their vectors; the twin of txmodels' DualEncoder."""
    text, vision = Graph("text_model", tensors), Graph("vision_model", tensors)
    inputs = {name: text.input(name, INT, TOKENS) for name in ("input_ids", "attention_mask")}
    x = encoder(spec.text, text, inputs, "text.embedding.word.weight", "text")
    vectors = text_vectors(spec, text, x, (inputs["input_ids"], inputs["attention_mask"]))
    text.output(vectors, "text_embeds", FLOAT, ("batch_size", spec.size))
    name, sizes = spec.vision.embedding.input
    x = signal_encoder(spec.vision, vision, vision.input(name, FLOAT, ("batch_size", *sizes)), "vision")
    vision.output(image_vectors(vision, x), "image_embeds", FLOAT, ("batch_size", spec.size))
    return {
        "text_model": text,
        "vision_model": vision,
        "similarity_model": similarity_model(spec, tensors),
    }


def encoder_model(spec: EncoderSpec | EncoderDecoderSpec, tensors: Tensors) -> Graph:
    """Masks and ids of tokens (B,S) -> hidden states or logits, and cross keys and values for a decoder."""
    graph = Graph("encoder_model" if spec.generates else "model", tensors)
    if isinstance(spec.encoder, SignalStackSpec):
        name, sizes = spec.encoder.embedding.input
        x = signal_encoder(spec.encoder, graph, graph.input(name, FLOAT, ("batch_size", *sizes)))
        free = isinstance(spec.encoder.embedding, PatchSpec) and spec.encoder.embedding.any_size
        length = "sequence_length" if free else spec.encoder.embedding.length
        _head_outputs(spec, graph, x, "", ("batch_size", length), {}, None)
    else:
        names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (
            spec.encoder.embedding.type_vocab_size > 1
        )
        names += ["global_attention_mask"] * spec.encoder.global_tokens
        shape, word = SOURCE if spec.generates else TOKENS, word_matrix(spec, "encoder")
        if spec.head.kind == HeadKind.CHOICES:
            inputs, choices = _choices(graph, names)
        else:
            inputs, choices = {name: graph.input(name, INT, shape) for name in names}, None
        x = encoder(spec.encoder, graph, inputs, word)
        match spec:
            case EncoderDecoderSpec(decoder_start_token_id=int(start)):
                x = _read_again(spec, start, graph, x, inputs)
        _head_outputs(spec, graph, x, word, shape, inputs, choices)
    if isinstance(spec, EncoderDecoderSpec) and spec.generates:
        for layer, (crossed, pair) in enumerate(_cross(spec, graph, x)):
            _cache_outputs(graph, crossed, pair, f"present.{layer}.encoder", _source_length(spec))
    return graph


def _cross(
    spec: EncoderDecoderSpec, graph: Graph, x: ir.Value
) -> list[tuple[AttentionSpec, tuple[ir.Value, ir.Value]]]:
    """The encoder's x (B,S,W) -> its keys and values (B,K,S,H) for each layer of the decoder."""
    crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
    return [
        (kind, graph.call(cross_key_value(kind), x, under=f"cross.{layer}"))
        for layer, kind in enumerate(crossed)
    ]


def _read_again(
    spec: EncoderDecoderSpec, start: int, graph: Graph, x: ir.Value, inputs: dict[str, ir.Value]
) -> ir.Value:
    """The encoder's x (B,S,W), and its inputs (B,S) -> the decoder's x (B,S,W) of the same tokens."""
    op, input_ids = graph.builder.op, inputs["input_ids"]
    batch = op.Shape(input_ids, start=0, end=1)
    first = op.Expand(graph.constant("first", [start]), op.Concat(batch, [1], axis=0))  # (B, 1)
    before = op.Slice(input_ids, [0], op.Sub(op.Shape(input_ids, start=1, end=2), [1]), [1])
    again = {
        "input_ids": op.Concat(first, before, axis=1),
        "encoder_attention_mask": inputs["attention_mask"],
    }
    past = []
    for block in spec.decoder.layers:
        none = [block.dense.num_kv_heads, 0, block.dense.head_dim]
        past.append((op.ConstantOfShape(op.Concat(batch, none, axis=0)),) * 2)
    cross = [pair for _, pair in _cross(spec, graph, x)]
    x, _ = decoder(spec.decoder, Cache.DYNAMIC, graph, again, word_matrix(spec, "decoder"), past, cross)
    return x


def _source_length(spec: EncoderDecoderSpec) -> str | int:
    """How many vectors an encoder gives its decoder: of a sound always as many."""
    encoder = spec.encoder
    return encoder.embedding.length if isinstance(encoder, SignalStackSpec) else "encoder_sequence_length"


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
    spec: EncoderSpec | EncoderDecoderSpec,
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
    match head.kind:
        case HeadKind.MASKED_LM:
            logits = graph.call(masked_lm_head(head), x, graph.weight(word), under="head")
            second = spec.next_sentence if isinstance(spec, EncoderSpec) else None
            name = "logits" if second is None else "prediction_logits"
            graph.output(logits, name, FLOAT, (*shape, spec.vocab_size))
            if second is not None:
                pair = graph.call(sequence_head(second), x, *tokens, under="next_sentence")
                graph.output(pair, "seq_relationship_logits", FLOAT, (batch, second.labels))
        case HeadKind.SEQUENCE:
            logits = graph.call(sequence_head(head), x, *tokens, under="head")
            if isinstance(spec, EncoderSpec) and spec.distilled:
                logits = _distilled(spec, graph, x, logits)
            graph.output(logits, "logits", FLOAT, (batch, head.labels))
        case HeadKind.CHOICES:
            scores = graph.call(sequence_head(head), x, *tokens, under="head")  # (B*C, 1)
            graph.output(op.Reshape(scores, choices), "logits", FLOAT, (batch, "num_choices"))
        case HeadKind.TOKENS:
            logits = graph.call(token_head(head), x, under="head")
            graph.output(logits, "logits", FLOAT, (*shape, head.labels))
        case HeadKind.SPANS:
            start_logits, end_logits = graph.call(span_head(head), x, under="head")
            graph.output(start_logits, "start_logits", FLOAT, shape)
            graph.output(end_logits, "end_logits", FLOAT, shape)
        case HeadKind.NONE | HeadKind.CAUSAL_LM:  # the latter is the decoder's
            width = spec.encoder.hidden_size
            graph.output(x, "last_hidden_state", FLOAT, (*shape, width))
            if isinstance(spec, EncoderSpec) and spec.pooler:
                pooled = graph.call(pooler(), x, under="pooler")
                graph.output(pooled, "pooler_output", FLOAT, (batch, width))
        case _:
            assert_never(head.kind)


def _distilled(spec: EncoderSpec, graph: Graph, x: ir.Value, first: ir.Value) -> ir.Value:
    """The average of the first token's scores (B,labels) and the second's, both of which come out too."""
    op, shape = graph.builder.op, ("batch_size", spec.head.labels)
    rest = op.Slice(x, [1], op.Shape(x, start=1, end=2), [1])  # (B, S - 1, W)
    second = graph.call(sequence_head(spec.head), rest, None, None, under="distilled")
    logits = op.Div(op.Add(first, second), op.CastLike(graph.constant("two", [2]), first))
    graph.output(first, "cls_logits", FLOAT, shape)
    graph.output(second, "distillation_logits", FLOAT, shape)
    return logits


def decoder_model(spec: DecoderSpec | EncoderDecoderSpec, cache: Cache, tensors: Tensors) -> Graph:
    """input_ids (B,S), past keys and values -> logits (B,L,V), present keys and values."""
    static, crossed = cache == Cache.STATIC, isinstance(spec, EncoderDecoderSpec)
    graph = Graph("decoder_model" if crossed else "model", tensors)
    inputs = {"input_ids": graph.input("input_ids", INT, TOKENS)}
    if static:
        inputs["cache_lengths"] = graph.input("cache_lengths", INT, TOKENS[:1])
        inputs["logits_indices"] = graph.input("logits_indices", INT, ("batch_size", "logits_length"))
    elif not crossed:
        inputs["attention_mask"] = graph.input("attention_mask", INT, ("batch_size", "total_sequence_length"))
        inputs["position_ids"] = graph.input("position_ids", INT, TOKENS)
    source = _source_length(spec) if isinstance(spec, EncoderDecoderSpec) else 0
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
    graph.output(logits, "logits", FLOAT, ("batch_size", length, spec.vocab_size))
    for layer, (block, pair) in enumerate(zip(spec.decoder.layers, present, strict=True)):
        _cache_outputs(graph, block.dense, pair, f"present.{layer}{own}", after)
    return graph


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
