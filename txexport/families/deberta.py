"""DeBERTa (He et al. 2021): disentangled attention with fused projections and no key bias."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take, zeros
from txexport.errors import UnsupportedError
from txexport.families import bert, deberta_v2
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import EncoderSpec

TASKS = {
    "feature-extraction": ("DebertaModel",),
    "fill-mask": ("DebertaForMaskedLM",),
    "text-classification": ("DebertaForSequenceClassification",),
    "token-classification": ("DebertaForTokenClassification",),
    "question-answering": ("DebertaForQuestionAnswering",),
}

NAMING = deberta_v2.NAMING
# Keys that version 2 reads and this one does not.
LATER = {
    "attention_head_size": None,
    "conv_kernel_size": None,
    "norm_rel_ebd": None,
    "position_buckets": None,
    "share_att_key": None,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(talking_head=False)
    later = config.replaced(**LATER)
    terms = deberta_v2.terms_of(later)
    if len(set(terms)) < len(terms):  # the original scales by the number of terms
        value = shortened(config.values["pos_att_type"])
        raise UnsupportedError(f"{config.path}: pos_att_type={value} is not supported; expected each once")
    return deberta_v2.spec(later, task, names)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; query, key and value alternate per head."""
    layer, source = bert.LAYER, f"{bert.SOURCE}.attention.self"
    heads = spec.encoder.blocks[0].attention.num_heads
    rules: Rules = {
        f"{layer}.attention.{name}.weight": Take(f"{source}.in_proj.weight", part=part, parts=3, groups=heads)
        for part, name in enumerate("qkv")
    }
    rules |= {
        f"{layer}.attention.q.bias": f"{source}.q_bias",
        f"{layer}.attention.k.bias": Take(f"{source}.in_proj.bias", computed=zeros),
        f"{layer}.attention.v.bias": f"{source}.v_bias",
        f"{layer}.attention.k_position.weight": f"{source}.pos_proj.weight",
        f"{layer}.attention.k_position.bias": Take(f"{source}.pos_proj.bias", computed=zeros),
        f"{layer}.attention.q_position.*": f"{source}.pos_q_proj.*",
    }
    base = deberta_v2.table(spec)
    return replace(base, rules={**rules, **base.rules, **rules})  # the first name that exists is used
