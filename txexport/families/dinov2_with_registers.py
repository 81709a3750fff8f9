"""DINOv2 with registers (Darcet et al. 2023): learned tokens after CLS without a position embedding."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table, Take
from txexport.families import dinov2
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, HeadKind, PatchSpec, SignalStackSpec

TASKS = {
    "image-feature-extraction": ("Dinov2WithRegistersModel",),
    "image-classification": ("Dinov2WithRegistersForImageClassification",),
}

NAMING = Naming("dinov2_with_registers.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    base = dinov2.spec(config.with_defaults(patch_size=16), task, names)
    registers, stack = config.integer("num_register_tokens", 4), base.encoder
    assert isinstance(stack, SignalStackSpec)
    assert isinstance(stack.embedding, PatchSpec)
    stack = replace(stack, embedding=replace(stack.embedding, antialias=True, registers=registers))
    head = replace(base.head, registers=registers) if base.head.kind == HeadKind.SEQUENCE else base.head
    return replace(base, encoder=stack, head=head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = dinov2.table(spec)
    registers = {"encoder.embedding.registers.weight": Take("embeddings.register_tokens", leading_axis=True)}
    return Table({**base.rules, **registers}, NAMING, base.drop)
