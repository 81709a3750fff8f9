"""ViTPose (Xu et al. 2022): heat maps of the points of a body, of a ViT's patches."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import beit, vit, vit_msn
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    AttentionSpec,
    BatchNormSpec,
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    PoseSpec,
    SignalStackSpec,
)

TASKS = {"pose-estimation": ("VitPoseForPoseEstimation",)}
NAMING = Naming("backbone.")
BORDER = 2  # pixels of zeros around an image
DECONVOLVED, EPS = 256, 1e-5  # channels and batch norms of the classic decoder, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; crops of images have the checkpoint's size."""
    named = config.table("backbone_config")
    if not named.values:
        named = named.replaced(out_indices=[4])  # as the library has it
    backbone = named.with_defaults(model_type="vitpose_backbone", image_size=[256, 192], **vit_msn.DEFAULTS)
    backbone.expect(model_type="vitpose_backbone")
    if backbone.integer("num_experts", 1) != 1:
        raise UnsupportedError(
            f"{config.path}: num_experts={backbone.integer('num_experts')} is not supported, which ViTPose++ "
            "has one of for each data set; expected 1, as in usyd-community/vitpose-base-simple"
        )
    width, heads = backbone.integer("hidden_size"), backbone.integer("num_attention_heads")
    norm, side = NormSpec(width, backbone.number("layer_norm_eps", 1e-12)), vit.patch_size(backbone)
    attention = AttentionSpec(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=backbone.head_dim(width, heads),
        causal=False,
        bias=backbone.flag("qkv_bias", True),
        unmasked=True,
    )
    inner = int(width * backbone.number("mlp_ratio", 4))
    feed_forward = FeedForwardSpec(width, inner, backbone.activation("hidden_act", "gelu"))
    patches = PatchSpec(
        hidden_size=width,
        image_size=vit.image_size(backbone),
        patch_size=side,
        channels=backbone.integer("num_channels", 3),
        tokens=0,
        border=BORDER,
        shared_position=True,
    )
    block, last = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE), _layer(backbone)
    stack = SignalStackSpec(patches, (block,), last, final_norm=norm)
    simple = config.flag("use_simple_decoder", True)
    pose = PoseSpec(
        (last,),
        side,
        factor=config.integer("scale_factor", 4) if simple else 4,
        norm=None if simple else BatchNormSpec(DECONVOLVED, EPS),
    )
    return EncoderSpec(stack, HeadSpec(HeadKind.POSE, tied=False, labels=config.labels(), pose=pose))


def _layer(backbone: Config) -> int:
    """The last layer that is read, by out_indices, else by out_features: stage3 is the third."""
    count, values = backbone.count("num_hidden_layers"), backbone.values.get("out_indices")
    named = backbone.strings("out_features")
    if values is None and named:
        values = [int(name.removeprefix("stage")) for name in named if name.removeprefix("stage").isdecimal()]
    indices = values if isinstance(values, list) else [count]
    if not indices or not all(type(index) is int and -count <= index <= count for index in indices):
        raise CheckpointError(
            f"{backbone.path}: out_indices {shortened(values)} and out_features {shortened(named)}; expected "
            f"layers of {count}"
        )
    last: int = max(index % (count + 1) for index in indices)
    if last < 1:
        raise UnsupportedError(f"{backbone.path}: out_indices {shortened(indices)} name no layer")
    return last


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    rules: Rules = {key: rule for key, rule in vit.stack_rules().items() if not key.startswith("pooler")}
    rules |= {
        "encoder.embedding.position.weight": Take("embeddings.position_embeddings", leading_axis=True),
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        "head.project.*": "head.conv.*",
    }
    for number, part in enumerate(("first", "second"), 1):
        rules[f"head.{part}.weight"] = f"head.deconv{number}.weight"
        rules |= beit.batch_norm_rules(f"head.{part}_norm", f"head.batchnorm{number}")
    unread = [f"encoder.layer.{number}.*" for number in range(spec.encoder.num_layers, beit.MOST_LAYERS)]
    return Table(rules, NAMING, (*unread, "*.num_batches_tracked"))
