"""T5Gemma (Zhang et al. 2025): Gemma 2 as an encoder and as a decoder with cross-attention between norms."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import gemma2
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    Pick,
)

TASKS = {
    "text2text-generation": ("T5GemmaForConditionalGeneration", "T5GemmaModel"),
    "feature-extraction": ("T5GemmaEncoderModel",),
    "text-classification": ("T5GemmaForSequenceClassification",),
    "token-classification": ("T5GemmaForTokenClassification",),
}

NAMING = Naming("model.")
ALIASES: dict[str, str] = {}
# What config.json leaves out of `encoder` and `decoder` where it is the library's default.
DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 8192,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes, or its encoder under a head of labels or none."""
    sides = {name: config.table(name).with_defaults(**DEFAULTS) for name in ("encoder", "decoder")}
    encoder = gemma2.stack_spec(sides["encoder"], NormPlacement.SANDWICH, causal=False)
    if task != "text2text-generation":
        return EncoderSpec(encoder, _labels(config, task, sides["decoder"]))
    sides["decoder"].expect(is_causal=True)
    decoder = gemma2.stack_spec(sides["decoder"], NormPlacement.SANDWICH, crossed=encoder.hidden_size)
    tied, cap = config.flag("tie_word_embeddings", True), gemma2.logits_cap(sides["decoder"])
    return EncoderDecoderSpec(encoder, decoder, HeadSpec(HeadKind.CAUSAL_LM, tied=tied, softcap=cap))


def _labels(config: Config, task: str, decoder: Config) -> HeadSpec:
    """The head over the encoder alone. Without a padding id, the original reads one sequence's last token."""
    if config.flag("is_encoder_decoder", True):
        raise UnsupportedError(
            f"{config.path}: is_encoder_decoder=True is not supported for {task}, which would read the "
            "decoder's vectors; expected False, for those of the encoder"
        )
    if task == "feature-extraction":
        return HeadSpec()
    if task == "token-classification":
        return HeadSpec(HeadKind.TOKENS, tied=False, bias=True, labels=config.labels())
    padding = config.values.get("pad_token_id", decoder.values.get("pad_token_id", 0))
    return HeadSpec(
        HeadKind.SEQUENCE,
        tied=False,
        bias=True,
        labels=config.labels(),
        pick=Pick.LAST_UNMASKED if padding is None else Pick.LAST,
        pad_token_id=padding,
    )


def table(spec: EncoderSpec | EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, where weights of norms are stored minus 1."""
    rules: Rules = {"head.*": "score.out_proj.*"}
    drop: tuple[str, ...] = ("score.*", "lm_head.*", "decoder.*")
    if isinstance(spec, EncoderDecoderSpec):
        rules, drop = {"head.weight": "lm_head.out_proj.weight"}, ("score.*",)
    elif spec.head.kind != HeadKind.NONE:
        drop = ("lm_head.*", "decoder.*")
    for side, stack in spec.stacks.items():
        layer, tied = f"{side}.layers.{{i}}", side == "decoder" and spec.head.tied
        copies = ("lm_head.out_proj.weight",) if tied else ()
        rules[f"{side}.embedding.word.weight"] = Take(f"{side}.embed_tokens.weight", also=copies)
        rules |= {f"{layer}.attention.{name}.*": f"{layer}.self_attn.{name}_proj.*" for name in "qkvo"}
        for name in ("gate", "up", "down"):
            rules[f"{layer}.feed_forward.{name}.*"] = f"{layer}.mlp.{name}_proj.*"
        sublayers = {"attention": "self_attn", "feed_forward": "feedforward"}
        if stack.blocks[0].cross_attention is not None:
            sublayers["cross_attention"] = "cross_attn"
            for name in "qkvo":
                ours = f"cross.{{i}}.{name}" if name in "kv" else f"{layer}.cross_attention.{name}"
                rules[f"{ours}.*"] = f"{layer}.cross_attn.{name}_proj.*"
        for ours, theirs in sublayers.items():
            rules[f"{layer}.{ours}_norm.*"] = Take(f"{layer}.pre_{theirs}_layernorm.*", plus=1.0)
            rules[f"{layer}.{ours}_post_norm.*"] = Take(f"{layer}.post_{theirs}_layernorm.*", plus=1.0)
        rules[f"{side}.final_norm.*"] = Take(f"{side}.norm.*", plus=1.0)
    return Table(rules, NAMING, drop)
