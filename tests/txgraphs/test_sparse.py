"""Attention of less than quadratic cost: twins, independent references, older operators, memory."""

from functools import partial
from itertools import pairwise, product

import numpy as np
import onnx.inliner
import onnx_ir as ir
import pytest
import torch
import txgraphs.attention
import txgraphs.blocks
import txgraphs.bottleneck
import txgraphs.linformer_attention
import txgraphs.local_attention
import txgraphs.longformer_attention
import txgraphs.low_rank_attention
import txgraphs.performer_attention
import txgraphs.strided_attention
import txmodels.attention
import txmodels.blocks
import txmodels.bottleneck
import txmodels.linformer_attention
import txmodels.local_attention
import txmodels.longformer_attention
import txmodels.low_rank_attention
import txmodels.performer_attention
import txmodels.strided_attention
from helpers.sparse import LENGTHS, SIZES, H, L, N, W, marks, padding, session_of
from helpers.twins import DTYPES, check, integers, random, seeded, stored
from transformers import LongformerConfig, LongformerModel
from txgraphs._graph import Graph
from txgraphs._lowering import NEWER
from txmodels._random_features import orthogonal

from txexport.errors import SpecError
from txexport.spec import (
    Activation,
    AttentionSpec,
    BottleneckSpec,
    Factored,
    FeedForwardSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    NormKind,
    NormSpec,
    PerformerAttentionSpec,
    Sharing,
    StridedAttentionSpec,
    attention_parameters,
)
from txexport.spec.serialization import from_dict, to_dict

NETWORK = FeedForwardSpec(N * H, 30, Activation.RELU)
SPECS = {
    "local": LocalAttentionSpec(*SIZES, 4),
    "local causal": LocalAttentionSpec(*SIZES, 4, causal=True),
    "local in blocks of 1": LocalAttentionSpec(*SIZES, 1, bias=False),
    "local in blocks of 5": LocalAttentionSpec(*SIZES, 5, bias=False),
    "strided": StridedAttentionSpec(*SIZES, 4),
    "strided by 1": StridedAttentionSpec(*SIZES, 1),
    "strided by 7": StridedAttentionSpec(*SIZES, 7, bias=False),
    "longformer": LongformerAttentionSpec(*SIZES, 4),
    "longformer, window of 10": LongformerAttentionSpec(*SIZES, 10, bias=False),
    "linformer": LinformerAttentionSpec(*SIZES, L, 5),
    "linformer, heads apart": LinformerAttentionSpec(*SIZES, L, 5, Sharing.NONE),
    "linformer, one for both": LinformerAttentionSpec(*SIZES, L, 5, Sharing.KEY_VALUE, bias=False),
    "low-rank value": LowRankAttentionSpec(*SIZES, 3, Factored.VALUE),
    "low-rank inputs": LowRankAttentionSpec(*SIZES, 3, Factored.INPUTS, bias=False),
    "low-rank": LowRankAttentionSpec(*SIZES, 3),
    "low-rank causal": LowRankAttentionSpec(*SIZES, 24, causal=True),
    "performer": PerformerAttentionSpec(*SIZES, 17),
    "bottleneck": BottleneckSpec(W, N, H, NETWORK, 3, NormSpec(N * H, 1, NormKind.NONE)),
    "bottleneck with norms": BottleneckSpec(W, N, H, NETWORK, 1, NormSpec(N * H, 1e-3)),
    "performer of few features": PerformerAttentionSpec(*SIZES, 5, 1e-2, bias=False),
}
FIRST = "-0x1.9976308035b9ep-6"  # of the directions of four blocks and a part
FILES = {
    LocalAttentionSpec: ("local_attention", "LocalAttention"),
    StridedAttentionSpec: ("strided_attention", "StridedAttention"),
    LongformerAttentionSpec: ("longformer_attention", "LongformerAttention"),
    LinformerAttentionSpec: ("linformer_attention", "LinformerAttention"),
    LowRankAttentionSpec: ("low_rank_attention", "LowRankAttention"),
    PerformerAttentionSpec: ("performer_attention", "PerformerAttention"),
    BottleneckSpec: ("bottleneck", "Bottleneck"),
    AttentionSpec: ("attention", "Attention"),
}


def twins(spec):
    """The PyTorch module with seeded weights, and the graph function."""
    file, name = FILES[type(spec)]
    switches = (spec, False) if isinstance(spec, AttentionSpec) else (spec,)
    component = partial(getattr(getattr(txgraphs, file), file), *switches)
    return seeded(getattr(getattr(txmodels, file), name)(spec)), component


def arguments(spec, length: int) -> list[torch.Tensor]:
    given = [random(3, length, W), padding(length)]
    return [*given, marks(length)] if isinstance(spec, LongformerAttentionSpec) else given


def model_of(module, function, given: list[torch.Tensor | None], opset: int) -> onnx.ModelProto:
    """The graph function called once, in operators of `opset`."""
    graph = Graph("component", stored(module.named_parameters(), "part."))
    inputs = [
        None if a is None else graph.input(f"x{i}", DTYPES[a.dtype], [f"d{i}_{j}" for j in range(a.ndim)])
        for i, a in enumerate(given)
    ]
    y = function(graph / "part", *inputs)
    y = y if isinstance(y, ir.Value) else y[0]  # of dense attention, whose weights might follow
    graph.output(y, "y", ir.DataType.FLOAT, ["batch_size", "sequence_length", "width"])
    return ir.to_proto(graph.model("test", opset))


def feed(given: list[torch.Tensor | None]) -> dict[str, np.ndarray]:
    return {f"x{i}": a.numpy() for i, a in enumerate(given) if a is not None}


@pytest.mark.parametrize("opset", [24, 17])
@pytest.mark.parametrize("name", SPECS)
def test_one_graph_equals_its_module_at_every_length(name, opset):
    spec = SPECS[name]
    module, function = twins(spec)
    shapes = {key: tuple(p.shape) for key, p in module.named_parameters()}
    assert shapes == getattr(attention_parameters, FILES[type(spec)][0])(spec)
    model = model_of(module, function, arguments(spec, 5), opset)
    used = {node.op_type for f in model.functions for node in f.node}
    assert not used & {operator for operator, first in NEWER.items() if first > opset}
    session = session_of(model)
    for length in LENGTHS:
        for batch in (1, 3):
            given = [a[:batch] for a in arguments(spec, length)]
            with torch.no_grad():
                expected = module(*given).numpy()
            found = session.run(None, feed(given))[0]
            assert found.shape == expected.shape
            assert np.abs(found - expected).max() <= 1e-5, (length, batch)


def test_layers_of_one_graph_may_differ():
    """Longformers have windows that grow from layer to layer (Beltagy et al. 2020, 4.1)."""
    first, second = (twins(SPECS[name]) for name in ("longformer", "local in blocks of 5"))
    third = twins(LongformerAttentionSpec(*SIZES, 10))
    named = {}
    for i, (module, _) in enumerate((first, second, third)):
        named |= stored(module.named_parameters(), f"{i}.")
    x, mask, chosen = arguments(SPECS["longformer"], 13)
    graph = Graph("layers", named)
    inputs = [
        graph.input(f"x{i}", DTYPES[a.dtype], ["B", "S", W][: a.ndim])
        for i, a in enumerate((x, mask, chosen))
    ]
    y = first[1](graph / "0", *inputs)
    y = second[1](graph / "1", y, inputs[1])
    y = third[1](graph / "2", y, *inputs[1:])
    graph.output(y, "y", ir.DataType.FLOAT, ["B", "S", W])
    with torch.no_grad():
        expected = third[0](second[0](first[0](x, mask, chosen), mask), mask, chosen).numpy()
    for opset in (24, 17):
        session = session_of(ir.to_proto(graph.model("test", opset)))
        assert np.abs(session.run(None, feed([x, mask, chosen]))[0] - expected).max() <= 1e-5


@pytest.mark.parametrize("name", SPECS)
def test_twins_have_the_same_parameters(name):
    spec = SPECS[name]
    check(*twins(spec), *arguments(spec, 5))


@pytest.mark.parametrize("length", [1, 3, 4, 9])
def test_blocks(length):
    ours, graphs, x = txmodels.blocks, txgraphs.blocks, random(3, length, W)
    size, first, last = torch.tensor([4]), torch.tensor(-2), torch.tensor(length)
    cut = torch.from_numpy(check(lambda x, c: ours.blocks(x, int(c)), graphs.blocks, x, size)[0])
    for name in ("rows", "columns", "preceded", "surrounded"):
        check(getattr(ours, name), getattr(graphs, name), cut)
    back = check(ours.joined, graphs.joined, ours.rows(cut), x)[0]
    assert np.array_equal(back, x.numpy())
    apart = check(lambda q, a, b: ours.distances(q, int(a), int(b)), graphs.distances, cut, first, last)[0]
    assert apart.tolist() == [[key - query for key in range(-2, length)] for query in range(cut.shape[2])]


def test_parts():
    longformer, graphs = txmodels.longformer_attention, txgraphs.longformer_attention
    chosen = torch.tensor([[0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    places, true = check(longformer.marked_tokens, graphs.marked_tokens, chosen)
    assert [row[real].tolist() for row, real in zip(places, true, strict=True)] == [[1, 3, 4], [], [0]]
    check(longformer.picked, graphs.picked, random(3, 5, W), integers(5, 3, 2))
    check(longformer.repeated, graphs.repeated, random(3, 2, W), random(3, 4, 2, 1))
    for sharing in (Sharing.NONE, Sharing.HEADS):
        along = txmodels.linformer_attention.LengthProjection(LinformerAttentionSpec(*SIZES, 9, 5, sharing))
        check(along, txgraphs.linformer_attention.length_projection, random(3, N, 7, H))
    for bias in (True, False):
        narrow = txmodels.low_rank_attention.LowRankLinear(W, 10, 3, bias)
        check(narrow, partial(txgraphs.low_rank_attention.low_rank_linear, bias), random(3, 5, W))


def dense(module, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Full attention with a mask (B,N or 1,S,S), in float64; a query without visible keys gets 0."""
    x, weights = x.double(), {name: p.detach().double() for name, p in module.named_parameters()}

    def project(part, x):
        return x @ weights[f"{part}.weight"].T + weights.get(f"{part}.bias", 0)

    q, k, v = (project(part, x).reshape(*x.shape[:2], N, H).transpose(1, 2) for part in "qkv")
    scores = (q @ k.transpose(2, 3) / H**0.5).masked_fill(~seen, -torch.inf)
    mixed = scores.softmax(-1).nan_to_num(0) @ v
    return project("o", mixed.transpose(1, 2).flatten(2))


def pattern(spec, length: int) -> torch.Tensor:
    """The visible keys of each query, token by token: (N or 1, S, S)."""
    seen = torch.zeros(N, length, length, dtype=torch.bool)
    for head in range(N):
        for query in range(length):
            for key in range(length):
                back = query - key
                if isinstance(spec, LocalAttentionSpec):
                    blocks = query // spec.block_size - key // spec.block_size
                    found = blocks in (0, 1) and back >= 0 if spec.causal else abs(blocks) <= 1
                elif head < N // 2:
                    found = 0 <= back <= spec.stride
                else:
                    found = back >= 0 and back % spec.stride == 0
                seen[head, query, key] = found
    return seen


@pytest.mark.parametrize("name", [name for name in SPECS if name.startswith(("local", "strided"))])
def test_blockwise_attention_equals_dense_attention_under_its_mask(name):
    spec = SPECS[name]
    module, _ = twins(spec)
    for length in LENGTHS:
        x, mask = arguments(spec, length)
        seen = pattern(spec, length) & mask.bool()[:, None, None, :]
        with torch.no_grad():
            assert (module(x, mask) - dense(module, x, seen)).abs().max() <= 1e-5, length


@pytest.mark.parametrize("name", [name for name in SPECS if name.startswith("linformer")])
def test_linformer_equals_its_formula(name):
    spec = SPECS[name]
    module, _ = twins(spec)
    e = module.e.weight.detach()
    f = e if spec.sharing == Sharing.KEY_VALUE else module.f.weight.detach()
    for length in LENGTHS:
        x, mask = arguments(spec, length)
        with torch.no_grad():
            q, k, v = (part(x).reshape(3, length, N, H) for part in (module.q, module.k, module.v))
            heads = torch.zeros(3, length, N, H)
            for row in range(3):
                real = mask[row].nonzero()[:, 0]
                for head in range(N):
                    own_e, own_f = (m[head] if spec.sharing == Sharing.NONE else m for m in (e, f))
                    keys, values = own_e[:, real] @ k[row, real, head], own_f[:, real] @ v[row, real, head]
                    shares = (q[row, :, head] @ keys.T / H**0.5).softmax(-1)
                    heads[row, :, head] = shares @ values
            assert (module(x, mask) - module.o(heads.flatten(2))).abs().max() <= 1e-5, length


def test_linformer_refuses_more_tokens_than_it_projects():
    spec = SPECS["linformer"]
    module, function = twins(spec)
    given = [random(1, L + 1, W), torch.ones(1, L + 1, dtype=torch.int64)]
    with pytest.raises(RuntimeError):
        module(*given)
    with pytest.raises(Exception, match="MatMul"):
        session_of(model_of(module, function, given, 24)).run(None, feed(given))


@pytest.mark.parametrize("name", [name for name in SPECS if name.startswith("low-rank")])
def test_low_rank_attention_equals_dense_attention_of_its_products(name):
    spec = SPECS[name]
    module, _ = twins(spec)
    whole = txmodels.attention.Attention(
        AttentionSpec(W, N, N, H, spec.causal, bias=spec.bias, output_bias=spec.bias)
    )
    products = {}
    for part in "qkvo":
        linear = getattr(module, part)
        factored = isinstance(linear, txmodels.low_rank_attention.LowRankLinear)
        products[f"{part}.weight"] = linear.weight @ linear.inner.weight if factored else linear.weight
        if spec.bias:
            products[f"{part}.bias"] = linear.bias
    whole.load_state_dict(products)
    for length in LENGTHS:
        x, mask = arguments(spec, length)
        seen = mask.bool()[:, None, None, :].expand(-1, 1, length, -1)
        if spec.causal:
            seen = seen & torch.ones(length, length, dtype=torch.bool).tril()
        with torch.no_grad():
            assert (module(x, mask) - whole(x, seen, None, None)[0]).abs().max() <= 1e-5, length


@pytest.mark.parametrize("name", [name for name in SPECS if name.startswith("performer")])
def test_performer_is_the_sum_over_pairs_of_its_features(name):
    """The paper's sums, pair by pair in float64 over real keys (Choromanski et al. 2021, 2.2, 2.3)."""
    spec = SPECS[name]
    module = twins(spec)[0].double()
    directions, scale = module.features.weight, H**-0.25
    for length in (5, 13):
        x, mask = random(3, length, W).double(), padding(length)
        q, k, v = (part(x).view(3, length, N, H) for part in (module.q, module.k, module.v))
        heads = torch.zeros(3, length, N, H, dtype=torch.float64)
        for row, head in product(range(3), range(N)):
            seen = mask[row].bool()
            queries, keys = (scale * of[row, :, head] for of in (q, k))
            keys, values = keys[seen], v[row, seen, head]
            most = (keys @ directions.T).max()
            for place, query in enumerate(queries):
                own = (query @ directions.T - query @ query / 2 - (query @ directions.T).max()).exp()
                weights = torch.stack(
                    [
                        (own + spec.epsilon)
                        @ ((key @ directions.T - key @ key / 2 - most).exp() + spec.epsilon)
                        for key in keys
                    ]
                )
                heads[row, place, head] = weights @ values / weights.sum()
        with torch.no_grad():
            assert (module(x, mask) - module.o(heads.flatten(2))).abs().max() <= 1e-12, length


def test_many_features_are_nearly_the_softmax():
    """Its random directions estimate exp(q k) without bias, so that more of them are closer to it."""
    errors = []
    for features in (30, 3000):
        module = txmodels.performer_attention.PerformerAttention(
            PerformerAttentionSpec(*SIZES, features, 1e-9)
        )
        directions = module.features.weight.clone()
        seeded(module)
        module.features.weight.copy_(directions)
        whole = txmodels.attention.Attention(AttentionSpec(W, N, N, H, False, bias=True, output_bias=True))
        whole.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("features")})
        x, mask = 0.5 * random(3, 13, W), padding(13)
        seen = mask.bool()[:, None, None, :].expand(-1, 1, 13, -1)
        with torch.no_grad():
            errors.append((module(x, mask) - whole(x, seen, None, None)[0]).abs().mean().item())
    assert errors[1] < errors[0] / 4, errors


def test_random_features_are_the_same_everywhere():
    """Bit for bit; orthogonal within a block of the head's size, with the lengths of normal vectors."""
    vectors = np.array(orthogonal(4 * 16 + 3, 16))
    assert vectors.shape == (67, 16)
    assert vectors[0, 0].hex() == FIRST
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for block in (unit[:16], unit[48:64], unit[64:]):
        assert np.abs(block @ block.T - np.eye(len(block))).max() < 1e-12
    assert abs((vectors**2).sum(1).mean() - 16) < 2
    assert abs(vectors.mean()) < 0.1
    assert abs(vectors.var() - 1) < 0.15


def reference(window: list[int]) -> LongformerModel:
    """A small model of transformers, a layer for each window."""
    config = LongformerConfig(
        attention_window=window,
        num_hidden_layers=len(window),
        hidden_size=W,
        num_attention_heads=N,
        intermediate_size=30,
        vocab_size=31,
        max_position_embeddings=64,
    )
    return seeded(LongformerModel(config))


PARTS = {
    "q": "self.query",
    "k": "self.key",
    "v": "self.value",
    "o": "output.dense",
    "q_global": "self.query_global",
    "k_global": "self.key_global",
    "v_global": "self.value_global",
}


@pytest.mark.parametrize("chosen", ["few", "none", "all"])
def test_longformer_equals_transformers(chosen):
    """In every layer of a whole model, which pads its input itself; at every position, padding included."""
    windows, calls = [4, 8], []
    model = reference(windows)
    for layer in model.encoder.layer:
        layer.attention.self.register_forward_hook(
            lambda _, inputs, output: calls.append((inputs[0], output[0]))
        )
    for length in LENGTHS:
        mask = padding(length)
        few = marks(length)
        tokens = {"few": few, "none": torch.zeros_like(few), "all": torch.ones_like(few)}[chosen]
        calls.clear()
        with torch.no_grad():
            model(input_ids=integers(31, 3, length), attention_mask=mask, global_attention_mask=tokens)
            for layer, window, (x, mixed) in zip(model.encoder.layer, windows, calls, strict=True):
                module = txmodels.longformer_attention.LongformerAttention(
                    LongformerAttentionSpec(*SIZES, window)
                )
                weights = layer.attention.state_dict()
                module.load_state_dict(
                    {
                        f"{a}.{kind}": weights[f"{b}.{kind}"]
                        for a, b in PARTS.items()
                        for kind in ("weight", "bias")
                    }
                )
                expected = layer.attention.output.dense(mixed)[:, :length]
                found = module(x[:, :length], mask, tokens)
                assert (found - expected).abs().max() <= 1e-5, (length, window)


@pytest.mark.parametrize("name", SPECS)
def test_padding_is_never_seen(name):
    spec = SPECS[name]
    module, _ = twins(spec)
    x, mask, *rest = arguments(spec, 13)
    loud = torch.where(mask.bool()[:, :, None], x, 1e3)
    with torch.no_grad():
        quiet, found = module(x, mask, *rest), module(loud, mask, *rest)
        nothing = module(x, torch.zeros_like(mask), *rest)
        zero = module.o(torch.zeros(1, 1, N * H))
    assert (quiet - found)[mask.bool()].abs().max() <= 1e-5
    if isinstance(spec, BottleneckSpec):
        return  # whose output is not that of attention alone
    assert (nothing - zero).abs().max() <= 1e-6


def intermediates(spec, length: int) -> int:
    """Bytes of all intermediate results of a graph for one sequence, in basic operators, unfused."""
    module, function = twins(spec)
    given = [random(1, length, W), torch.ones(1, length, dtype=torch.int64)]
    if isinstance(spec, LongformerAttentionSpec):
        given.append((torch.arange(length) < 2).long()[None])
    if isinstance(spec, AttentionSpec):
        given = [given[0], torch.ones(1, 1, length, length, dtype=torch.bool), None, None]
    model = onnx.inliner.inline_local_functions(model_of(module, function, given, 17))
    names = [name for node in model.graph.node for name in node.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    return sum(array.nbytes for array in session_of(model, optimised=False).run(None, feed(given)))


def growth(specs) -> list[float]:
    """Growth of each spec's intermediates at 256, 512 and 1024 tokens, as ratios."""
    sizes = [intermediates(spec, length) for spec, length in zip(specs, (256, 512, 1024), strict=True)]
    return [longer / shorter for shorter, longer in pairwise(sizes)]


@pytest.mark.parametrize(
    "spec",
    [
        LocalAttentionSpec(*SIZES, 16),
        LocalAttentionSpec(*SIZES, 16, causal=True),
        LongformerAttentionSpec(*SIZES, 32),
        LinformerAttentionSpec(*SIZES, 1024, 16),
    ],
    ids=str,
)
def test_memory_grows_as_the_sequence(spec):
    first, second = growth([spec] * 3)
    assert first * second < 4.2


def test_strided_memory_grows_less_than_the_square():
    fixed = growth([StridedAttentionSpec(*SIZES, 64)] * 3)
    rooted = growth([StridedAttentionSpec(*SIZES, stride) for stride in (16, 23, 32)])
    assert fixed[0] * fixed[1] < 5
    assert rooted[0] * rooted[1] < 8  # the power of 3/2


def test_performer_memory_grows_with_the_length():
    first, second = growth([PerformerAttentionSpec(*SIZES, 16)] * 3)
    assert first * second < 5


def test_dense_memory_grows_as_the_square():
    first, second = growth([AttentionSpec(W, N, N, H, causal=False)] * 3)
    assert first * second > 14


@pytest.mark.parametrize(
    ("message", "make"),
    {
        "block_size is 0": lambda: LocalAttentionSpec(*SIZES, 0),
        "stride is -1": lambda: StridedAttentionSpec(*SIZES, -1),
        "3 heads cannot be halved": lambda: StridedAttentionSpec(W, 3, H, 4),
        "a window of 5 has no two equal sides": lambda: LongformerAttentionSpec(*SIZES, 5),
        "9 sums of 8 tokens": lambda: LinformerAttentionSpec(*SIZES, 8, 9),
        "rank is 25, and a matrix has 24 at most": lambda: LowRankAttentionSpec(*SIZES, 25),
        "num_features is 0": lambda: PerformerAttentionSpec(*SIZES, 0),
        "epsilon is 0.0": lambda: PerformerAttentionSpec(*SIZES, 4, 0.0),
        "the networks are 20 wide, the norm 20, all heads 24": lambda: BottleneckSpec(
            *SIZES, FeedForwardSpec(20, 30, Activation.RELU), 2, NormSpec(20, 1e-3)
        ),
        "networks is 0": lambda: BottleneckSpec(*SIZES, NETWORK, 0, NormSpec(N * H, 1e-3)),
        "head_dim is 0": lambda: LowRankAttentionSpec(W, N, 0, 2),
    }.items(),
)
def test_a_spec_that_contradicts_itself_is_refused(message, make):
    with pytest.raises(SpecError, match=message):
        make()


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_survives_json(name):
    assert from_dict(type(SPECS[name]), to_dict(SPECS[name])) == SPECS[name]
