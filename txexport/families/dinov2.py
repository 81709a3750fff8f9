"""DINOv2 (Oquab et al. 2023): ViT with LayerScale."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec, FeedForwardSpec, HeadKind, Pick, SignalStackSpec

TASKS = {
    "image-feature-extraction": ("Dinov2Model",),
    "image-classification": ("Dinov2ForImageClassification",),
}

NAMING = Naming("dinov2.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; positions are always interpolated."""
    config = config.with_defaults(layer_norm_eps=1e-6, patch_size=14)
    config.expect(use_mask_token=True, apply_layernorm=True)
    hidden, ratio = config.integer("hidden_size"), config.number("mlp_ratio", 4)
    wide = int(hidden * ratio)
    widened = config.replaced(intermediate_size=wide)
    base = vit.image_spec(widened, task, names, tokens=1, any_size=True)
    (height, width), side = vit.image_size(config), vit.patch_size(config)
    if height // side != width // side:
        raise UnsupportedError(
            f"{config.path}: image_size is not square, and its positions cannot be interpolated"
        )
    assert isinstance(base.encoder, SignalStackSpec)
    block = replace(base.encoder.blocks[0], layer_scale=True)
    if config.flag("use_swiglu_ffn", False):
        gated = FeedForwardSpec(hidden, (int(wide * 2 / 3) + 7) // 8 * 8, Activation.SILU, gated=True)
        block = replace(block, feed_forward=gated)
    head = base.head
    if head.kind == HeadKind.SEQUENCE:
        head = replace(head, pick=Pick.FIRST_AND_MEAN)
    return replace(base, encoder=replace(base.encoder, blocks=(block,)), head=head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; SwiGLU's gate and up are stored in one tensor."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    rules: Rules = vit.stack_rules() | {
        f"{layer}.attention_norm.*": f"{source}.norm1.*",
        f"{layer}.attention_scale.weight": f"{source}.layer_scale1.lambda1",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.norm2.*",
        f"{layer}.feed_forward_scale.weight": f"{source}.layer_scale2.lambda1",
        "head.*": "classifier.*",
    }
    feed_forward = spec.encoder.blocks[0].feed_forward
    if isinstance(feed_forward, FeedForwardSpec) and feed_forward.gated:
        rules |= {
            f"{layer}.feed_forward.gate.*": Take(f"{source}.mlp.weights_in.*", part=0, parts=2),
            f"{layer}.feed_forward.up.*": Take(f"{source}.mlp.weights_in.*", part=1, parts=2),
            f"{layer}.feed_forward.down.*": f"{source}.mlp.weights_out.*",
        }
    return Table(rules, NAMING, drop=("embeddings.mask_token", "classifier.*"))
