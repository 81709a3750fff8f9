"""GTE (Zhang et al. 2024): Nomic BERT with biases, but for the two projections up."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, zeros
from txexport.families import bert, nomic_bert
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec

TASKS = {
    "feature-extraction": ("GteModel",),
    "fill-mask": ("GteForMaskedLM",),
    "text-classification": ("GteForSequenceClassification",),
    "token-classification": ("GteForTokenClassification",),
}

NAMING = Naming("gte.")
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(layer_norm_type="layer_norm", position_embedding_type="rope", logn_attention_scale=False)
    ours = config.with_defaults(
        rope_theta=160_000.0, max_position_embeddings=8192, type_vocab_size=1, hidden_act="gelu"
    )
    return nomic_bert.encoder_spec(ours, task, bias=True, output_bias=True, masked_lm=Activation.GELU)


def table(spec: EncoderSpec) -> Table:
    """Where transformers keeps each parameter; the projections up and to the gate have biases of 0."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    words, none = "embeddings.word_embeddings.weight", Take(f"{source}.mlp.up_gate_proj.bias", computed=zeros)
    rules: Rules = {
        "encoder.embedding.word.*": "embeddings.word_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        **nomic_bert.fused(f"{layer}.attention", f"{source}.attention.qkv_proj.*"),
        f"{layer}.attention.o.*": f"{source}.attention.o_proj.*",
        f"{layer}.attention_norm.*": f"{source}.attn_ln.*",
        f"{layer}.feed_forward.up.weight": Take(f"{source}.mlp.up_gate_proj.weight", part=0, parts=2),
        f"{layer}.feed_forward.gate.weight": Take(f"{source}.mlp.up_gate_proj.weight", part=1, parts=2),
        f"{layer}.feed_forward.up.bias": none,
        f"{layer}.feed_forward.gate.bias": none,
        f"{layer}.feed_forward.down.*": f"{source}.mlp.down_proj.*",
        f"{layer}.feed_forward_norm.*": f"{source}.mlp_ln.*",
    }
    masked_lm: Rules = {"head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.norm.*"}
    masked_lm |= bert.masked_lm_rules(spec, words, "lm_head.decoder", "lm_head.decoder.bias")
    rules |= bert.head_rules(spec, sequence=bert.POOLED, masked_lm=masked_lm)
    return Table(rules, NAMING, drop=("pooler.*", "lm_head.*", "classifier.*"))
