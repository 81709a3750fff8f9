"""Whole models, put together from a spec."""

from collections.abc import Callable, Mapping
from typing import assert_never

import onnx_ir as ir

from txexport.contracts import Contract, Signature, cache_names, names, roles
from txexport.contracts.layer_outputs import last_before_norm, sums_layers
from txexport.contracts.one_pass import vector_name
from txexport.spec import (
    Cache,
    DecoderSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    ModelSpec,
    SignalStackSpec,
    StackSpec,
)
from txgraphs._graph import Graph
from txgraphs._nodes import Parameter
from txgraphs._parameters import with_shared
from txgraphs.attention import cross_key_value
from txgraphs.dual_encoder import image_vectors, similarity, text_vectors
from txgraphs.heads import (
    causal_lm_head,
    masked_lm_head,
    pooler,
    sequence_head,
    sequence_vector,
    span_head,
    token_head,
)
from txgraphs.layer_sum import layer_sum
from txgraphs.linear import linear
from txgraphs.stack import Given, KeyValues, decoder, encoder, signal_encoder

Build = Callable[[str], Graph]  # an empty graph of that name, which may ask for the model's parameters
Signatures = Mapping[str, Signature]
Values = dict[str, ir.Value]


def models(
    spec: ModelSpec,
    contract: Contract,
    stored: Callable[[str], Mapping[str, Parameter]],
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> dict[str, Graph]:
    """The graphs of a model by role, computing in `dtype`; `stored` gives a role its parameters by name.

    One that is not stored is asked for all the same: such a graph can tell its `uses`, and not be written.
    """
    signatures = contract.graphs(spec)
    cache = contract.cache or Cache.STATIC

    def new(role: str) -> Graph:
        return Graph(role, with_shared(spec, stored(role)), dtype)

    match spec:
        case EncoderSpec():
            return {roles.MODEL: encoder_model(spec, roles.MODEL, signatures, new)}
        case DecoderSpec():
            (role,) = signatures  # MODEL or SHARED
            return {role: decoder_model(spec, cache, role, signatures, new)}
        case EncoderDecoderSpec() if not spec.generates:
            return {roles.MODEL: encoder_model(spec, roles.MODEL, signatures, new)}
        case EncoderDecoderSpec():
            graphs = {roles.ENCODER: encoder_model(spec, roles.ENCODER, signatures, new)}
            later = roles.DECODER
            if roles.DECODER_WITH_PAST in signatures:
                for role in (roles.DECODER, roles.DECODER_MERGED):
                    graphs[role] = hub_decoder_model(spec, role, signatures, new)
                later = roles.DECODER_WITH_PAST
            return {**graphs, later: decoder_model(spec, cache, later, signatures, new)}
        case DualEncoderSpec():
            return dual_encoder_models(spec, signatures, new)
        case _:
            assert_never(spec)


def dual_encoder_models(spec: DualEncoderSpec, signatures: Signatures, new: Build) -> dict[str, Graph]:
    """Graphs for texts, for images, and for comparing them; the twin of txmodels' DualEncoder.

    Vectors are compared in a graph of their own, or in one that reads texts and images too.
    """
    text, vision = new(roles.TEXT), new(roles.VISION)
    inputs = text.declare(signatures[roles.TEXT])
    text.add_outputs({names.TEXT_EMBEDS: _text_embeds(spec, text, inputs)})
    inputs = vision.declare(signatures[roles.VISION])
    vision.add_outputs({names.IMAGE_EMBEDS: _image_embeds(spec, vision, inputs)})
    towers = {roles.TEXT: text, roles.VISION: vision}
    if roles.SIMILARITY in signatures:
        both = new(roles.SIMILARITY)
        inputs = both.declare(signatures[roles.SIMILARITY])
        texts, images = inputs[names.TEXT_EMBEDS], inputs[names.IMAGE_EMBEDS]
        both.add_outputs(_compared(spec, both, texts, images))
        return {**towers, roles.SIMILARITY: both}
    whole = new(roles.MODEL)
    inputs = whole.declare(signatures[roles.MODEL])
    texts, images = _text_embeds(spec, whole, inputs), _image_embeds(spec, whole, inputs)
    scores = _compared(spec, whole, texts, images)
    whole.add_outputs(
        {
            names.LOGITS_PER_IMAGE: scores[names.LOGITS_PER_IMAGE],
            names.LOGITS_PER_TEXT: scores[names.LOGITS_PER_TEXT],
            names.TEXT_EMBEDS: texts,
            names.IMAGE_EMBEDS: images,
        }
    )
    return {roles.MODEL: whole, **towers}


def _text_embeds(spec: DualEncoderSpec, graph: Graph, inputs: Values) -> ir.Value:
    """input_ids and attention_mask (T,S) -> text_embeds (T,W)."""
    given = _given(spec, graph, spec.text, names.TEXT)
    x = encoder(spec.text, graph, inputs, given, "text")
    _layer_outputs(graph, given)
    return text_vectors(spec, graph, x, (inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]))


def _image_embeds(spec: DualEncoderSpec, graph: Graph, inputs: Values) -> ir.Value:
    """pixel_values (I,channels,height,width) -> image_embeds (I,W)."""
    given = _given(spec, graph, spec.vision, names.VISION)
    x = signal_encoder(spec.vision, graph, inputs[names.PIXEL_VALUES], given, "vision")
    _layer_outputs(graph, given)
    return image_vectors(spec, graph, x)


def _given(spec: ModelSpec, graph: Graph, stack: StackSpec, name: str | None) -> Given:
    """The outputs of every layer of a stack that the graph promises, to be filled; `name` as LayerOutputs."""
    states: dict[str, ir.Value] | None = {} if sums_layers(spec) else None
    return Given(graph.asked, name, last_before_norm(spec, stack), states)


def _layer_outputs(graph: Graph, given: Given) -> None:
    """Give what layers gave; what is read further on keeps its own name."""
    for name in sorted(given.values, key=[*graph.promised].index):
        graph.add_outputs({name: graph.op.Identity(given.values[name])})


def _compared(spec: DualEncoderSpec, graph: Graph, texts: ir.Value, images: ir.Value) -> Values:
    """text_embeds (T,W), image_embeds (I,W) -> logits_per_text (T,I), logits_per_image (I,T)."""
    per_text, per_image = similarity(spec.scored_alone, graph / "similarity", texts, images)
    return {names.LOGITS_PER_TEXT: per_text, names.LOGITS_PER_IMAGE: per_image}


def encoder_model(
    spec: EncoderSpec | EncoderDecoderSpec, role: str, signatures: Signatures, new: Build
) -> Graph:
    """Masks and ids of tokens (B,S) -> hidden states or logits, and cross keys and values where promised."""
    graph = new(role)
    inputs = graph.declare(signatures[role])
    both = isinstance(spec, EncoderDecoderSpec)
    given = _given(spec, graph, spec.encoder, names.ENCODER if both else None)
    if isinstance(spec.encoder, SignalStackSpec):
        (signal,) = inputs.values()
        x = signal_encoder(spec.encoder, graph, signal, given)
        if given.states is not None:
            x = layer_sum(graph / "layer_sum", given.states)
        _head_outputs(spec, graph, x, {}, None)
    else:
        choices = None
        if spec.head.kind == HeadKind.CHOICES:
            inputs, choices = _choices(graph, inputs)
        x = encoder(spec.encoder, graph, inputs, given)
        match spec:
            case EncoderDecoderSpec(decoder_start_token_id=int(start)):
                x, again = _read_again(spec, start, graph, x, inputs)
                given.values |= again.values
        _head_outputs(spec, graph, x, inputs, choices)
    if isinstance(spec, EncoderDecoderSpec) and any(map(cache_names.is_present, graph.promised)):
        for layer, pair in enumerate(_cross(spec, graph, x)):
            graph.add_outputs(_named(cache_names.present(layer, cache_names.ENCODER), pair))
    _layer_outputs(graph, given)
    return graph


def _cross(spec: EncoderDecoderSpec, graph: Graph, x: ir.Value) -> KeyValues:
    """The encoder's x (B,S,W) -> its keys and values (B,K,S,H) for each layer of the decoder."""
    if spec.projected:
        x = linear(True, graph / "cross_projection", x)
    crossed = [block.cross_attention for block in spec.decoder.layers if block.cross_attention]
    return [cross_key_value(kind, graph / f"cross.{layer}", x) for layer, kind in enumerate(crossed)]


def _read_again(
    spec: EncoderDecoderSpec, start: int, graph: Graph, x: ir.Value, inputs: dict[str, ir.Value]
) -> tuple[ir.Value, Given]:
    """The encoder's x (B,S,W), and its inputs (B,S) -> the decoder's x (B,S,W) of the same tokens."""
    op, input_ids = graph.op, inputs[names.INPUT_IDS]
    batch = op.Shape(input_ids, start=0, end=1)
    first = op.Expand(graph.constant("first", [start]), op.Concat(batch, [1], axis=0))  # (B, 1)
    before = op.Slice(input_ids, [0], op.Sub(op.Shape(input_ids, start=1, end=2), [1]), [1])
    again = {
        names.INPUT_IDS: op.Concat(first, before, axis=1),
        names.ENCODER_ATTENTION_MASK: inputs[names.ATTENTION_MASK],
    }
    given = _given(spec, graph, spec.decoder, names.DECODER)
    x, _ = decoder(
        spec.decoder, Cache.DYNAMIC, graph, again, _no_past(spec, graph, x), _cross(spec, graph, x), given
    )
    return x, given


def _no_past(spec: EncoderDecoderSpec, graph: Graph, x: ir.Value) -> KeyValues:
    """The encoder's x (B,S,W) -> keys and values (B,K,0,H) of no token, for each layer of the decoder."""
    op, past = graph.op, []
    batch = op.Shape(x, start=0, end=1)
    for block in spec.decoder.layers:
        none = [block.dense.num_kv_heads, 0, block.dense.head_dim]
        past.append((op.CastLike(op.ConstantOfShape(op.Concat(batch, none, axis=0)), x),) * 2)
    return past


def _choices(graph: Graph, inputs: Values) -> tuple[Values, ir.Value]:
    """Inputs (B,C,S) as rows (B*C,S), and the shape (B,C) of their scores."""
    op, rows = graph.op, {}
    for name, given in inputs.items():
        length = op.Shape(given, start=2, end=3)
        rows[name] = op.Reshape(given, op.Concat([-1], length, axis=0))  # (B*C, S)
    return rows, op.Shape(inputs[names.INPUT_IDS], start=0, end=2)


def _head_outputs(
    spec: EncoderSpec | EncoderDecoderSpec,
    graph: Graph,
    x: ir.Value,
    inputs: Values,
    choices: ir.Value | None,
) -> None:
    """Give what an encoder's head makes of its hidden states x (B,S,W), or those themselves."""
    head, op = spec.head, graph.op
    tokens = inputs.get(names.INPUT_IDS), inputs.get(names.ATTENTION_MASK)
    match head.kind:
        case HeadKind.MASKED_LM:
            word = graph.matrix("encoder.embedding.word.weight") if head.tied else None
            logits = masked_lm_head(head, graph / "head", x, word)
            second = spec.next_sentence if isinstance(spec, EncoderSpec) else None
            graph.add_outputs({names.LOGITS if second is None else names.PREDICTION_LOGITS: logits})
            if second is not None:
                pair = sequence_head(second, graph / "next_sentence", x, *tokens)
                graph.add_outputs({names.SEQ_RELATIONSHIP_LOGITS: pair})
        case HeadKind.SEQUENCE:
            logits = sequence_head(head, graph / "head", x, *tokens)
            distilled = isinstance(spec, EncoderSpec) and spec.distilled
            graph.add_outputs(_distilled(spec, graph, x, logits) if distilled else {names.LOGITS: logits})
        case HeadKind.CHOICES:
            scores = sequence_head(head, graph / "head", x, *tokens)  # (B*C, 1)
            graph.add_outputs({names.LOGITS: op.Reshape(scores, choices)})
        case HeadKind.TOKENS:
            graph.add_outputs({names.LOGITS: token_head(head, graph / "head", x)})
        case HeadKind.SPANS:
            start_logits, end_logits = span_head(head, graph / "head", x)
            graph.add_outputs({names.START_LOGITS: start_logits, names.END_LOGITS: end_logits})
        case HeadKind.NONE | HeadKind.CAUSAL_LM:  # the latter is the decoder's
            graph.add_outputs({names.LAST_HIDDEN_STATE: x})
            if isinstance(spec, EncoderSpec) and spec.pooler:
                graph.add_outputs({names.POOLER_OUTPUT: pooler(graph / "pooler", x)})
            if isinstance(spec, EncoderSpec) and spec.vector is not None:
                vector = sequence_vector(spec.vector, graph / "vector", x, *tokens)
                graph.add_outputs({vector_name(spec): vector})
        case _:
            assert_never(head.kind)


def _distilled(spec: EncoderSpec | EncoderDecoderSpec, graph: Graph, x: ir.Value, first: ir.Value) -> Values:
    """The average of the first token's scores (B,labels) and the second's, and both of them."""
    op = graph.op
    rest = op.Slice(x, [1], op.Shape(x, start=1, end=2), [1])  # (B, S - 1, W)
    second = sequence_head(spec.head, graph / "distilled", rest, None, None)
    logits = op.Div(op.Add(first, second), op.CastLike(graph.constant("two", [2]), first))
    return {names.CLS_LOGITS: first, names.DISTILLATION_LOGITS: second, names.LOGITS: logits}


def decoder_model(
    spec: DecoderSpec | EncoderDecoderSpec,
    cache: Cache,
    role: str,
    signatures: Signatures,
    new: Build,
) -> Graph:
    """input_ids (B,S), past keys and values -> logits (B,L,V), present keys and values."""
    graph = new(role)
    inputs = graph.declare(signatures[role])
    part = cache_names.DECODER if isinstance(spec, EncoderDecoderSpec) else None
    past, cross = [], []
    for layer, block in enumerate(spec.decoder.layers):
        past.append(_pair(inputs, cache_names.past(layer, part)))
        if block.cross_attention is not None:
            cross.append(_pair(inputs, cache_names.past(layer, cache_names.ENCODER)))
    given = _given(spec, graph, spec.decoder, part and names.DECODER)
    picks = inputs.get(names.LOGITS_INDICES)
    # Behind an encoder, where new tokens come one by one, only the head makes a difference.
    early = isinstance(spec, DecoderSpec) and not graph.asked
    last = picks if early else None
    x, present = decoder(spec.decoder, cache, graph, inputs, past, cross or None, given, last)
    graph.add_outputs({names.LOGITS: _logits(spec, graph, x, None if early else picks)})
    for layer, pair in enumerate(present):
        graph.add_outputs(_named(cache_names.present(layer, part), pair))
    _layer_outputs(graph, given)
    return graph


def hub_decoder_model(spec: EncoderDecoderSpec, role: str, signatures: Signatures, new: Build) -> Graph:
    """input_ids (B,S), encoder_hidden_states (B,E,W) -> logits (B,S,V), present and cross keys and values.

    The decoder of the first step, or the merged one, which reads a past where use_cache_branch is true.
    """
    graph = new(role)
    inputs = graph.declare(signatures[role])
    encoded = inputs[names.ENCODER_HIDDEN_STATES]
    if role == roles.DECODER_MERGED:
        past, cross = _past_or_made(spec, graph, inputs)
    else:
        past, cross = _no_past(spec, graph, encoded), _cross(spec, graph, encoded)
    given = _given(spec, graph, spec.decoder, names.DECODER)
    x, present = decoder(spec.decoder, Cache.DYNAMIC, graph, inputs, past, cross, given)
    graph.add_outputs({names.LOGITS: _logits(spec, graph, x, None)})
    for layer, (own, source) in enumerate(zip(present, cross, strict=True)):
        graph.add_outputs(_named(cache_names.present(layer, cache_names.DECODER), own))
        graph.add_outputs(_named(cache_names.present(layer, cache_names.ENCODER), source))
    _layer_outputs(graph, given)
    return graph


def _past_or_made(spec: EncoderDecoderSpec, graph: Graph, inputs: Values) -> tuple[KeyValues, KeyValues]:
    """Keys and values (B,K,P,H) of past tokens and (B,K,E,H) of the encoder's, for each layer of the decoder.

    They are the inputs where use_cache_branch is true, and else those of no token and those that are made of
    encoder_hidden_states (B,E,W), of which nothing is left to multiply where they are not made. Weights
    stand in the main graph and once: runtimes open no linked file of weights from within a branch.
    """
    op, cached = graph.op, inputs[names.USE_CACHE_BRANCH]
    encoded = inputs[names.ENCODER_HIDDEN_STATES]
    length = op.Where(cached, [0], op.Shape(encoded, start=1, end=2))  # (1)
    made = _cross(spec, graph, op.Slice(encoded, [0], length, [1]))
    layers = range(len(made))
    parts = (cache_names.DECODER, cache_names.ENCODER)
    given = [_pair(inputs, cache_names.past(layer, part)) for part in parts for layer in layers]
    pairs = graph.choose(cached, given, [*_no_past(spec, graph, encoded), *made])
    return pairs[: len(made)], pairs[len(made) :]


def _logits(
    spec: DecoderSpec | EncoderDecoderSpec, graph: Graph, x: ir.Value, logits_indices: ir.Value | None
) -> ir.Value:
    """The decoder's x (B,S,W) -> logits (B,L,V)."""
    word = graph.matrix("decoder.embedding.word.weight") if spec.head.tied else None
    return causal_lm_head(spec.head, graph / "head", x, logits_indices, word)


def _pair(inputs: Values, pair: tuple[str, str]) -> tuple[ir.Value, ir.Value]:
    key, value = pair
    return inputs[key], inputs[value]


def _named(pair: tuple[str, str], values: tuple[ir.Value, ir.Value]) -> Values:
    return dict(zip(pair, values, strict=True))
