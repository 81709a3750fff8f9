"""Words in their boxes and the patches of a page: both halves on the same numbers."""

from functools import partial

import pytest
import torch
import txgraphs.inputs.tokens
import txgraphs.layout
import txgraphs.page as graphs
import txmodels.inputs.tokens
import txmodels.layout
import txmodels.page as modules
from helpers.twins import ABSENT, check, integers, random

from txexport.parts.inputs.tokens import INPUT
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    BoxTablesSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayoutEmbeddingSpec,
    LayoutFlowSpec,
    NormPlacement,
    NormSpec,
    PageBiasSpec,
    PageImageSpec,
    PatchSpec,
    PositionKind,
    PositionSpec,
    RelativeSpec,
)
from txexport.spec.parameters import block, layout

B, S, W, N, V = 2, 5, 12, 3, 30
NORM = NormSpec(W, 1e-3)
PATCHES = PatchSpec(W, (7, 10), 3, channels=2, norm=NormSpec(W, 1e-6))
PAGE = PageImageSpec(PATCHES, NORM)
ADDED, JOINED = BoxTablesSpec(1001, W, W), BoxTablesSpec(1024, 2, 2, joined=True, longest=1023)


def boxes(rows: int = B) -> torch.Tensor:
    """Boxes of any order of edges, which only the joined tables take."""
    return integers(1001, rows, S, 4)


@pytest.mark.parametrize("spec", [ADDED, JOINED, BoxTablesSpec(1001, 3, 5, True, 400)], ids=str)
def test_box_tables(spec):
    sides = boxes()
    if spec.longest is None:
        sides = torch.cat([sides[..., :2].minimum(sides[..., 2:]), sides[..., :2].maximum(sides[..., 2:])], 2)
    [y] = check(modules.BoxTables(spec), partial(graphs.box_tables, spec), sides)
    assert y.shape == (B, S, spec.size)


def test_page_image():
    module = modules.PageImage(PAGE)
    [y] = check(module, partial(graphs.page_image, PAGE), random(B, S, W), random(B, 2, 7, 10))
    assert y.shape == (B, S + 1 + 2 * 3, W)


def test_patches_have_boxes_of_their_places():
    """As `create_visual_bbox` of the original, which rounds down."""
    assert PAGE.boxes[:3] == [[1, 1, 999, 999], [0, 0, 333, 500], [333, 0, 666, 500]]
    assert PAGE.boxes[-1] == [666, 500, 1000, 1000]


@pytest.mark.parametrize("rows", [1, B])
def test_with_patches(rows):
    mask, order = integers(2, rows, S), torch.arange(S)[None]
    results = check(partial(modules.with_patches, PAGE), graphs.with_patches(PAGE), mask, boxes(rows), order)
    assert [tuple(one.shape) for one in results] == [(rows, S + 7), (rows, S + 7, 4), (1, S + 7)]


@pytest.mark.parametrize("edges", [None, RelativeSpec(12, 50, True)], ids=str)
def test_page_bias(edges):
    spec = PageBiasSpec(RelativeSpec(6, 9, True), edges, 0.25)
    [bias] = check(modules.PageBias(spec, N), partial(graphs.page_bias, spec), torch.arange(S)[None], boxes())
    assert bias.shape == (1 if edges is None else B, N, S, S)


@pytest.mark.parametrize("page", [None, PAGE], ids=["words", "words and patches"])
def test_embedding(page):
    position = PositionSpec(PositionKind.LEARNED, 20, 2)
    spec = EmbeddingSpec(V, W, position, type_vocab_size=2, norm=NORM, boxes=JOINED, page=page)
    module = txmodels.inputs.tokens.Embedding(spec)
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == INPUT.parameters(spec)
    tokens = integers(V, B, S), torch.arange(S)[None], integers(2, B, S), ABSENT
    beside = {"boxes": boxes()} | ({} if page is None else {"pixel_values": random(B, 2, 7, 10)})
    check(module, partial(txgraphs.inputs.tokens.embedding, spec), *tokens, **beside)


@pytest.mark.parametrize("offset", [0, 2])
def test_layout_embedding(offset):
    position = PositionSpec(PositionKind.LEARNED, 20, offset)
    spec = LayoutEmbeddingSpec(JOINED, position, NormSpec(6, 1e-3))
    module = txmodels.layout.LayoutEmbedding(spec)
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == layout(spec)
    function = partial(txgraphs.layout.layout_embedding, spec)
    [y] = check(module, function, boxes(), torch.arange(S)[None])
    assert y.shape == (B, S, 6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_layout_block(last, weighted):
    narrow, network = AttentionSpec(6, N, N, 2, causal=False), FeedForwardSpec(6, 10, Activation.GELU)
    flow = LayoutFlowSpec(narrow, None if last else network, NormSpec(6, 1e-3))
    sublayers = AttentionSpec(W, N, N, 4, causal=False), FeedForwardSpec(W, 20, Activation.GELU), NORM
    spec = BlockSpec(*sublayers, NormPlacement.POST, layout=flow)
    module = (txmodels.layout.LastLayoutBlock if last else txmodels.layout.LayoutBlock)(spec, weighted)
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == block(spec)
    build = txgraphs.layout.last_layout_block if last else txgraphs.layout.layout_block
    mask = torch.ones(B, 1, S, S, dtype=torch.bool)
    mask[0, :, :, 3:] = False
    results = check(module, partial(build, spec, weighted), random(B, S, W), random(B, S, 6), mask)
    assert len(results) == 1 + (not last) + weighted
