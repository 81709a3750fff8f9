"""XGLM (Lin et al. 2021): BioGPT's layers with sinusoidal positions."""

from functools import partial

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, biogpt
from txexport.families._config import Config, TensorNames
from txexport.families._sinusoid import stretched
from txexport.spec import DecoderSpec, EncoderSpec, PositionKind, PositionSpec

TASKS = {"text-generation": ("XGLMForCausalLM",), "feature-extraction": ("XGLMModel",)}

NAMING = Naming("model.")
ALIASES = {
    "num_attention_heads": "attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
}
PADDING = 1  # the row of zeros, before the offset of 2


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(add_cross_attention=False)
    if config.integer("pad_token_id", PADDING) >= biogpt.OFFSET:
        raise UnsupportedError(
            f"{config.path}: pad_token_id {config.values['pad_token_id']} shares its position with a token; "
            f"expected {PADDING}"
        )
    config = config.replaced(
        hidden_size=config.integer("d_model"),
        num_attention_heads=config.integer("attention_heads"),
        num_hidden_layers=config.integer("num_layers"),
        hidden_act=config.text("activation_function", "gelu"),
    )
    position = PositionSpec(PositionKind.FIXED, config.positions(biogpt.OFFSET), biogpt.OFFSET)
    stack = biogpt.stack_spec(config, position, config.integer("ffn_dim"))
    return _causal.model(config, task, stack, tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As BioGPT's; the position table is not stored."""
    position = Take("embed_positions.weights", computed=partial(stretched, padding=PADDING))
    rules: Rules = {f"{_causal.stack_name(spec)}.embedding.position.weight": position}
    return Table(biogpt.rules(spec, "lm_head") | rules, NAMING, drop=_causal.other_heads(spec))
