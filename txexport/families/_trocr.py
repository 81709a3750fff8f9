"""TrOCR's decoder (Li et al. 2021): BART's, with cross-attention to an image encoder of another width."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal, bart
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    NormPlacement,
    PositionKind,
    PositionSpec,
    TextStackSpec,
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
    return _causal.model(config, task, _alone(stack), tied=True)


def _alone(stack: TextStackSpec) -> TextStackSpec:
    """`stack` without cross-attention."""

    def without_cross_attention(_: int, block: BlockSpec) -> BlockSpec:
        return replace(block, cross_attention=None)

    return _causal.each_layer(stack, without_cross_attention)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As BART's decoder's, with another name of the projection."""
    projection = "output_projection"
    word_embedding = Take("decoder.embed_tokens.weight", also=_causal.copies(spec, projection))
    rules: Rules = bart.stack_rules("decoder") | {"decoder.embedding.word.weight": word_embedding}
    return Table(rules | {"head.weight": f"{projection}.weight"}, NAMING)
