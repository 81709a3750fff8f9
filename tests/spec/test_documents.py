"""Specs of words in their boxes: contradictions are refused, JSON gives the same spec."""

import re
from dataclasses import replace

import pytest

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import SpecError
from txexport.spec import (
    Activation,
    AttentionSpec,
    BoxTablesSpec,
    DocumentSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    LayoutEmbeddingSpec,
    LayoutFlowSpec,
    ModelSpec,
    NormPlacement,
    NormSpec,
    PageBiasSpec,
    PageImageSpec,
    PositionKind,
    PositionSpec,
    RelativeSpec,
)
from txexport.spec.serialization import from_dict, to_dict


@pytest.fixture(scope="module")
def spec(checkpoint_of) -> DocumentSpec:
    return families.resolve(Checkpoint(checkpoint_of("layoutlmv3"))).spec


def test_json_gives_the_same_spec(spec):
    assert from_dict(ModelSpec, to_dict(spec)) == spec
    assert spec.encoder.embedding.boxes.size == 48
    assert spec.encoder.embedding.page.patches.length == 10


def embedding(stack, **changes):
    return replace(stack, embedding=replace(stack.embedding, **changes))


def attention(stack, **changes):
    block = stack.blocks[0]
    return replace(stack, blocks=(replace(block, attention=replace(block.attention, **changes)),))


MODELS = {
    "embedding.boxes is None, expected tables of boxes": lambda s: replace(
        s, encoder=embedding(s.encoder, boxes=None, page=None)
    ),
    "patches of 48 numbers follow words of 48, boxes=None": lambda s: embedding(s.encoder, boxes=None),
    "vectors of boxes have 47 numbers, those of words 48": lambda s: embedding(
        s.encoder, boxes=BoxTablesSpec(1001, 47, 47)
    ),
    "a head of kind 'masked_lm'": lambda s: replace(
        s, head=HeadSpec(HeadKind.MASKED_LM, tied=True, bias=True)
    ),
    "pooler is True under a head of kind 'tokens'": lambda s: replace(
        s, head=HeadSpec(HeadKind.TOKENS, tied=False, labels=3), pooler=True
    ),
    "causal=True; expected bidirectional attention": lambda s: replace(
        s, encoder=attention(s.encoder, causal=True)
    ),
    "relative is RelativeSpec, expected PageBiasSpec or None": lambda s: replace(
        s, encoder=replace(s.encoder, relative=RelativeSpec(8, 20, True))
    ),
    "boxes of words are read by a DocumentSpec alone": lambda s: EncoderSpec(s.encoder),
}
OWN = AttentionSpec(6, 3, 3, 2, causal=False)
PARTS = {
    "1000 rows, expected one for each of 0 to 1000": lambda: BoxTablesSpec(1000, 4, 4),
    "longest is 1001, expected 1 to 1000": lambda: BoxTablesSpec(1001, 4, 4, True, 1001),
    "vectors of 4 and 5 numbers are added": lambda: BoxTablesSpec(1001, 4, 5),
    "bidirectional=False, every_layer=False": lambda: PageBiasSpec(RelativeSpec(8, 20, False), None, 1.0),
    "LayoutEmbeddingSpec: positions are 'none', expected a table": lambda: LayoutEmbeddingSpec(
        BoxTablesSpec(1001, 1, 1, True), PositionSpec(PositionKind.NONE), NormSpec(6, 1e-5)
    ),
    "expected plain bidirectional attention": lambda: LayoutFlowSpec(
        replace(OWN, causal=True), None, NormSpec(6, 1e-5)
    ),
    "LayoutFlowSpec: norm or feed_forward is not as wide as attention, 6": lambda: LayoutFlowSpec(
        OWN, FeedForwardSpec(7, 9, Activation.GELU), NormSpec(6, 1e-5)
    ),
    "scale is 0.0": lambda: PageBiasSpec(RelativeSpec(8, 20, True), None, 0.0),
}


@pytest.mark.parametrize("reason", MODELS)
def test_contradictions_are_refused(spec, reason):
    with pytest.raises(SpecError, match=re.escape(reason)):
        MODELS[reason](spec)


@pytest.mark.parametrize("reason", PARTS)
def test_contradictions_of_parts_are_refused(reason):
    with pytest.raises(SpecError, match=re.escape(reason)):
        PARTS[reason]()


def test_patches_of_another_kind_are_refused(spec):
    patches = spec.encoder.embedding.page.patches
    for changes in ({"tokens": 2}, {"any_size": True}, {"bias": False}, {"registers": 1}):
        with pytest.raises(SpecError, match="expected one learned token, positions of one size"):
            PageImageSpec(replace(patches, **changes), NormSpec(48, 1e-5))


@pytest.fixture(scope="module")
def flows(checkpoint_of) -> DocumentSpec:
    return families.resolve(Checkpoint(checkpoint_of("lilt"))).spec


def test_json_gives_the_same_flows(flows):
    assert from_dict(ModelSpec, to_dict(flows)) == flows
    assert flows.encoder.boxes.size == flows.encoder.hidden_size == 48
    assert [block.layout.ends for block in flows.encoder.layers] == [False, True]


def layers(stack, **changes):
    return replace(stack, blocks=tuple(replace(block, **changes) for block in stack.blocks))


def flow(stack, **changes):
    return replace(
        stack,
        blocks=tuple(replace(block, layout=replace(block.layout, **changes)) for block in stack.blocks),
    )


FLOWS = {
    "a layout of 24 numbers, but a layer has None": lambda s: layers(s, layout=None),
    "a layout of None numbers, but a layer has LayoutFlowSpec": lambda s: replace(s, layout=None),
    "the layout must end in the last layer alone": lambda s: replace(s, blocks=s.blocks[:1]),
    "expected as of words": lambda s: replace(
        s, layout=replace(s.layout, position=replace(s.layout.position, size=30))
    ),
    "a layout with AttentionSpec, placement 'pre'": lambda s: layers(s, placement=NormPlacement.PRE),
    "layout has 6 heads, attention 3; expected as many": lambda s: flow(
        s, attention=AttentionSpec(24, 6, 6, 4, causal=False)
    ),
    "boxes of words are read by a DocumentSpec alone": EncoderSpec,
    "boxes or relative beside a layout, expected None": lambda s: DocumentSpec(
        embedding(s, boxes=BoxTablesSpec(1001, 48, 48))
    ),
}


@pytest.mark.parametrize("reason", FLOWS)
def test_contradictions_of_flows_are_refused(flows, reason):
    with pytest.raises(SpecError, match=re.escape(reason)):
        FLOWS[reason](flows.encoder)
