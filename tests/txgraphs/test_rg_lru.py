"""Gated linear recurrences: twins, float64, the block of transformers, and rows in pieces."""

from functools import partial

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
import txgraphs.linear_recurrence
import txgraphs.mask
import txgraphs.rg_lru
import txmodels.linear_recurrence
import txmodels.mask
import txmodels.new_tokens
import txmodels.rg_lru
from helpers.layer_pieces import new_tokens
from helpers.twins import DTYPES, check, integers, random, rows_of, seeded, stored
from transformers import RecurrentGemmaConfig
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRecurrentBlock
from txgraphs._graph import Graph

from txexport.spec import Activation, RgLruSpec
from txexport.spec.attention_parameters import attention

B, S, W = 3, 7, 12
SPECS = {
    "four blocks": RgLruSpec(W, 20, 4, 3, Activation.GELU_TANH),
    "one block": RgLruSpec(W, 9, 1, 2, Activation.SILU),
    "published kernel": RgLruSpec(W, 12, 2, 4, Activation.GELU_TANH),
}
EACH = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
SIDES = pytest.mark.parametrize("side", ["right", "left"])
COUNTS = {"full": [S] * B, "ragged": [S, 1, 4], "a row of none": [0, 3, S]}


def recurrence(decay, x, state) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence token by token, in float64."""
    outputs, state = [], state.double()
    for token in range(x.shape[1]):
        state = decay[:, token].double() * state + x[:, token].double()
        outputs.append(state)
    return torch.stack(outputs, 1), state


def first_of(counts: list[int], side: str = "right", length: int = S) -> torch.Tensor:
    """True (B,S,1) for the first token of each row."""
    steps, sizes = torch.arange(length), torch.tensor(counts)[:, None]
    begins = torch.zeros_like(sizes) if side == "right" else length - sizes
    return (steps == begins)[:, :, None]


def states_of(spec: RgLruSpec, rows: int = B) -> list[torch.Tensor]:
    """States of rows that have no past."""
    return [torch.zeros(rows, *shape) for shape in spec.states.values()]


def original_of(spec: RgLruSpec, module: torch.nn.Module) -> torch.nn.Module:
    """The block of transformers with the parameters of ours."""
    config = RecurrentGemmaConfig(
        hidden_size=W,
        lru_width=spec.width,
        num_attention_heads=spec.num_blocks,
        conv1d_width=spec.kernel,
        hidden_activation="silu" if spec.activation == Activation.SILU else "gelu_pytorch_tanh",
    )
    block = RecurrentGemmaRecurrentBlock(config, 0).eval()
    for ours, theirs in {"project": "x", "gate": "y", "output": "out"}.items():
        getattr(block, f"linear_{theirs}").load_state_dict(getattr(module, ours).state_dict())
    block.conv_1d.load_state_dict(module.convolution.state_dict())
    with torch.no_grad():
        block.rg_lru.recurrent_param.copy_(module.rate)
        for name in ("input_gate", "recurrent_gate"):
            gate = getattr(module, name)
            for number, linear in enumerate(getattr(gate, "groups", [gate])):
                getattr(block.rg_lru, f"{name}_weight")[number] = linear.weight.T
                getattr(block.rg_lru, f"{name}_bias")[number] = linear.bias
    return block


def by_original(block: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """One pass (1,S,W) of the original, which takes the state of the pass before it unless told not to."""
    with torch.no_grad():
        return block(x, torch.arange(x.shape[1])[None], None, use_cache=False)[0]


@pytest.mark.parametrize("length", [1, 2, 300])
def test_a_recurrence_equals_that_in_float64(length):
    """Channels that forget at once, and those that never do."""
    decay = torch.linspace(0, 1, 20).expand(B, length, 20).contiguous()
    inputs = decay, random(B, length, 20), random(B, 20)
    function = txgraphs.linear_recurrence.linear_recurrence
    ours = check(
        txmodels.linear_recurrence.linear_recurrence, lambda g, *values: function(g, *values), *inputs
    )
    for number, exact in zip(ours, recurrence(*inputs), strict=True):
        assert np.abs(number - exact.numpy()).max() < 2e-6 * exact.abs().max()


@SIDES
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@EACH
def test_each_row_is_that_of_transformers_alone(spec, counts, side):
    """Whatever pads it; a row without tokens keeps its states as they were."""
    module = seeded(txmodels.rg_lru.RgLru(spec))
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == attention(spec)
    x, block = random(B, S, W), original_of(spec, module)
    tokens = *new_tokens(counts, S, side), first_of(counts, side)
    y, *after = check(module, partial(txgraphs.rg_lru.rg_lru, spec), x, *states_of(spec), *tokens)
    for row, count in enumerate(counts):
        if not count:
            assert not any(state[row].any() for state in after)
            continue
        read = slice(0, count) if side == "right" else slice(S - count, S)
        np.testing.assert_allclose(y[row, read], by_original(block, x[row : row + 1, read])[0], atol=1e-5)
        np.testing.assert_allclose(after[1][row], block.rg_lru.recurrent_states[0], atol=1e-5)


@pytest.mark.parametrize("pieces", [[1] * S, [2, 5], [5, 1, 1]], ids=str)
@EACH
def test_pieces_equal_one_pass_of_transformers(spec, pieces):
    """The first token is that of the first piece alone."""
    module = seeded(txmodels.rg_lru.RgLru(spec))
    x, states, results = random(B, S, W), states_of(spec), []
    for number, piece in enumerate(x.split(pieces, dim=1)):
        length = piece.shape[1]
        first = first_of([length] * B, length=length) & (number == 0)
        tokens = *new_tokens([length] * B, length), first
        y, *states = map(
            torch.from_numpy, check(module, partial(txgraphs.rg_lru.rg_lru, spec), piece, *states, *tokens)
        )
        results.append(y)
    block, together = original_of(spec, module), torch.cat(results, dim=1)
    for row in range(B):
        torch.testing.assert_close(together[row], by_original(block, x[[row]])[0], atol=1e-5, rtol=0)


@EACH
def test_outputs_of_the_tokens_requested(spec):
    module, picks = seeded(txmodels.rg_lru.RgLru(spec)), integers(S, B, 2)
    inputs = random(B, S, W), random(B, spec.width, spec.kernel), random(B, spec.width)
    tokens = *new_tokens(COUNTS["ragged"], S), first_of(COUNTS["ragged"]) & False
    y, *after = check(module, partial(txgraphs.rg_lru.rg_lru, spec), *inputs, *tokens, picks)
    with torch.no_grad():
        every, *states = module(*inputs, *tokens)
    np.testing.assert_allclose(y, rows_of(every, picks, 1), atol=1e-6)
    for state, same in zip(after, states, strict=True):
        np.testing.assert_allclose(state, same, atol=1e-6)


def test_a_graph_of_a_known_length_loads():
    """ONNX Runtime infers shapes in both branches of a recurrence, that of one token too."""
    spec = SPECS["four blocks"]
    module = seeded(txmodels.rg_lru.RgLru(spec))
    inputs = {
        "x": random(1, S, W),
        "conv": torch.zeros(1, spec.width, spec.kernel),
        "recurrent": torch.zeros(1, spec.width),
        "real": torch.ones(1, S, 1),
        "ends": torch.tensor([S]),
        "first": first_of([S]),
    }
    graph = Graph("component", stored(module.named_parameters(), "part."))
    values = [graph.input(name, DTYPES[one.dtype], [*one.shape]) for name, one in inputs.items()]
    y, *_ = txgraphs.rg_lru.rg_lru(spec, graph / "part", *values)
    graph.output(y, "y", graph.dtype, [1, S, W])
    text = ir.to_proto(graph.model("test")).SerializeToString()
    session = ort.InferenceSession(text, providers=["CPUExecutionProvider"])
    [result] = session.run(None, {name: one.numpy() for name, one in inputs.items()})
    with torch.no_grad():
        expected, *_ = module(*inputs.values())
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("past", [0, 3])
@SIDES
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_first_tokens_of_a_mask(counts, side, past):
    """None where a row has tokens in the past; elsewhere its first, and of padding what changes nothing."""
    real, _ = new_tokens(counts, S, side)
    earlier = torch.zeros(B, past, dtype=torch.int64)
    earlier[1:, -1:] = 1
    mask = torch.cat([earlier, real[:, :, 0].long()], dim=1)
    ids = torch.zeros(B, S, dtype=torch.int64)
    [first] = check(txmodels.mask.first_tokens, txgraphs.mask.first_tokens, mask, ids)
    expected = first_of(counts, side).numpy() & (real.numpy() > 0)
    if past:
        expected[1:] = False
    np.testing.assert_array_equal(first & (real.numpy() > 0), expected)


def test_first_slots():
    slots = torch.tensor([[0, 1, 2], [3, 4, 5]])
    [first] = check(txmodels.mask.first_slots, txgraphs.mask.first_slots, slots)
    np.testing.assert_array_equal(first[:, :, 0], slots.numpy() == 0)


def test_a_row_without_a_mask_begins_where_the_cache_does():
    """The first token of a growing cache, and none behind past ones."""
    spec = type("Spec", (), {"blocks": [SPECS["one block"]]})
    ids = torch.zeros(B, S, dtype=torch.int64)
    for length in (0, 2):
        new = txmodels.new_tokens.new_tokens(
            spec, torch.float32, ids, torch.zeros(B, 1, length, 4), None, None, None
        )
        assert new["first"][:, :, 0].sum(1).tolist() == [int(length == 0)] * B
        assert new["real"].all()
