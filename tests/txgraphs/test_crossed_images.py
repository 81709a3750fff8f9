"""Images that a decoder attends to: both halves of each part on equal numbers, and the library's."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import txgraphs.attention
import txgraphs.gate
import txgraphs.image_mask
import txgraphs.inputs.tiles
import txgraphs.source_block
import txgraphs.tiled_stack
import txmodels.attention
import txmodels.gate
import txmodels.image_mask
import txmodels.inputs.tiles
import txmodels.source_block
import txmodels.tiled_stack
from helpers.twins import check, random, rows_of
from transformers import MllamaConfig
from transformers.models.mllama import modeling_mllama as original
from transformers.models.mllama.processing_mllama import (
    convert_sparse_cross_attention_mask_to_dense,
    get_cross_attention_token_mask,
)

from txexport.parts.inputs import OF_SPEC
from txexport.parts.inputs.tiles import tile_vectors
from txexport.runtime.generation.crossed_pictures import ALWAYS, spans_of
from txexport.runtime.generation.media import Medium
from txexport.runtime.image_keys import ImageKeys
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    FeedForwardSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    SourceAttentionSpec,
    TilesSpec,
)
from txexport.spec.attention_parameters import cross_key_value
from txexport.spec.parameters import block as block_parameters

TILES, RATIOS, W = 3, 5, 8
VECTORS = 4  # of a tile, in masks
SPEC = TilesSpec(W, 6, 3, TILES, RATIOS, NormSpec(W, 1e-5))
HEAD_NORM = NormSpec(2, 1e-4, NormKind.RMS)
CROSS = AttentionSpec(W, 4, 2, 2, causal=False, bias=False, output_bias=False, head_norm=HEAD_NORM)
BLOCK = BlockSpec(
    SourceAttentionSpec(CROSS, TILES * VECTORS),
    FeedForwardSpec(W, 10, Activation.SILU, bias=False, gated=True),
    NormSpec(W, 1e-4, NormKind.RMS),
    NormPlacement.PRE,
    gated=True,
)
CONFIG = MllamaConfig(
    vision_config={
        "hidden_size": W,
        "max_num_tiles": TILES,
        "image_size": 6,
        "patch_size": 3,
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1], [1, 3], [3, 1]],
        "num_hidden_layers": 1,
        "num_global_layers": 1,
        "attention_heads": 2,
        "intermediate_size": 10,
        "intermediate_layers_indices": [0],
        "vision_output_dim": 2 * W,
    },
    text_config={
        "hidden_size": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 10,
        "rms_norm_eps": 1e-4,
    },
)
IMAGE = 9  # the id of a token of an image
ROWS = [
    [1, IMAGE, 2, 3],
    [IMAGE, 1, 2, 3],
    [1, IMAGE, IMAGE, 2, 3],
    [IMAGE, 1, IMAGE, IMAGE],
    [1, 2, IMAGE, 3, IMAGE, 4, IMAGE],
]


def shapes_of(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def test_gate():
    check(txmodels.gate.Gate(), txgraphs.gate.gate, random(2, 3, W))


def test_vectors_of_tiles_are_those_of_the_library():
    module = txmodels.inputs.tiles.TileVectors(SPEC)
    ratios = torch.tensor([0, 5, 2])
    [y] = check(module, partial(txgraphs.inputs.tiles.tile_vectors, SPEC), ratios)
    theirs = original.MllamaPrecomputedAspectRatioEmbedding(CONFIG.vision_config)
    with torch.no_grad():
        theirs.embedding.weight.copy_(module.weight)
        theirs.gate.copy_(module.gate.weight)
        expected = theirs(torch.zeros(3, TILES, 1, W), ratios[:, None])
    assert {f"x.{name}": shape for name, shape in shapes_of(module).items()} == tile_vectors("x", SPEC)
    assert np.abs(y - expected.numpy()).max() < 1e-6


def test_tiles_embedding_is_that_of_the_library():
    module = txmodels.inputs.tiles.TilesEmbedding(SPEC)
    assert shapes_of(module) == OF_SPEC[TilesSpec].parameters(SPEC)
    pixels, ratios = random(2, *SPEC.shape), torch.tensor([4, 1])
    [x] = check(module, partial(txgraphs.inputs.tiles.tiles_embedding, SPEC), pixels, ratios)
    vision = original.MllamaVisionModel(CONFIG.vision_config).eval()
    indices, before = vision.gated_positional_embedding, vision.pre_tile_positional_embedding
    pairs = [
        (vision.patch_embedding.weight, module.project.weight),
        (vision.class_embedding, module.token.weight[0]),
        (before.embedding.weight, module.before.weight),
        (before.gate, module.before.gate.weight),
        (indices.embedding, module.position.weight),
        (indices.gate, module.position_gate.weight),
        (indices.tile_embedding.weight, module.tile_position.weight),
        (vision.layernorm_pre.weight, module.norm.weight),
        (vision.layernorm_pre.bias, module.norm.bias),
    ]
    read = []
    vision.transformer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
        vision(pixels[None], ratios[None], torch.ones(1, 2, TILES, dtype=torch.long))
    expected = read[0].unflatten(1, (TILES, -1))
    assert x.shape == (2, TILES, SPEC.padded, W) == expected.shape
    assert np.abs(x - expected.numpy()).max() < 1e-5
    assert not x[:, :, SPEC.vectors_of_tile :].any()


@pytest.mark.parametrize("tiles", [[[1, 1, 1]], [[1, 0, 0], [1, 1, 0]]], ids=str)
def test_padding_sees_no_padding(tiles):
    mask = torch.tensor(tiles)
    module = partial(txmodels.tiled_stack.tile_attention_mask, 5, 8)
    [seen] = check(module, txgraphs.tiled_stack.tile_attention_mask(5, 8), mask)
    expected = original._prepare_aspect_ratio_attention_mask(mask, 5, 8, torch.float32)
    assert np.array_equal(seen, (expected == 0).numpy())


def dense(row, tiles, most):
    """The tiles (S,I,T) that each token of a row sees, by the library's processor."""
    spans = get_cross_attention_token_mask(row, IMAGE)
    return convert_sparse_cross_attention_mask_to_dense([spans], [tiles], most, len(row))[0]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_tokens_see_the_images_that_they_see_in_the_library(row):
    """A token that sees none attends to every tile, and its network adds nothing; padding is never seen."""
    indices = [place for place, token in enumerate(row) if token == IMAGE]
    tiles = [1 + number % TILES for number in range(len(indices))]
    media = tuple(Medium(p, 1, b"", keys=ImageKeys({}, n)) for p, n in zip(indices, tiles, strict=True))
    spans = np.concatenate([spans_of(media), np.zeros((1, 3), np.int64)])  # and padding
    length = (len(indices) + 1) * TILES * VECTORS + 3
    k, order = torch.zeros(1, 1, length, 2), torch.arange(len(row))[None]
    module = partial(txmodels.image_mask.image_mask, TILES, VECTORS)
    function = txgraphs.image_mask.image_mask(TILES, VECTORS)
    mask, sees = check(module, function, torch.from_numpy(spans)[None], order, k)
    expected = dense(row, tiles, TILES)
    added, full = original._prepare_cross_attention_mask(
        torch.from_numpy(expected)[None].float(), VECTORS, torch.float32
    )
    real = len(indices) * TILES * VECTORS
    assert np.array_equal(mask[0, :, :real], (added[0, 0] == 0).numpy())
    assert not mask[0, :, real:].any()
    assert np.array_equal(sees[0, :, 0], full[0, 0, :, 0].numpy() > 0)


def test_later_tokens_see_what_the_last_one_of_the_prompt_sees():
    media = tuple(Medium(place, 1, b"", keys=ImageKeys({}, 1)) for place in (1, 4, 5))
    assert spans_of(media).tolist() == [[1, 4, 1], [4, ALWAYS, 1], [5, ALWAYS, 1]]


def test_without_images_nothing_is_seen():
    """Rows of texts in a batch, and a batch of texts alone, in which attention still needs a key."""
    for images, length in ((0, 1), (2, 2 * TILES * VECTORS)):
        spans = torch.zeros(2, images, 3, dtype=torch.long)
        module = partial(txmodels.image_mask.image_mask, TILES, VECTORS)
        function = txgraphs.image_mask.image_mask(TILES, VECTORS)
        order = torch.arange(3).expand(2, -1)
        mask, sees = check(module, function, spans, order, torch.zeros(2, 1, length, 2))
        assert mask.shape == (2, 3, length)
        assert not mask.any()
        assert not sees.any()


def test_keys_are_normalised():
    module = txmodels.attention.CrossKeyValue(CROSS)
    assert shapes_of(module) == cross_key_value(CROSS)
    check(module, partial(txgraphs.attention.cross_key_value, CROSS), random(2, 5, W))


@pytest.fixture
def attended():
    """x (B,S,W), mask (B,S,E), whether each token sees an image (B,S,1), k and v of E vectors."""
    generator = np.random.default_rng(3)
    sees = torch.tensor([[False, True, True], [True, True, False]])[..., None]
    mask = torch.from_numpy(generator.random((2, 3, 7)) < 0.6)
    mask[..., 0] = True
    mask[1, 2] = False  # of a row without images
    return random(2, 3, W), mask, sees, random(2, 2, 7, 2), random(2, 2, 7, 2).flip(0)


def test_source_block_is_that_of_the_library(attended):
    x, mask, sees, k, v = attended
    module = txmodels.source_block.SourceBlock(BLOCK)
    assert shapes_of(module) == block_parameters(BLOCK)
    [y] = check(module, partial(txgraphs.source_block.source_block, BLOCK), *attended)
    layer = original.MllamaCrossAttentionDecoderLayer(CONFIG.text_config, layer_idx=0).eval()
    layer.cross_attn.config._attn_implementation = "eager"
    renamed = {
        "attention.q": "cross_attn.q_proj",
        "attention.o": "cross_attn.o_proj",
        "attention.q_norm": "cross_attn.q_norm",
        "attention_norm": "input_layernorm",
        "feed_forward_norm": "post_attention_layernorm",
        **{f"feed_forward.{name}": f"mlp.{name}_proj" for name in ("up", "gate", "down")},
    }
    state = {f"{theirs}.weight": module.get_parameter(f"{ours}.weight") for ours, theirs in renamed.items()}
    state["cross_attn_attn_gate"] = module.attention_tanh_gate.weight
    state["cross_attn_mlp_gate"] = module.feed_forward_tanh_gate.weight

    cache = SimpleNamespace(layers=[SimpleNamespace(keys=k, values=v)])
    with torch.no_grad():
        layer.load_state_dict(state, strict=False)
        added = torch.where(mask[:, None], 0.0, torch.finfo(torch.float32).min)
        full = sees[:, None].float()  # (B, 1, S, 1)
        expected = layer(x, None, added, None, full, cache=cache)
    seen = mask.any(dim=2)
    assert (torch.from_numpy(y) - expected)[seen].abs().max() < 1e-5
    assert torch.equal(torch.from_numpy(y)[~seen], x[~seen])  # a text alone passes unchanged


def test_source_block_of_tokens_asked_for(attended):
    picks = torch.tensor([[2, 0], [1, 1]])
    module = txmodels.source_block.SourceBlock(BLOCK)
    function = partial(txgraphs.source_block.source_block, BLOCK)
    [y] = check(module, function, *attended, logits_indices=picks)
    with torch.no_grad():
        every = module(*attended)
    assert np.abs(y - rows_of(every, picks, 1).numpy()).max() < 1e-5
