"""BioGPT (Luo et al. 2022): GPT-2's layers with scaled word embeddings, positions with an offset of 2."""

import math

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = _causal.tasks("BioGpt", spans=False)

NAMING = Naming("biogpt.")
EPS, OFFSET = 1e-5, 2  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    size = config.integer("max_position_embeddings", 1024) + OFFSET
    stack = stack_spec(
        config, PositionSpec(PositionKind.LEARNED, size, OFFSET), config.integer("intermediate_size")
    )
    return _causal.model(config, task, stack, tied=True)


def stack_spec(config: Config, position: PositionSpec, intermediate_size: int) -> TextStackSpec:
    """The stack, also of families with the same names in config.json."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm, activation = NormSpec(width, EPS), config.activation("hidden_act", "gelu")
    block = BlockSpec(
        AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=True),
        FeedForwardSpec(width, intermediate_size, activation),
        norm,
        NormPlacement.PRE,
    )
    scale = math.sqrt(width) if config.flag("scale_embedding", True) else 1.0
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position, scale=scale)
    return TextStackSpec(embedding, (block,), config.count("num_hidden_layers"), final_norm=norm)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return Table(
        rules(spec, "output_projection")
        | {f"{_causal.stack_name(spec)}.embedding.position.*": "embed_positions.*"},
        NAMING,
        drop=_causal.other_heads(spec, "output_projection"),
    )


def rules(spec: EncoderSpec | DecoderSpec, projection: str) -> Rules:
    """Tensor names without positions; a language model's head is called `projection`."""
    stack, source = _causal.stack_name(spec), "layers.{i}"
    layer = f"{stack}.layers.{{i}}"
    copies = _causal.copies(spec, projection)
    result: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_tokens.weight", also=copies),
        f"{layer}.attention.q.*": f"{source}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": f"{source}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": f"{source}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": f"{source}.self_attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{source}.self_attn_layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{source}.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.final_layer_norm.*",
        f"{stack}.final_norm.*": "layer_norm.*",
    }
    return result | _causal.head_rules(spec, projection)
