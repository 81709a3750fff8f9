"""DBRX (Databricks 2024): LLaMA with clipped projections, layer norms, and experts in every layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec, NormSpec

TASKS = {"text-generation": ("DbrxForCausalLM",), "feature-extraction": ("DbrxModel",)}

NAMING = Naming("transformer.")
ALIASES = {
    "num_attention_heads": "n_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layers",
    "max_position_embeddings": "max_seq_len",
}
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    attends, network = config.table("attn_config"), config.table("ffn_config")
    activation = network.table("ffn_act_fn")
    activation.expect(**dict.fromkeys(activation.values.keys() - {"name"}))
    network.expect(moe_normalize_expert_weights=1.0)
    normalised = network.values.get("moe_normalize_expert_weights", 1.0) is not None
    width = config.integer("d_model", 2048)
    theirs = {
        "hidden_size": width,
        "num_attention_heads": config.integer("n_heads", 16),
        "num_key_value_heads": attends.integer("kv_n_heads", 1),
        "num_hidden_layers": config.count("n_layers", 24),
        "max_position_embeddings": config.integer("max_seq_len", 2048),
        "vocab_size": config.integer("vocab_size", 32000),
        "intermediate_size": network.integer("ffn_hidden_size", 3584),
        "hidden_act": activation.text("name", "silu"),
        "rope_theta": attends.number("rope_theta", 10000.0),
    }
    if attends.values.get("clip_qkv") is None:
        raise UnsupportedError(
            f"{config.path}: attn_config has no clip_qkv, expected a number: transformers needs one"
        )
    clip = attends.number("clip_qkv")
    experts, top_k = network.count("moe_num_experts", 4), network.integer("moe_top_k", 1)
    norm = NormSpec(width, 1e-5, bias=False)

    def mixture(expert: FeedForwardSpec) -> ExpertsSpec:
        return ExpertsSpec(expert, experts, top_k, normalised)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, clip=clip), norm=norm)

    config.expect(tie_word_embeddings=False)
    stack = llama.stack_spec(config.replaced(**theirs), mixture=mixture)
    stack = replace(_causal.each_layer(stack, varied), final_norm=norm)
    return _causal.model(config, task, stack, tied=False)


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str] | None:
    """config.json with attn_config's rope_theta as its own, as published; transformers 5 takes 10000."""
    theta = config.table("attn_config").values.get("rope_theta")
    if theta is None or config.values.get("rope_parameters"):
        return None
    values = dict(config.values) | {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    note = (
        f"rope_theta {theta:g} of attn_config is taken, as in transformers 4; transformers 5 takes 10000. It "
        "is held against transformers with this rope_theta"
    )
    return values, note


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; all experts of a layer share three tensors."""
    stack, block = _causal.stack_name(spec), spec.stack.blocks[0]
    attention, mixture = block.dense, block.experts
    assert mixture is not None
    layer, source = f"{stack}.layers.{{i}}", "blocks.{i}.norm_attn_norm"
    heads, shared, count = attention.num_heads, attention.num_kv_heads, mixture.num_experts
    queries = Take(f"{source}.attn.Wqkv.*", parts=heads + 2 * shared, width=heads)
    rules: Rules = {
        f"{stack}.embedding.word.weight": "wte.weight",
        f"{layer}.attention.q.*": queries,
        f"{layer}.attention.k.*": replace(queries, part=heads, width=shared),
        f"{layer}.attention.v.*": replace(queries, part=heads + shared, width=shared),
        f"{layer}.attention.o.*": f"{source}.attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{source}.norm_1.*",
        f"{layer}.feed_forward_norm.*": f"{source}.norm_2.*",
        f"{layer}.feed_forward.router.*": "blocks.{i}.ffn.router.layer.*",
        f"{stack}.final_norm.*": "norm_f.*",
    }
    for number in range(count):
        expert = f"{layer}.feed_forward.experts.{number}"
        gate = Take("blocks.{i}.ffn.experts.mlp.w1", part=number, parts=count)
        rules[f"{expert}.gate.weight"] = gate
        rules[f"{expert}.up.weight"] = replace(gate, source="blocks.{i}.ffn.experts.mlp.v1")
        down = replace(gate, source="blocks.{i}.ffn.experts.mlp.w2", transpose=True, along_inputs=True)
        rules[f"{expert}.down.weight"] = down
    return Table(rules | _causal.head_rules(spec), NAMING, _causal.other_heads(spec))
