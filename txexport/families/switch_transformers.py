"""Switch Transformers (Fedus et al. 2021): T5 v1 with experts in some layers, of limited capacity."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, taken
from txexport.families import t5
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.spec import (
    EncoderDecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    StackSpec,
    TextStackSpec,
)

TASKS = {
    "text2text-generation": ("SwitchTransformersForConditionalGeneration",),
    "feature-extraction": ("SwitchTransformersEncoderModel",),
}
NAMING = Naming()
ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes.

    The original reads no feed_forward_proj. Where it does not tie the head, encoder and decoder have words of
    their own.
    """
    config.expect(router_dtype="float32")
    config = config.with_defaults(dense_act_fn="relu", num_layers=12, num_decoder_layers=12)
    config = config.replaced(feed_forward_proj="relu", is_gated_act=False)
    tied = config.flag("tie_word_embeddings", True)
    base = t5.model_spec(config, task, names, tied)
    capacity = config.count("expert_capacity", 64)
    if isinstance(base, EncoderSpec):
        return replace(base, encoder=_with_experts(config, base.encoder, "encoder", capacity))
    return replace(
        base,
        head=replace(base.head, tied=tied),
        shared_embedding=tied,
        encoder=_with_experts(config, base.encoder, "encoder", capacity),
        decoder=_with_experts(config, base.decoder, "decoder", None),
    )


def _with_experts(config: Config, stack: StackSpec, side: str, capacity: int | None) -> TextStackSpec:
    """The stack with experts in every layer that the original's step names: the second, or each.

    A decoder's experts have no limit: `generate` reads one token a pass.
    """
    assert isinstance(stack, TextStackSpec)
    (block,) = stack.blocks
    assert isinstance(block.feed_forward, FeedForwardSpec)
    mixture = ExpertsSpec(
        block.feed_forward,
        config.count("num_experts", 8),
        top_k=1,
        normalised=False,
        router_bias=config.flag("router_bias", False),
        capacity=capacity,
    )
    layers, sparse = stack.num_layers, config.integer(f"num_sparse_{side}_layers", 3)
    step = config.integer(f"{side}_sparse_step", layers // sparse if sparse > 0 else layers)
    networks = (
        mixture if step == 1 or (step > 0 and layer % step == 1) else block.feed_forward
        for layer in range(layers)
    )
    blocks = minimal_cycle(replace(block, feed_forward=network) for network in networks)
    return replace(stack, blocks=blocks)


def table(spec: EncoderSpec | EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = t5.table(spec)
    rules: Rules = {
        key: taken(rule).renamed(lambda name: name.replace("DenseReluDense", "mlp"))
        for key, rule in base.rules.items()
    }
    if isinstance(spec, EncoderSpec):
        rules["encoder.embedding.word.weight"] = Take("encoder.embed_tokens.weight", fallback="shared.weight")
    elif not spec.shared_embedding:
        for side in spec.stacks:
            rules[f"{side}.embedding.word.weight"] = f"{side}.embed_tokens.weight"
    for side, stack in spec.stacks.items():
        layer = f"{side}.layers.{{i}}.feed_forward"
        source = f"{side}.block.{{i}}.layer.{2 if side == 'decoder' else 1}.mlp"
        rules[f"{layer}.router.*"] = f"{source}.router.classifier.*"
        mixtures = [block.experts.num_experts for block in stack.blocks if block.experts is not None]
        for number in range(max(mixtures, default=0)):
            for ours, theirs in (("up", "wi"), ("down", "wo")):
                rules[f"{layer}.experts.{number}.{ours}.*"] = f"{source}.experts.expert_{number}.{theirs}.*"
    return replace(base, rules=rules, drop=(*base.drop, "shared.weight"))
