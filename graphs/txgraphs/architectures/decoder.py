"""A decoder without an encoder: one graph over a cache of past keys and values."""

from functools import partial

from txexport.contracts import names
from txexport.spec import Cache, DecoderSpec
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, add_layers, layers_of, past_of, present_of
from txgraphs.decoder_stack import decoder
from txgraphs.heads.causal_lm import causal_lm_head
from txgraphs.stack import embedded


def decoder_models(spec: DecoderSpec, cache: Cache, signatures: Signatures, new: Build) -> dict[str, Graph]:
    """The twin of txmodels' DecoderModel: input_ids (B,S), past -> logits (B,L,V), present."""
    (role,) = signatures  # roles.MODEL or roles.SHARED
    graph = new(role)
    inputs = graph.declare(signatures[role])
    past = past_of(spec.decoder, inputs)
    layers = layers_of(spec, graph, spec.decoder, None)
    picks = inputs.get(names.LOGITS_INDICES)
    # For unscored tokens the last layer computes only keys and values, unless its outputs are requested.
    joins = spec.decoder.layers[-1].joins_embedding  # its states need those of all tokens
    last, rest = (None, picks) if graph.asked or joins else (picks, None)
    embed = partial(embedded, spec.decoder, graph, "decoder", inputs)
    x, present = decoder(spec.decoder, cache, graph, inputs, past, None, layers, embed, last)
    word = graph.matrix("decoder.embedding.word.weight") if spec.head.tied else None
    graph.add_outputs({names.LOGITS: causal_lm_head(spec.head, graph / "head", x, rest, word)})
    graph.add_outputs(present_of(spec.decoder, present))
    add_layers(graph, layers)
    return {role: graph}
