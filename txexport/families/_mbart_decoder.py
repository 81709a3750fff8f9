"""The decoders of BART and mBART without their encoder: MBartForCausalLM and BartForCausalLM."""

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

TASKS = {"text-generation": ("MBartForCausalLM", "BartForCausalLM")}

NAMING = Naming("model.")
ALIASES = bart.ALIASES
DEFAULTS = {
    **{"vocab_size": 50265, "d_model": 1024, "max_position_embeddings": 1024},
    **{"decoder_layers": 12, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes: mBART is pre-norm, BART post-norm."""
    config = config.with_defaults(**DEFAULTS)
    rows = config.integer("max_position_embeddings") + bart.OFFSET
    position = PositionSpec(PositionKind.LEARNED, rows, bart.OFFSET)
    placement = NormPlacement.PRE if config.text("model_type") == "mbart" else NormPlacement.POST
    stack = bart.stack_spec(config, "decoder", placement, position, normed=True)
    return _causal.model(config, task, alone(stack), tied=True)


def alone(stack: TextStackSpec) -> TextStackSpec:
    """`stack` without cross-attention."""

    def without_cross_attention(_: int, block: BlockSpec) -> BlockSpec:
        return replace(block, cross_attention=None)

    return _causal.each_layer(stack, without_cross_attention)


def table(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> Table:
    """The decoder's tensors as in BART, and those of its head, which is called `projection`."""
    word_embedding = Take("decoder.embed_tokens.weight", also=_causal.copies(spec, projection))
    rules: Rules = bart.stack_rules("decoder") | {"decoder.embedding.word.weight": word_embedding}
    return Table(rules | {"head.weight": f"{projection}.weight"}, NAMING)
