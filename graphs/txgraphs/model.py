"""Whole models, put together from a spec."""

from collections.abc import Mapping

import onnx_ir as ir

from txexport.errors import GraphError
from txexport.spec import AttentionSpec, Cache, EmbeddingSpec, HeadKind, ModelSpec, PatchSpec, TowersSpec
from txgraphs._graph import Graph
from txgraphs.attention import cross_key_value
from txgraphs.heads import causal_lm_head, masked_lm_head, pooler, sequence_head, span_head, token_head
from txgraphs.stack import decoder, encoder, signal_encoder
from txgraphs.towers import image_vectors, similarity_model, text_vectors

INT, FLOAT = ir.DataType.INT64, ir.DataType.FLOAT
TOKENS = ("batch_size", "sequence_length")
SOURCE = ("batch_size", "encoder_sequence_length")

Tensors = Mapping[str, ir.TensorProtocol]


def models(spec: ModelSpec, cache: Cache, tensors: Tensors) -> dict[str, Graph]:
    """The graphs of a model by role, with weights taken from `tensors` by parameter name.

    Raises GraphError unless the graphs together ask for each of `tensors`, and for nothing else.
    """
    shared = "encoder.embedding.word.weight"
    if spec.shared_embedding and shared in tensors:
        tensors = {**tensors, "decoder.embedding.word.weight": tensors[shared]}
    graphs = _graphs(spec, cache, tensors)
    asked = set().union(*(graph.asked for graph in graphs.values()))
    problems = [
        f"{kind}: {', '.join(sorted(names))}"
        for kind, names in (("missing", asked - tensors.keys()), ("unused", tensors.keys() - asked))
        if names
    ]
    if problems:
        raise GraphError(f"the graphs do not fit the stored parameters: {'; '.join(problems)}")
    return graphs


def _graphs(spec: ModelSpec, cache: Cache, tensors: Tensors) -> dict[str, Graph]:
    if spec.towers is not None:
        return tower_models(spec.towers, tensors)
    if not spec.generates:
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
    x = encoder(spec.text, text, inputs, "text")
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


def encoder_model(spec: ModelSpec, tensors: Tensors) -> Graph:
    """Masks and ids of tokens (B,S) -> hidden states or logits, and cross keys and values for a decoder."""
    assert spec.encoder is not None
    graph = Graph("encoder_model" if spec.generates else "model", tensors)
    if not isinstance(spec.encoder.embedding, EmbeddingSpec):
        name, sizes = spec.encoder.embedding.input
        x = signal_encoder(spec.encoder, graph, graph.input(name, FLOAT, ("batch_size", *sizes)))
        free = isinstance(spec.encoder.embedding, PatchSpec) and spec.encoder.embedding.any_size
        length = "sequence_length" if free else spec.encoder.embedding.length
        _head_outputs(spec, graph, x, ("batch_size", length), {}, None)
    else:
        names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (spec.encoder.words.segments > 1)
        names += ["global_attention_mask"] * spec.encoder.global_tokens
        shape = SOURCE if spec.generates else TOKENS
        if spec.head.kind == HeadKind.CHOICES:
            inputs, choices = _choices(graph, names)
        else:
            inputs, choices = {name: graph.input(name, INT, shape) for name in names}, None
        x = encoder(spec.encoder, graph, inputs)
        if spec.start is not None:
            x = _read_again(spec, graph, x, inputs)
        _head_outputs(spec, graph, x, shape, inputs, choices)
    if spec.generates:
        for layer, (crossed, pair) in enumerate(_cross(spec, graph, x)):
            _cache_outputs(graph, crossed, pair, f"present.{layer}.encoder", _source_length(spec))
    return graph


def _cross(
    spec: ModelSpec, graph: Graph, x: ir.Value
) -> list[tuple[AttentionSpec, tuple[ir.Value, ir.Value]]]:
    """The encoder's x (B,S,W) -> its keys and values (B,K,S,H) for each layer of the decoder."""
    assert spec.decoder is not None
    crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
    return [(kind, cross_key_value(kind, graph / f"cross.{layer}", x)) for layer, kind in enumerate(crossed)]


def _read_again(spec: ModelSpec, graph: Graph, x: ir.Value, inputs: dict[str, ir.Value]) -> ir.Value:
    """The encoder's x (B,S,W), and its inputs (B,S) -> the decoder's x (B,S,W) of the same tokens."""
    assert spec.decoder is not None
    op, input_ids = graph.op, inputs["input_ids"]
    batch = op.Shape(input_ids, start=0, end=1)
    start = op.Expand(graph.constant("first", [spec.start or 0]), op.Concat(batch, [1], axis=0))  # (B, 1)
    before = op.Slice(input_ids, [0], op.Sub(op.Shape(input_ids, start=1, end=2), [1]), [1])
    again = {
        "input_ids": op.Concat(start, before, axis=1),
        "encoder_attention_mask": inputs["attention_mask"],
    }
    past = []
    for block in spec.decoder.layers:
        none = [block.dense.num_kv_heads, 0, block.dense.head_dim]
        past.append((op.ConstantOfShape(op.Concat(batch, none, axis=0)),) * 2)
    cross = [pair for _, pair in _cross(spec, graph, x)]
    x, _ = decoder(spec.decoder, Cache.DYNAMIC, graph, again, past, cross)
    return x


def _source_length(spec: ModelSpec) -> str | int:
    """How many vectors an encoder gives its decoder: of a sound always as many."""
    assert spec.encoder is not None
    embedding = spec.encoder.embedding
    return "encoder_sequence_length" if isinstance(embedding, EmbeddingSpec) else embedding.length


def _choices(graph: Graph, names: list[str]) -> tuple[dict[str, ir.Value], ir.Value]:
    """Inputs (B,C,S), each as rows (B*C,S), and the shape (B,C) of their scores."""
    op, inputs = graph.op, {}
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
    shape: tuple[str, str | int],
    inputs: dict[str, ir.Value],
    choices: ir.Value | None,
) -> None:
    """What an encoder's head makes of its hidden states x (B,S,W), or those themselves."""
    head, batch, op = spec.head, shape[0], graph.op
    tokens = inputs.get("input_ids"), inputs.get("attention_mask")
    if head.kind == HeadKind.MASKED_LM:
        logits = masked_lm_head(head, graph / "head", x, graph.weight("encoder.embedding.word.weight"))
        name = "logits" if spec.next_sentence is None else "prediction_logits"
        graph.output(logits, name, FLOAT, (*shape, spec.stack.words.vocab_size))
        if spec.next_sentence is not None:
            pair = sequence_head(spec.next_sentence, graph / "next_sentence", x, *tokens)
            graph.output(pair, "seq_relationship_logits", FLOAT, (batch, spec.next_sentence.labels))
    elif head.kind == HeadKind.SEQUENCE:
        logits = sequence_head(head, graph / "head", x, *tokens)
        if spec.distilled:
            logits = _distilled(spec, graph, x, logits)
        graph.output(logits, "logits", FLOAT, (batch, head.labels))
    elif head.kind == HeadKind.CHOICES:
        scores = sequence_head(head, graph / "head", x, *tokens)  # (B*C, 1)
        graph.output(op.Reshape(scores, choices), "logits", FLOAT, (batch, "num_choices"))
    elif head.kind == HeadKind.TOKENS:
        logits = token_head(head, graph / "head", x)
        graph.output(logits, "logits", FLOAT, (*shape, head.labels))
    elif head.kind == HeadKind.SPANS:
        start_logits, end_logits = span_head(head, graph / "head", x)
        graph.output(start_logits, "start_logits", FLOAT, shape)
        graph.output(end_logits, "end_logits", FLOAT, shape)
    else:
        assert spec.encoder is not None
        width = spec.encoder.hidden_size
        graph.output(x, "last_hidden_state", FLOAT, (*shape, width))
        if spec.pooler:
            graph.output(pooler(graph / "pooler", x), "pooler_output", FLOAT, (batch, width))


def _distilled(spec: ModelSpec, graph: Graph, x: ir.Value, first: ir.Value) -> ir.Value:
    """The average of the first token's scores (B,labels) and the second's, both of which come out too."""
    op, shape = graph.op, ("batch_size", spec.head.labels)
    rest = op.Slice(x, [1], op.Shape(x, start=1, end=2), [1])  # (B, S - 1, W)
    second = sequence_head(spec.head, graph / "distilled", rest, None, None)
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
    x, present = decoder(spec.decoder, cache, graph, inputs, past, cross or None)
    word = graph.weight("decoder.embedding.word.weight")
    logits = causal_lm_head(spec.head, graph / "head", x, inputs.get("logits_indices"), word)
    length = "logits_length" if static else "sequence_length"
    graph.output(logits, "logits", FLOAT, ("batch_size", length, spec.decoder.words.vocab_size))
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
