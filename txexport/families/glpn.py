"""GLPN (Kim et al. 2022): depth from the maps of SegFormer's stages, selectively fused."""

import math
from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import beit, segformer
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, HeadKind, HeadSpec, PatchGridSpec, StagedDepthSpec, StagedStackSpec

TASKS = {"depth-estimation": ("GLPNForDepthEstimation",)}
NAMING = Naming("glpn.")
REFUSED = {"GLPNModel": "it returns maps, not vectors; expected GLPNForDepthEstimation"}
EPS = 1e-5  # of batch norms; config.json does not name it


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; edges of images are multiples of the coarsest stride."""
    config.expect(head_in_index=-1)
    base = segformer.spec(config, "image-classification", names).encoder
    assert isinstance(base, StagedStackSpec)
    assert isinstance(base.embedding, PatchGridSpec)
    strides = [stage.merging.stride for stage in base.stages if stage.merging is not None]
    multiple = base.embedding.patch_size * math.prod(strides)
    depth = StagedDepthSpec(
        tuple(stage.hidden_size for stage in base.stages),
        config.integer("decoder_hidden_size", 64),
        EPS,
        config.number("max_depth", 10),
    )
    height, width = (max(edge // multiple, 1) * multiple for edge in base.embedding.image_size)
    stack = replace(base, embedding=replace(base.embedding, image_size=(height, width), multiple=multiple))
    return EncoderSpec(encoder=stack, head=HeadSpec(HeadKind.DEPTH, tied=False, depth=depth))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, whose decoder has the coarsest map first."""
    inherited = segformer.table(replace(spec, head=HeadSpec()))
    rules: Rules = {key: rule for key, rule in inherited.rules.items() if key.startswith("encoder.")}
    count = len(spec.head.stages)
    for number in range(count):
        source = f"decoder.stages.{count - 1 - number}"
        rules[f"head.projects.{number}.*"] = f"{source}.convolution.*"
        for part, layer in (("first", 1), ("second", 2)):
            convolved = f"{source}.fusion.convolutional_layer{layer}"
            rules[f"head.fusions.{number}.{part}.*"] = f"{convolved}.0.*"
            rules |= beit.batch_norm_rules(f"head.fusions.{number}.{part}_norm", f"{convolved}.1")
        rules[f"head.fusions.{number}.share.*"] = f"{source}.fusion.convolutional_layer3.*"
    rules |= {"head.convolve.*": "head.head.0.*", "head.depth.*": "head.head.2.*"}
    return Table(rules, NAMING, ("*.num_batches_tracked",))
