"""Specs of stacks in stages: contradictions, sizes, and JSON."""

from dataclasses import replace

import pytest

from txexport.contracts import ONE_PASS, with_outputs
from txexport.errors import SpecError, UnsupportedError
from txexport.inspection import flops
from txexport.inspection.summary import outline
from txexport.parts import check_outputs, parameters, signatures
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    CosineSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    MergingSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    Pick,
    PositionKind,
    PositionSpec,
    SpectrogramGridSpec,
    StagedStackSpec,
    StageSpec,
    TextStackSpec,
    VectorSpec,
    WindowAttentionSpec,
)
from txexport.spec.serialization import from_dict, to_dict

PATCHES = PatchGridSpec(12, (30, 41), 3, NormSpec(12, 1e-5))


def block(width: int, shift: int = 0) -> BlockSpec:
    attention = WindowAttentionSpec(width, 3, width // 3, 4, shift)
    return BlockSpec(
        attention, FeedForwardSpec(width, 20, Activation.GELU), NormSpec(width, 1e-5), NormPlacement.PRE
    )


MERGING = MergingSpec(12, 24, NormSpec(48, 1e-5))
FIRST = StageSpec((block(12), block(12, 2)), 3, MERGING)
LAST = StageSpec((block(24), block(24, 2)), 2)
STACK = StagedStackSpec(PATCHES, (FIRST, LAST), NormSpec(24, 1e-5))
TEXT = EmbeddingSpec(31, 12, PositionSpec(PositionKind.LEARNED, 10))
PLAIN = AttentionSpec(12, 3, 3, 4, causal=False, unmasked=True)

CONTRADICTIONS = {
    "shift is 4 in windows of 4": lambda: block(12, 4),
    "3 heads of 5, expected hidden_size, 12": lambda: WindowAttentionSpec(12, 3, 5, 4),
    "hidden is 0, expected a negative number": lambda: WindowAttentionSpec(12, 3, 4, 4, hidden=0),
    "trained_window is 1": lambda: CosineSpec(trained_window=1),
    "largest_bias is 0": lambda: CosineSpec(largest_bias=0),
    "MergingSpec: norm is 48 wide, expected 24": lambda: replace(MERGING, norm_last=True),
    "3 blocks for 2 layers": lambda: replace(LAST, blocks=(*LAST.blocks, block(24, 1))),
    "attention is AttentionSpec, expected WindowAttentionSpec": lambda: replace(
        LAST, blocks=(replace(block(12), attention=PLAIN),)
    ),
    "layers, merging and norm are .12, 24. wide": lambda: replace(LAST, merging=MERGING),
    "no stages": lambda: replace(STACK, stages=()),
    "stage 1 of 2 has a merging": lambda: replace(STACK, stages=(FIRST, FIRST)),
    "stage 0 of 2 has no merging": lambda: replace(STACK, stages=(LAST, LAST)),
    "stage 0 is 24 wide, what it reads 12": lambda: replace(STACK, stages=(LAST,)),
    "final norm is 12 wide, the stack 24": lambda: replace(STACK, final_norm=NormSpec(12, 1e-5)),
    "pixels hold no patch of 31": lambda: replace(PATCHES, patch_size=31),
    "PatchGridSpec: norm is 24 wide, patches 12": lambda: replace(PATCHES, norm=NormSpec(24, 1e-5)),
    "32 pixels of 5 bands in patches of 2": lambda: SpectrogramGridSpec(12, 5, 32, 2, None),
    "32 pixels of 8 bands in patches of 3": lambda: SpectrogramGridSpec(12, 8, 32, 3, None),
    "SpectrogramGridSpec: norm is 24 wide": lambda: SpectrogramGridSpec(12, 8, 32, 2, NormSpec(24, 1e-5)),
    "WindowAttentionSpec reads a grid": lambda: TextStackSpec(TEXT, (block(12),), 2),
    "picked by 'argmax_id'": lambda: EncoderSpec(STACK, vector=VectorSpec(Pick.ARGMAX_ID)),
    "reads no mask, but rows may be padded": lambda: EncoderSpec(
        TextStackSpec(TEXT, (replace(block(12), attention=replace(PLAIN, unmasked=False)),), 2),
        vector=VectorSpec(Pick.GLOBAL_AVERAGE),
    ),
}


@pytest.mark.parametrize("reason", CONTRADICTIONS)
def test_contradiction_says_why(reason):
    with pytest.raises(SpecError, match=reason):
        CONTRADICTIONS[reason]()


def test_layers_are_numbered_through_all_stages():
    assert [layer.attention.hidden_size for layer in STACK.layers] == [12] * 3 + [24] * 2
    assert [layer.attention.shift for layer in STACK.layers] == [0, 2, 0, 0, 2]
    assert STACK.grids((7, 10)) == [(7, 10), (4, 5)]
    names = [name for name in parameters(EncoderSpec(STACK)) if name.startswith("encoder.mergings")]
    assert names == [f"encoder.mergings.0.{part}" for part in ("norm.weight", "norm.bias", "project.weight")]


@pytest.mark.parametrize("cosine", [None, CosineSpec(trained_window=6)])
def test_json_and_back(cosine):
    kinds = [replace(one, attention=replace(one.attention, cosine=cosine)) for one in LAST.blocks]
    spec = EncoderSpec(replace(STACK, stages=(FIRST, replace(LAST, blocks=tuple(kinds)))))
    assert from_dict(EncoderSpec, to_dict(spec)) == spec


def test_hidden_states_have_the_widths_of_their_stages():
    """One before each stage and one after the last; no weights are offered, since no layer has all pairs."""
    spec = EncoderSpec(STACK)
    (graph,) = signatures(spec, with_outputs(ONE_PASS, ("hidden_states",))).values()
    shapes = {port.name: port.shape for port in graph.outputs}
    assert [shapes[f"hidden_states.{number}"][-1] for number in range(3)] == [12, 24, 24]
    lengths = {shapes[f"hidden_states.{number}"][1] for number in (1, 2)}
    assert lengths == {shapes["last_hidden_state"][1]} != {shapes["hidden_states.0"][1]}
    with pytest.raises(UnsupportedError, match="has window attention"):
        check_outputs(spec, ("attentions",))


def test_operations_are_those_of_each_stages_grid():
    """Every vector is multiplied with the matrices of its stage, and sees the vectors of one window."""
    work = flops.prefill(EncoderSpec(STACK), 1)["encoder"]
    vectors = [10 * 14, 5 * 7]
    matrices = [3 * (4 * 12 * 12 + 2 * 12 * 20), 2 * (4 * 24 * 24 + 2 * 24 * 20)]
    expected = sum(2 * count * size for count, size in zip(vectors, matrices, strict=True))
    assert work.matrices == expected + 2 * vectors[1] * 48 * 24 + 2 * vectors[0] * 12 * 3 * 9
    assert work.attention == 4 * 16 * (3 * 12 * vectors[0] + 2 * 24 * vectors[1])


def test_outline_names_the_stages():
    assert outline(STACK).startswith(
        "2 stages of 3 / 2 layers of widths 12 / 24, 3 heads of 4 / 3 heads of 8, feed-forward 20 (gelu), 30"
    )
