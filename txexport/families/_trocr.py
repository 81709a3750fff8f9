"""TrOCR's decoder (Li et al. 2021): BART's, with cross-attention to an image encoder of another width."""

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _causal, _mbart_decoder, bart
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    DecoderSpec,
    EncoderSpec,
    NormPlacement,
    PositionKind,
    PositionSpec,
)

TASKS = {"text-generation": ("TrOCRForCausalLM",)}

NAMING = Naming("model.")
ALIASES = {
    "num_attention_heads": "decoder_attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "decoder_layers",
}
DEFAULTS = {
    **{"vocab_size": 50265, "d_model": 1024, "max_position_embeddings": 512},
    **{"decoder_layers": 12, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes. Sinusoidal positions are refused: they skip padding."""
    config.expect(use_learned_position_embeddings=True)
    config = config.with_defaults(**DEFAULTS)
    rows, normed = (
        config.integer("max_position_embeddings") + bart.OFFSET,
        config.flag("layernorm_embedding", True),
    )
    position = PositionSpec(PositionKind.LEARNED, rows, bart.OFFSET)
    stack = bart.stack_spec(config, "decoder", NormPlacement.POST, position, normed)
    return _causal.model(config, task, _mbart_decoder.alone(stack), tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As BART's decoder's, with another name of the projection."""
    return _mbart_decoder.table(spec, "output_projection")
