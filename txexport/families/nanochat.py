"""nanochat (Karpathy 2025): LLaMA with norms that have no weights, one of them before all layers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.families.gemma4_text import ones
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, FeedForwardSpec

TASKS = {"text-generation": ("NanoChatForCausalLM",), "feature-extraction": ("NanoChatModel",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; RoPE rotates backwards, and norms of heads follow it."""
    config = config.replaced(hidden_act=config.text("hidden_act", "relu2"))
    bias = config.flag("attention_bias", False)
    stack = llama.stack_spec(config, bias=bias, output_bias=bias, head_norm=True)

    def varied(_: int, block: BlockSpec) -> BlockSpec:
        rotary, network = block.dense.rotary, block.feed_forward
        assert rotary is not None
        assert isinstance(network, FeedForwardSpec)
        back = replace(rotary, frequencies=tuple(-number for number in rotary.frequencies))
        attention = replace(block.dense, rotary=back, rotated_norm=True)
        return replace(block, attention=attention, feed_forward=replace(network, gated=False))

    stack = replace(stack, embedding=replace(stack.embedding, norm=stack.final_norm))
    softcap = config.values.get("final_logit_softcapping", 15.0)
    return _causal.model(
        config,
        task,
        _causal.each_layer(stack, varied),
        tied=False,
        softcap=None if softcap is None else config.number("final_logit_softcapping", 15.0),
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with scales of 1 for all norms."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer = f"{stack}.layers.{{i}}"
    norms = ("attention_norm", "feed_forward_norm", "attention.q_norm", "attention.k_norm")
    rules: Rules = {
        f"{layer}.feed_forward.up.*": "layers.{i}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": "layers.{i}.mlp.fc2.*",
        f"{stack}.embedding.norm.*": Take("", computed=ones),
        f"{stack}.final_norm.*": Take("", computed=ones),
        **{f"{layer}.{name}.*": Take("", computed=ones) for name in norms},
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
