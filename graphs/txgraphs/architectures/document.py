"""The words of a page in their boxes under a head: one graph (Xu et al. 2020)."""

from functools import partial

from txexport.contracts import names, roles
from txexport.spec import Cache, DocumentSpec, HeadKind
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, add_layers, layers_of
from txgraphs.document_stack import document_encoder
from txgraphs.heads import head_outputs
from txgraphs.heads.vectors import pooler


def document_models(spec: DocumentSpec, cache: Cache, signatures: Signatures, new: Build) -> dict[str, Graph]:
    """The twin of txmodels' DocumentModel: tokens (B,S) and their boxes -> hidden states or scores."""
    graph = new(roles.MODEL)
    inputs = graph.declare(signatures[roles.MODEL])
    layers = layers_of(spec, graph, spec.encoder, None)
    x = document_encoder(spec.encoder, graph, inputs, layers)  # (B, S+P, W)
    op, labelled = graph.op, x
    if spec.encoder.embedding.page is not None and spec.head.kind == HeadKind.TOKENS:
        length = op.Shape(inputs[names.INPUT_IDS], start=1, end=2)
        labelled = op.Slice(x, [0], length, [1])  # (B, S, W)
    tokens = inputs[names.INPUT_IDS], inputs[names.ATTENTION_MASK]
    word = partial(graph.matrix, "encoder.embedding.word.weight")
    graph.add_outputs(head_outputs(spec.head, graph / "head", labelled, tokens, word))
    if spec.pooler:
        graph.add_outputs({names.POOLER_OUTPUT: pooler(graph / "pooler", x)})
    add_layers(graph, layers)
    return {roles.MODEL: graph}
