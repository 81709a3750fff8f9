"""Nomic BERT MoE (Nussbaum and Duderstadt 2025): biases, non-gated feed-forward, experts in some layers.

Published under Nomic BERT's model_type with code of its own, which is in no library.
"""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import nomic_bert
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.spec import Activation, EncoderSpec, ExpertsSpec, FeedForwardSpec, TextStackSpec

TASKS = {"feature-extraction": ("NomicBertModel",)}

NAMING = nomic_bert.NAMING
PUBLISHED_WITH_CODE = True
# Keys whose defaults in that code differ from the library's.
TOLD = ("rotary_emb_base", "rotary_emb_fraction", "layer_norm_epsilon", "type_vocab_size")
ASKED = ("num_experts", "moe_every_n_layers")
OTHERWISE = {key: value for key, value in nomic_bert.OTHERWISE.items() if key not in ASKED} | {
    "activation_function": "gelu",
    **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), True),
    **dict.fromkeys(("moe_normalize_expert_weights", "expert_choice_router"), False),
    "num_shared_experts": 0,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; every moe_every_n_layers-th layer has experts."""
    config.expect(**OTHERWISE)
    for key in TOLD:
        config.number(key)
    ours = nomic_bert.of_today(config).replaced(hidden_act="gelu")
    base = nomic_bert.encoder_spec(ours, task, bias=True, output_bias=True, masked_lm=Activation.GELU)
    stack, every = base.encoder, config.integer("moe_every_n_layers")
    assert isinstance(stack, TextStackSpec)
    (block,) = stack.blocks
    assert isinstance(block.feed_forward, FeedForwardSpec)
    plain = replace(block.feed_forward, gated=False)
    mixture = ExpertsSpec(
        replace(plain, bias=False),
        config.count("num_experts"),
        config.integer("moe_top_k"),
        normalised=False,
        output_bias=True,
    )
    networks = (mixture if layer % every == 1 else plain for layer in range(stack.num_layers))
    blocks = minimal_cycle(replace(block, feed_forward=network) for network in networks)
    return replace(base, encoder=replace(stack, blocks=blocks))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of that code.

    Both matrices stack the experts' rows (experts * F, W).
    """
    base = nomic_bert.table(spec)
    layer, source = "encoder.layers.{i}.feed_forward", "encoder.layers.{i}.mlp"
    rules: Rules = {name: rule for name, rule in base.rules.items() if ".feed_forward." not in name}
    rules |= {
        f"{layer}.up.*": f"{source}.fc1.*",
        f"{layer}.down.*": f"{source}.fc2.*",
        f"{layer}.router.weight": f"{source}.router.layer.weight",
        f"{layer}.bias": f"{source}.experts.bias",
    }
    mixtures = [block.feed_forward for block in spec.encoder.blocks]
    count = max((one.num_experts for one in mixtures if isinstance(one, ExpertsSpec)), default=0)
    for number in range(count):
        first = Take(f"{source}.experts.mlp.w1", part=number, parts=count)
        second = Take(f"{source}.experts.mlp.w2", part=number, parts=count, transpose=True, along_inputs=True)
        rules[f"{layer}.experts.{number}.up.weight"] = first
        rules[f"{layer}.experts.{number}.down.weight"] = second
    return replace(base, rules=rules)
