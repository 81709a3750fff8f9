"""Each component alone: the graph function in ONNX Runtime against the PyTorch module, over every switch."""

import itertools

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
import txgraphs.activation
import txgraphs.attention
import txgraphs.block
import txgraphs.embedding
import txgraphs.feedforward
import txgraphs.heads
import txgraphs.linear
import txgraphs.mask
import txgraphs.norm
import txgraphs.position
import txmodels.activation
import txmodels.attention
import txmodels.block
import txmodels.embedding
import txmodels.feedforward
import txmodels.heads
import txmodels.linear
import txmodels.mask
import txmodels.norm
import txmodels.position
from txgraphs._graph import Graph

from txexport import parameters
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    Cache,
    EmbeddingSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
)

B, S, P, C, E, W, N, H, F, V = 3, 5, 4, 12, 6, 24, 4, 6, 50, 31
ABSENT = None
DTYPES = {torch.int64: ir.DataType.INT64, torch.float32: ir.DataType.FLOAT, torch.bool: ir.DataType.BOOL}


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    """`module` with random parameters, no norm scale of 1 and no bias of 0."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.3 * noise if is_scale else 0.2 * noise)
    return module.eval()


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32))


def integers(high: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).integers(0, high, shape))


def run_graph(function, arguments, outputs, named_parameters) -> list[np.ndarray]:
    """The graph function called once in a session; an argument of None is absent."""
    tensors = {
        f"part.{name}": ir.tensor(parameter.detach().numpy(), name=f"part.{name}")
        for name, parameter in named_parameters
    }
    graph = Graph("component", tensors)
    inputs = [
        None
        if a is ABSENT
        else graph.input(f"input{i}", DTYPES[a.dtype], [f"in{i}_{j}" for j in range(a.ndim)])
        for i, a in enumerate(arguments)
    ]
    result = graph.call(function, *inputs, under="part", name="part")
    values = [result] if isinstance(result, ir.Value) else result
    for i, (value, output) in enumerate(zip(values, outputs, strict=True)):
        graph.output(value, f"output{i}", DTYPES[output.dtype], [f"out{i}_{j}" for j in range(output.ndim)])
    options = ort.SessionOptions()
    options.log_severity_level = 3
    model = ir.to_proto(graph.model("test")).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"input{i}": a.numpy() for i, a in enumerate(arguments) if a is not ABSENT})


def check(module, function, *arguments) -> list[np.ndarray]:
    """Both halves on the same arguments: equal outputs within 1e-5, and equal parameter names in order."""
    named = []
    if isinstance(module, torch.nn.Module):
        named = list(seeded(module).named_parameters())
        graph_names = [value.name for value in function.function_ir.inputs[len(arguments) :]]
        own = [name.replace(".", "_") for name, _ in named]
        assert [name for name in graph_names if name in own] == own
    with torch.no_grad():
        expected = module(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = run_graph(function, arguments, expected, named)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == tuple(b.shape)
        assert np.abs(a.astype(np.float64) - b.numpy()).max() <= 1e-5
    return found


NORM = NormSpec(W, 1e-3)


def attention_spec(heads: int, bias: bool, scale: float | None, causal: bool = True) -> AttentionSpec:
    return AttentionSpec(W, N, heads, H, causal=causal, bias=bias, scale=scale)


ATTENTIONS = list(itertools.product([N, 2, 1], [True, False], [None, 0.7]))


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    check(txmodels.linear.Linear(W, F, bias), txgraphs.linear.linear(bias), random(B, S, W))


@pytest.mark.parametrize("kind", Activation)
def test_activation(kind):
    check(txmodels.activation.activation(kind), txgraphs.activation.activation(kind), 3 * random(B, S, W))


@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.5])
def test_norm(eps):
    spec = NormSpec(W, eps)
    check(txmodels.norm.Norm(spec), txgraphs.norm.norm(spec), random(B, S, W))


@pytest.mark.parametrize("start", [[0], [3], [0, 4, 2]])
def test_positions(start):
    found = check(
        txmodels.position.positions, txgraphs.position.positions, integers(V, B, S), torch.tensor(start)
    )
    assert found[0].tolist() == [list(range(first, first + S)) for first in start]


MASK = torch.tensor([[1] * 9, [0] * 4 + [1] * 5, [1, 0, 1, 1, 1, 1, 1, 0, 0]])


@pytest.mark.parametrize("name", ["padding_mask", "causal_mask"])
@pytest.mark.parametrize("length", [1, 5, 9])
def test_mask(name, length):
    check(getattr(txmodels.mask, name), getattr(txgraphs.mask, name), MASK, integers(V, B, length))


@pytest.mark.parametrize("norm", [None, NORM])
@pytest.mark.parametrize("scale", [1.0, 3.5])
@pytest.mark.parametrize("segments", [0, 2])
@pytest.mark.parametrize(
    "position",
    [
        PositionSpec(PositionKind.LEARNED, 20, 2),
        PositionSpec(PositionKind.LEARNED, 20),
        PositionSpec(PositionKind.NONE),
    ],
)
def test_embedding(position, segments, scale, norm):
    spec = EmbeddingSpec(V, W, position, segments, norm, scale)
    ids, places = integers(V, B, S), torch.arange(S)[None]
    types = integers(2, B, S) if segments else ABSENT
    module, function = txmodels.embedding.Embedding(spec), txgraphs.embedding.embedding(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.embedding(spec)
    check(module, function, ids, places, types)


@pytest.mark.parametrize(("heads", "bias", "scale"), ATTENTIONS)
def test_attention(heads, bias, scale):
    spec = attention_spec(heads, bias, scale)
    mask = torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(3)) < 0.6
    mask[1, 0, 2] = False  # a query that sees nothing
    check(txmodels.attention.Attention(spec), txgraphs.attention.attention(spec), random(B, S, W), mask)


@pytest.mark.parametrize("past", [0, P])
@pytest.mark.parametrize(("heads", "bias", "scale"), ATTENTIONS)
def test_dynamic_attention(heads, bias, scale, past):
    spec = attention_spec(heads, bias, scale)
    caches = random(B, heads, past, H), random(B, heads, past, H) + 1
    mask = torch.rand(B, 1, S, past + S, generator=torch.Generator().manual_seed(3)) < 0.6
    arguments = (random(B, S, W), mask, ABSENT, *caches)
    module = txmodels.attention.CachedAttention(spec, Cache.DYNAMIC)
    check(module, txgraphs.attention.cached_attention(spec, Cache.DYNAMIC), *arguments)


@pytest.mark.parametrize("lengths", [[0, 0, 0], [2, 0, 7], [7, 7, 7]])
@pytest.mark.parametrize(("heads", "bias", "scale"), ATTENTIONS)
def test_static_attention(heads, bias, scale, lengths):
    spec = attention_spec(heads, bias, scale)
    caches = random(B, heads, C, H) + 3, random(B, heads, C, H) + 4
    arguments = (random(B, S, W), ABSENT, torch.tensor(lengths), *caches)
    module = txmodels.attention.CachedAttention(spec, Cache.STATIC)
    check(module, txgraphs.attention.cached_attention(spec, Cache.STATIC), *arguments)


def test_static_and_dynamic_attention_agree():
    spec = attention_spec(2, True, None)
    static = seeded(txmodels.attention.CachedAttention(spec, Cache.STATIC))
    dynamic = seeded(txmodels.attention.CachedAttention(spec, Cache.DYNAMIC))
    x, k, v = random(B, S, W), random(B, 2, P, H), random(B, 2, P, H) + 1
    buffers = [torch.cat([past, random(B, 2, C - P, H) + 5], dim=2) for past in (k, v)]
    causal = torch.arange(P + S) <= torch.arange(P, P + S)[:, None]
    with torch.no_grad():
        y, _, _ = static(x, None, torch.full((B,), P), *buffers)
        expected, _, _ = dynamic(x, causal.expand(B, 1, S, P + S), None, k, v)
    assert (y - expected).abs().max() < 1e-6


@pytest.mark.parametrize(("heads", "bias", "scale"), ATTENTIONS)
def test_cross_attention(heads, bias, scale):
    spec = attention_spec(heads, bias, scale, causal=False)
    encoded = random(B, E, W)
    keys = txmodels.attention.CrossKeyValue(spec)
    k, v = check(keys, txgraphs.attention.cross_key_value(spec), encoded)
    mask = (torch.arange(E) < torch.tensor([6, 1, 4])[:, None])[:, None, None].expand(B, 1, S, E)
    arguments = (random(B, S, W), mask, torch.from_numpy(k), torch.from_numpy(v))
    check(txmodels.attention.CrossAttention(spec), txgraphs.attention.cross_attention(spec), *arguments)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [Activation.GELU, Activation.RELU])
def test_feed_forward(kind, bias):
    spec = FeedForwardSpec(W, F, kind, bias)
    check(txmodels.feedforward.FeedForward(spec), txgraphs.feedforward.feed_forward(spec), random(B, S, W))


def block_spec(placement: NormPlacement, bias: bool, cross: bool) -> BlockSpec:
    return BlockSpec(
        attention_spec(2, bias, None),
        FeedForwardSpec(W, F, Activation.GELU, bias),
        NORM,
        placement,
        attention_spec(N, bias, None, causal=False) if cross else None,
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("placement", NormPlacement)
def test_encoder_block(placement, bias):
    spec = block_spec(placement, bias, cross=False)
    module, function = txmodels.block.EncoderBlock(spec), txgraphs.block.encoder_block(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.block(spec)
    mask = torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(3)) < 0.6
    check(module, function, random(B, S, W), mask)


@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("cache", Cache)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("placement", NormPlacement)
def test_decoder_block(placement, bias, cache, cross):
    spec = block_spec(placement, bias, cross)
    module, function = txmodels.block.DecoderBlock(spec, cache), txgraphs.block.decoder_block(spec, cache)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.block(spec)
    static = cache == Cache.STATIC
    size = C if static else P
    past = random(B, 2, size, H), random(B, 2, size, H) + 1
    mask = ABSENT if static else torch.ones(B, 1, S, P + S, dtype=torch.bool).tril(P)
    lengths = torch.tensor([2, 0, 7]) if static else ABSENT
    crossed = (torch.ones(B, 1, S, E, dtype=torch.bool), random(B, N, E, H), random(B, N, E, H) + 1)
    arguments = (random(B, S, W), mask, lengths, *past, *(crossed if cross else (ABSENT,) * 3))
    check(module, function, *arguments)


def test_pooler():
    check(txmodels.heads.Pooler(W), txgraphs.heads.pooler(), random(B, S, W))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_masked_lm_head(tied, bias):
    spec = HeadSpec(HeadKind.MASKED_LM, tied, bias, Activation.GELU, NORM)
    module = txmodels.heads.MaskedLMHead(spec, W, V)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.head(spec, W, V)
    check(module, txgraphs.heads.masked_lm_head(spec), random(B, S, W), random(V, W))


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_causal_lm_head(tied, bias, indexed):
    spec = HeadSpec(HeadKind.CAUSAL_LM, tied, bias)
    picks = torch.tensor([[4, 0], [1, 1], [2, 3]]) if indexed else ABSENT
    module = txmodels.heads.CausalLMHead(spec, W, V)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.head(spec, W, V)
    check(module, txgraphs.heads.causal_lm_head(spec, indexed), random(B, S, W), picks, random(V, W))
