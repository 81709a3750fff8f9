"""GTE (Zhang et al. 2024): Nomic BERT with biases, except on the gate and up projections."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, zeros
from txexport.errors import CheckpointError
from txexport.families import bert, nomic_bert
from txexport.families._config import Config, TensorNames
from txexport.families._elementary import power
from txexport.spec import Activation, EncoderSpec

TASKS = {
    "feature-extraction": ("GteModel",),
    "fill-mask": ("GteForMaskedLM",),
    "text-classification": ("GteForSequenceClassification",),
    "token-classification": ("GteForTokenClassification",),
}

NAMING = Naming("gte.", others=("new.",))
PUBLISHED_WITH_CODE = True


def published(config: Config) -> Config:
    """The values of Alibaba's "new" code, which preceded the library's family, by the library's names."""
    config.expect(pack_qkv=True)
    ours = config.with_defaults(rope_theta=10_000.0, max_position_embeddings=2048)
    dropped = ("auto_map", "rope_scaling", "rope_theta")
    values = {key: value for key, value in ours.values.items() if key not in dropped}
    names = [name.replace("New", "Gte", 1) for name in config.strings("architectures")]
    values |= {"model_type": "gte", "architectures": names, "rope_parameters": _rope_parameters(ours)}
    return Config(values, config.path, config.room)


def _rope_parameters(config: Config) -> dict[str, float | str]:
    """RoPE parameters of that code.

    Its "ntk" is "linear" with a larger base (Su 2023, https://kexue.fm/archives/9706, equation 6).
    """
    theta, scaling = config.number("rope_theta"), config.table("rope_scaling")
    if not scaling.values:
        return {"rope_type": "default", "rope_theta": theta}
    scaling.text("type")
    scaling.expect(type="ntk", mixed_b=None)
    factor = scaling.number("factor")
    if factor < 1:
        raise CheckpointError(f"{config.path}: 'factor' of rope_scaling is {factor}, expected at least 1")
    head_dim = config.head_dim(config.integer("hidden_size"), config.integer("num_attention_heads"))
    if head_dim < 1:
        raise CheckpointError(f"{config.path}: the head size is {head_dim}, expected at least 1")
    return {"rope_type": "linear", "rope_theta": theta * factor, "factor": power(factor, 2 / head_dim)}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(layer_norm_type="layer_norm", position_embedding_type="rope", logn_attention_scale=False)
    ours = config.with_defaults(
        rope_theta=160_000.0, max_position_embeddings=8192, type_vocab_size=1, hidden_act="gelu"
    )
    return nomic_bert.encoder_spec(ours, task, bias=True, output_bias=True, masked_lm=Activation.GELU)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; the gate and up projections have biases of 0."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    word_embedding, zero_bias = (
        "embeddings.word_embeddings.weight",
        Take(f"{source}.mlp.up_gate_proj.bias", computed=zeros),
    )
    rules: Rules = {
        "encoder.embedding.word.*": "embeddings.word_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        **nomic_bert.fused(f"{layer}.attention", f"{source}.attention.qkv_proj.*"),
        f"{layer}.attention.o.*": f"{source}.attention.o_proj.*",
        f"{layer}.attention_norm.*": f"{source}.attn_ln.*",
        f"{layer}.feed_forward.up.weight": Take(f"{source}.mlp.up_gate_proj.weight", part=0, parts=2),
        f"{layer}.feed_forward.gate.weight": Take(f"{source}.mlp.up_gate_proj.weight", part=1, parts=2),
        f"{layer}.feed_forward.up.bias": zero_bias,
        f"{layer}.feed_forward.gate.bias": zero_bias,
        f"{layer}.feed_forward.down.*": f"{source}.mlp.down_proj.*",
        f"{layer}.feed_forward_norm.*": f"{source}.mlp_ln.*",
    }
    masked_lm: Rules = {"head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.norm.*"}
    masked_lm |= bert.masked_lm_rules(spec, word_embedding, "lm_head.decoder", "lm_head.decoder.bias")
    rules |= bert.head_rules(spec, sequence=bert.POOLED, masked_lm=masked_lm)
    return Table(rules, NAMING, drop=("pooler.*", "lm_head.*", "classifier.*"))
