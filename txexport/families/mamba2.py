"""Mamba-2 (Dao and Gu 2024): state spaces alone, without attention and without feed-forward networks."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal, _mamba2
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    StatefulSpec,
    TextStackSpec,
)

TASKS = {"text-generation": ("Mamba2ForCausalLM",)}

NAMING = Naming("backbone.", rename={"embedding.weight": "embeddings.weight"})
SETTINGS = {  # Bamba's names of them, and the default
    "num_heads": ("mamba_n_heads", 128),
    "head_dim": ("mamba_d_head", 64),
    "state_size": ("mamba_d_state", 128),
    "n_groups": ("mamba_n_groups", 8),
    "conv_kernel": ("mamba_d_conv", 4),
    "expand": ("mamba_expand", 2),
    "use_bias": ("mamba_proj_bias", False),
    "use_conv_bias": ("mamba_conv_bias", True),
    "layer_norm_epsilon": ("rms_norm_eps", 1e-5),
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; there is no limit of positions."""
    layer = _mamba2.layer(_mamba2.renamed(config, SETTINGS), config.integer("hidden_size"))
    return _causal.model(config, task, stack_spec(config, layer), tied=False)


def stack_spec(config: Config, layer: StatefulSpec) -> TextStackSpec:
    """Layers of one sublayer, pre-norm."""
    config.expect(rescale_prenorm_residual=False)  # with it, transformers scales weights that it loads
    width = config.integer("hidden_size")
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-5), NormKind.RMS)
    return TextStackSpec(
        EmbeddingSpec(config.integer("vocab_size"), width, PositionSpec(PositionKind.NONE)),
        (BlockSpec(layer, None, norm, NormPlacement.PRE),),
        config.count("num_hidden_layers"),
        final_norm=norm,
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack = _causal.stack_name(spec)
    return Table(
        _mamba2.rules(f"{stack}.layers.{{i}}.attention", "layers.{i}.mixer") | around(spec),
        NAMING,
        _causal.other_heads(spec),
    )


def around(spec: EncoderSpec | DecoderSpec) -> Rules:
    """The tensors of everything but the layers."""
    stack = _causal.stack_name(spec)
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embeddings.weight", also=_causal.copies(spec)),
        f"{stack}.layers.{{i}}.attention_norm.*": "layers.{i}.norm.*",
        f"{stack}.final_norm.*": "norm_f.*",
    }
    return rules | _causal.head_rules(spec)
