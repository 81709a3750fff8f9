"""Nomic BERT (Nussbaum et al. 2024): BERT with RoPE, gated feed-forward, and no biases in the layers."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.families._rope import longest, rotary
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("NomicBertModel",),
    "fill-mask": ("NomicBertForMaskedLM",),
    "text-classification": ("NomicBertForSequenceClassification",),
    "token-classification": ("NomicBertForTokenClassification",),
}

NAMING = Naming("nomic_bert.")
PUBLISHED_WITH_CODE = True
# Keys of its own code, from before the library had the family.
PUBLISHED = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "layer_norm_eps": "layer_norm_epsilon",
    "rope_theta": "rotary_emb_base",
}
OTHERWISE = {
    "activation_function": "swiglu",
    "rotary_emb_fraction": 1.0,
    **dict.fromkeys(("prenorm", "parallel_block", "use_rms_norm", "rotary_emb_interleaved"), False),
    **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "causal"), False),
    **dict.fromkeys(("num_experts", "moe_every_n_layers"), 0),
}


def variant(config: Config) -> str:
    """The family of this config: models with experts are one that the library does not have."""
    mixed = all(config.integer(key, 0) > 0 for key in ("num_experts", "moe_every_n_layers"))
    return "nomic_bert_moe" if mixed else "nomic_bert"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes, in today's form or that of its release."""
    config.expect(**OTHERWISE)
    ours = of_today(config).with_defaults(hidden_act="silu")
    activation = ours.activation("hidden_act")
    return encoder_spec(ours, task, bias=False, output_bias=False, masked_lm=activation)


def of_today(config: Config) -> Config:
    """The release's values by today's names."""
    # Beyond the trained length, rotary_scaling_factor would change the frequencies.
    trained = "n_positions" if config.values.get("rotary_scaling_factor") is None else "max_trained_positions"
    names_then = PUBLISHED | {"max_position_embeddings": trained}
    then = {now: config.values[old] for now, old in names_then.items() if old in config.values}
    return config.with_defaults(**then).with_defaults(
        rope_theta=1000.0, max_position_embeddings=2048, type_vocab_size=2
    )


def encoder_spec(
    config: Config, task: str, *, bias: bool, output_bias: bool, masked_lm: Activation
) -> EncoderSpec:
    """The architecture with the options of related families: biases of attention and feed-forward output."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    has_head_dim = config.values.get("head_dim") is not None
    head_dim = config.integer("head_dim") if has_head_dim else config.head_dim(width, heads)
    activation = config.activation("hidden_act")
    block = BlockSpec(
        AttentionSpec(
            hidden_size=width,
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=head_dim,
            causal=False,
            bias=bias,
            output_bias=bias,
            rotary=rotary(config, head_dim),
        ),
        FeedForwardSpec(width, config.integer("intermediate_size"), activation, bias=output_bias, gated=True),
        norm,
        NormPlacement.POST,
    )
    position = PositionSpec(PositionKind.NONE, longest(config))
    segments = config.integer("type_vocab_size")
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position, segments, norm)
    stack = TextStackSpec(embedding, (block,), config.count("num_hidden_layers"))
    if task == "feature-extraction":
        return EncoderSpec(encoder=stack)
    if task == "fill-mask":
        tied = config.flag("tie_word_embeddings", True)
        head = HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True, activation=masked_lm, norm=norm)
        return EncoderSpec(encoder=stack, head=head)
    return EncoderSpec(encoder=stack, head=bert.label_head(config, task, Activation.TANH))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = "encoder.layers.{i}", "encoder.layers.{i}"
    transform, word_embedding = "cls.predictions.transform", "embeddings.word_embeddings.weight"
    rules: Rules = {
        "encoder.embedding.word.*": "embeddings.word_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "emb_ln.*",
        **fused(f"{layer}.attention", f"{source}.attn.Wqkv.*"),
        f"{layer}.attention.o.*": f"{source}.attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{source}.norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc11.*",
        f"{layer}.feed_forward.gate.*": f"{source}.mlp.fc12.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.norm2.*",
    }
    masked_lm: Rules = {"head.dense.*": f"{transform}.dense.*", "head.norm.*": f"{transform}.layer_norm.*"}
    masked_lm |= bert.masked_lm_rules(spec, word_embedding, "cls.predictions.decoder", "cls.predictions.bias")
    rules |= bert.head_rules(spec, sequence=bert.POOLED, masked_lm=masked_lm)
    return Table(rules, NAMING, drop=("pooler.*", "cls.*", "classifier.*"))


def fused(ours: str, source: str) -> Rules:
    """Query, key and value of an attention, stored in one tensor."""
    return {f"{ours}.{name}.*": Take(source, part=part, parts=3) for part, name in enumerate("qkv")}
