"""SegFormer (Xie et al. 2021): stages of patches that overlap, under a head of all stages' maps."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import swin, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BatchNormSpec,
    BlockSpec,
    ConvolvedFeedForwardSpec,
    ConvolvedMergingSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    Pick,
    ReducedAttentionSpec,
    SegmentsSpec,
    StagedStackSpec,
    StageSpec,
)

TASKS = {
    "image-segmentation": ("SegformerForSemanticSegmentation",),
    "image-classification": ("SegformerForImageClassification",),
}
NAMING = Naming("segformer.")
REFUSED = {"SegformerModel": "it returns maps, not vectors; expected one of its heads"}
ALIASES = {"num_hidden_layers": "num_encoder_blocks"}

EPS = 1e-5  # of every norm: layer_norm_eps is not read
STAGES = {
    "depths": [2, 2, 2, 2],
    "sr_ratios": [8, 4, 2, 1],
    "hidden_sizes": [32, 64, 160, 256],
    "patch_sizes": [7, 3, 3, 3],
    "strides": [4, 2, 2, 2],
    "num_attention_heads": [1, 2, 5, 8],
    "mlp_ratios": [4, 4, 4, 4],
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**STAGES, image_size=224)
    stages = _stages(config)
    sides, strides = config.integers("patch_sizes"), config.integers("strides")
    width = stages[0].hidden_size
    patches = PatchGridSpec(
        width,
        vit.image_size(config),
        strides[0],
        NormSpec(width, EPS),
        config.integer("num_channels", 3),
        kernel=_kernel(config, sides[0], strides[0]),
    )
    stack = StagedStackSpec(patches, stages)
    labels = config.labels()
    if task == "image-classification":
        pick = Pick.GLOBAL_AVERAGE
        head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=labels, pick=pick, registers=0)
        return EncoderSpec(encoder=stack, head=head)
    config.expect(reshape_last_stage=True)
    inner = config.integer("decoder_hidden_size", 256)
    sizes = tuple(stage.hidden_size for stage in stages)
    segments = SegmentsSpec(sizes, inner, BatchNormSpec(inner, EPS))
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=labels, segments=segments)
    return EncoderSpec(encoder=stack, head=head)


def _stages(config: Config) -> tuple[StageSpec, ...]:
    """The stages, each with a norm behind its layers."""
    counts, lists = swin.depths(config), {name: config.values[name] for name in STAGES}
    stages = config.integer("num_encoder_blocks", 4)
    if any(not isinstance(values, list) or len(values) != stages for values in lists.values()):
        lengths = ", ".join(f"{name} {shortened(values)}" for name, values in lists.items())
        raise CheckpointError(
            f"{config.path}: {lengths}; expected {stages} numbers each, as there are stages"
        )
    widths, strides, sides = (config.integers(name) for name in ("hidden_sizes", "strides", "patch_sizes"))
    result = []
    for number, width in enumerate(widths):
        merging = None
        if number + 1 < stages:
            size = widths[number + 1]
            kernel = _kernel(config, sides[number + 1], strides[number + 1])
            merging = ConvolvedMergingSpec(width, size, kernel, strides[number + 1], NormSpec(size, EPS))
        block = _block(config, number, width)
        result.append(StageSpec((block,), counts[number], merging, NormSpec(width, EPS)))
    return tuple(result)


def _block(config: Config, number: int, width: int) -> BlockSpec:
    """A layer of a stage."""
    heads, reduction = (config.integers(name)[number] for name in ("num_attention_heads", "sr_ratios"))
    norm = NormSpec(width, EPS)
    attention = ReducedAttentionSpec(
        width, heads, config.head_dim(width, heads), reduction, norm if reduction > 1 else None
    )
    inner = int(width * config.numbers("mlp_ratios")[number])
    feed_forward = ConvolvedFeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))
    return BlockSpec(attention, feed_forward, norm, NormPlacement.PRE)


def _kernel(config: Config, side: int, stride: int) -> int:
    """The side of the patches of a stage, which overlap."""
    if side % 2 == 0 or side < stride:
        raise UnsupportedError(
            f"{config.path}: patch_sizes has {side} with a stride of {stride}; expected an odd number, at "
            "least as large, so that a grid has one vector for each stride"
        )
    return side


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec.encoder, StagedStackSpec)
    rules: Rules = {
        "encoder.embedding.project.*": "encoder.patch_embeddings.0.proj.*",
        "encoder.embedding.norm.*": "encoder.patch_embeddings.0.layer_norm.*",
    }
    layer = 0
    for number, stage in enumerate(spec.encoder.stages):
        rules[f"encoder.norms.{number}.*"] = f"encoder.layer_norm.{number}.*"
        if stage.merging is not None:
            source = f"encoder.patch_embeddings.{number + 1}"
            rules[f"encoder.mergings.{number}.project.*"] = f"{source}.proj.*"
            rules[f"encoder.mergings.{number}.norm.*"] = f"{source}.layer_norm.*"
        for block in range(stage.num_layers):
            rules |= _layer_rules(f"encoder.layers.{layer}", f"encoder.block.{number}.{block}")
            layer += 1
    if spec.head.segments is None:
        return Table(rules | {"head.*": "classifier.*"}, NAMING, ("decode_head.*",))
    stages, head = len(spec.encoder.stages), "decode_head"
    for number in range(stages):
        rules[f"head.projects.{number}.*"] = f"{head}.linear_c.{number}.proj.*"
        rules[f"head.fuses.{number}.weight"] = Take(
            f"{head}.linear_fuse.weight", along_inputs=True, part=stages - 1 - number, parts=stages
        )
    rules |= {
        "head.norm.weight": f"{head}.batch_norm.weight",
        "head.norm.bias": f"{head}.batch_norm.bias",
        "head.norm.mean": f"{head}.batch_norm.running_mean",
        "head.norm.variance": f"{head}.batch_norm.running_var",
        "head.scores.*": f"{head}.classifier.*",
    }
    return Table(rules, NAMING, (f"{head}.batch_norm.num_batches_tracked", "classifier.*"))


def _layer_rules(layer: str, source: str) -> Rules:
    """One layer."""
    return {
        f"{layer}.attention.q.*": f"{source}.attention.self.query.*",
        f"{layer}.attention.k.*": f"{source}.attention.self.key.*",
        f"{layer}.attention.v.*": f"{source}.attention.self.value.*",
        f"{layer}.attention.o.*": f"{source}.attention.output.dense.*",
        f"{layer}.attention.reduce.*": f"{source}.attention.self.sr.*",
        f"{layer}.attention.reduced_norm.*": f"{source}.attention.self.layer_norm.*",
        f"{layer}.attention_norm.*": f"{source}.layer_norm_1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.dense1.*",
        f"{layer}.feed_forward.convolution.*": f"{source}.mlp.dwconv.dwconv.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.dense2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layer_norm_2.*",
    }
