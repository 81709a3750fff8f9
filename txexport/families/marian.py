"""Marian (Junczys-Dowmunt et al. 2018): the post-norm encoder-decoder of Vaswani et al. 2017, sinusoidal."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.families._sinusoid import halves
from txexport.spec import EncoderDecoderSpec, NormPlacement, PositionKind, PositionSpec

TASKS = {"text2text-generation": ("MarianMTModel", "MarianModel")}

NAMING = bart.NAMING
ALIASES = bart.ALIASES


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False,
        normalize_before=False,
        normalize_embedding=False,
        add_final_layer_norm=False,
        static_position_embeddings=True,
    )
    position = PositionSpec(PositionKind.FIXED, config.positions(0))
    return bart.encoder_decoder_spec(
        config,
        names,
        NormPlacement.POST,
        positions=dict.fromkeys(bart.SIDES, position),
        normed=False,
        shared=config.flag("share_encoder_decoder_embeddings", True),
    )


def table(spec: EncoderDecoderSpec) -> Table:
    """As BART's; a checkpoint may store the sinusoids or not."""
    inherited = bart.table(spec)
    rules: Rules = {
        f"{side}.embedding.position.*": Take(f"{side}.embed_positions.*", computed=halves)
        for side in bart.SIDES
    }
    if spec.head.tied and not spec.shared_embedding:
        word_embedding = "decoder.embed_tokens.weight"
        rules["decoder.embedding.word.weight"] = Take(word_embedding, also=("lm_head.weight",))
    return Table(inherited.rules | rules, NAMING, inherited.drop)
