"""Disentangled attention: twins, the original, all lengths, older operators."""

import dataclasses
import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest
import torch
import txgraphs.disentangled_attention as graphs
import txgraphs.mask
import txmodels.disentangled_attention as models
import txmodels.mask
from helpers.sparse import LENGTHS, SIZES, N, W, padding, session_of
from helpers.twins import DTYPES, check, random, seeded, stored
from transformers.models.deberta_v2 import modeling_deberta_v2 as original
from txgraphs._graph import Graph
from txgraphs._lowering import NEWER

from txexport.spec import DisentangledAttentionSpec, NormSpec, RelativeVectorsSpec, attention_parameters

SPECS = [
    DisentangledAttentionSpec(*SIZES, *switches)
    for switches in itertools.product((True, False), repeat=3)
    if any(switches[:2])
]
VECTORS = {
    "buckets": RelativeVectorsSpec(20, 8),
    "buckets, normed": RelativeVectorsSpec(20, 8, NormSpec(W, 1e-3)),
    "single distances": RelativeVectorsSpec(7),
    "one more than there are": RelativeVectorsSpec(41),
    "published": RelativeVectorsSpec(512, 256),
}
ALL = pytest.mark.parametrize("spec", SPECS, ids=str)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def related(length: int, spec: RelativeVectorsSpec = VECTORS["buckets"]) -> tuple[torch.Tensor, ...]:
    """The relative position embedding of a sequence and its indices, seeded."""
    given = seeded(models.RelativeVectors(spec, W))(torch.zeros(1, length, dtype=torch.int64))
    return tuple(tensor.detach() for tensor in given)


def arguments(length: int) -> list[torch.Tensor]:
    return [random(3, length, W), txmodels.mask.mutual_mask(padding(length)), *related(length)]


@WEIGHTED
@ALL
def test_twins(spec, weighted):
    module = models.DisentangledAttention(spec, weighted)
    shapes = {key: tuple(p.shape) for key, p in module.named_parameters()}
    assert shapes == attention_parameters.disentangled_attention(spec)
    check(module, partial(graphs.disentangled_attention, spec, weighted), *arguments(5))


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name):
    spec = VECTORS[name]
    module, function = models.RelativeVectors(spec, W), partial(graphs.relative_vectors, spec)
    for length in LENGTHS:
        ids = torch.zeros(2, length, dtype=torch.int64)
        vectors, *_ = check(module, function, ids)
        assert vectors.shape == (1, spec.vectors(length), W)


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("length", [1, 2, 7, 40, 512, 700])
def test_places_are_those_of_the_original(name, length):
    """Each pair's row in the whole table, for both position terms."""
    spec = VECTORS[name]
    module = models.RelativeVectors(dataclasses.replace(spec, norm=None), 1)
    with torch.no_grad():
        module.weight.copy_(torch.arange(2 * spec.span)[:, None])
        vectors, of_query, of_key = module(torch.zeros(1, length, dtype=torch.int64))
    x = torch.zeros(1, length, 1)
    apart = original.build_relative_position(x, x, spec.buckets or -1, spec.max_distance)[0]
    rows = (apart + spec.span).clamp(0, 2 * spec.span - 1)
    every = vectors[0, :, 0].repeat(length, 1)  # (S, P)
    assert torch.equal(every.flatten()[of_query].long(), rows)
    assert torch.equal(every.flatten()[of_key].long(), rows)
    tokens = torch.arange(length)
    assert torch.equal(of_query // vectors.shape[1], tokens[:, None].expand(length, length))
    assert torch.equal(of_key // vectors.shape[1], tokens.expand(length, length))


def test_parts():
    check(txmodels.mask.mutual_mask, txgraphs.mask.mutual_mask, padding(13))
    x, vectors = random(3, 5, W), random(1, 7, W)
    rows = torch.from_numpy(check(models.together, graphs.together, x, vectors)[0])
    contents, positions = check(models.apart, graphs.apart, rows, x)
    assert np.array_equal(contents, x.numpy())
    assert np.array_equal(positions, vectors.numpy())


@pytest.mark.parametrize("opset", [24, 17])
@ALL
def test_one_graph_equals_its_module_at_every_length(spec, opset):
    module = seeded(models.DisentangledAttention(spec))
    graph = Graph("component", stored(module.named_parameters(), "part."))
    inputs = [
        graph.input(f"x{i}", DTYPES[a.dtype], [f"d{i}_{j}" for j in range(a.ndim)])
        for i, a in enumerate(arguments(5))
    ]
    [y] = graphs.disentangled_attention(spec, False, graph / "part", *inputs)
    graph.output(y, "y", ir.DataType.FLOAT, ["batch_size", "sequence_length", "width"])
    model = ir.to_proto(graph.model("test", opset))
    used = {node.op_type for f in model.functions for node in f.node}
    assert not used & {operator for operator, first in NEWER.items() if first > opset}
    session = session_of(model)
    read = {value.name for value in session.get_inputs()}
    for length in LENGTHS:
        given = arguments(length)
        with torch.no_grad():
            expected = module(*given)[0].numpy()
        feeds = {f"x{i}": a.numpy() for i, a in enumerate(given) if f"x{i}" in read}
        assert np.abs(session.run(None, feeds)[0] - expected).max() <= 1e-5, length


@ALL
def test_numbers_are_those_of_the_original(spec):
    """Outputs and weights, of padded queries too, which attend to all keys equally."""
    ours = seeded(models.DisentangledAttention(spec, weighted=True))
    terms = ["c2p"] * spec.content_to_position + ["p2c"] * spec.position_to_content
    positions = {"relative_attention": True, "position_buckets": 8, "max_relative_positions": 20}
    sizes = {"hidden_size": W, "num_attention_heads": N, "hidden_dropout_prob": 0.0}
    dropout = {"attention_probs_dropout_prob": 0.0}
    config = SimpleNamespace(
        **sizes, **positions, **dropout, pos_att_type=terms, share_att_key=spec.shared, attention_head_size=6
    )
    theirs = original.DisentangledSelfAttention(config).eval()
    names = {"q": "query_proj", "k": "key_proj", "v": "value_proj"}
    names |= {"k_position": "pos_key_proj", "q_position": "pos_query_proj"}
    values = {f"{names[key]}.{end}": p for key, end, p in parts(ours) if key != "o"}
    theirs.load_state_dict(values)
    table = seeded(models.RelativeVectors(VECTORS["buckets"], W)).weight
    for length in LENGTHS:
        x, mask, *given = arguments(length)
        with torch.no_grad():
            found, weights = ours(x, mask, *given)
            heads, expected = theirs(x, mask, output_attentions=True, rel_embeddings=table)
            assert (weights - expected).abs().max() <= 1e-6
            assert (found - ours.o(heads)).abs().max() <= 1e-5


def parts(module: torch.nn.Module) -> list[tuple[str, str, torch.Tensor]]:
    """The parameters of a module by the names of its parts."""
    return [(*name.split("."), parameter) for name, parameter in module.named_parameters()]
