"""Which models can give hidden states and attention weights of every layer."""

from collections.abc import Collection

from txexport.contracts import names
from txexport.errors import UnsupportedError
from txexport.parts.heads import head_of
from txexport.parts.heads.choices import HEAD as CHOICES
from txexport.parts.inputs import input_of
from txexport.spec import (
    DecoderSpec,
    DualEncoderSpec,
    EncoderSpec,
    MaskedAttentionSpec,
    ModelSpec,
    PositionedAttentionSpec,
    RoundedAlibiSpec,
    StackSpec,
    TextStackSpec,
)


def last_before_norm(spec: ModelSpec, stack: StackSpec) -> bool:
    """Tell whether the original gives a stack's last hidden state without its final norm."""
    tower = isinstance(spec, DualEncoderSpec) or (isinstance(spec, EncoderSpec) and spec.vector is not None)
    return tower or input_of(stack).last_state_before_norm


def sums_layers(spec: ModelSpec) -> bool:
    """Tell whether a head reads the hidden states of all layers."""
    return isinstance(spec, EncoderSpec) and spec.layer_sum


def check_outputs(spec: ModelSpec, outputs: Collection[str]) -> None:
    """Raise UnsupportedError where a model's layers lack one of `outputs`."""
    if outputs and not isinstance(spec, DualEncoderSpec) and head_of(spec.head) is CHOICES:
        raise UnsupportedError(
            "outputs of every layer are not there for multiple-choice, whose choices are rows of their own; "
            "leave them out, or export with another --task"
        )
    if names.HIDDEN_STATES in outputs and isinstance(spec, DecoderSpec) and spec.head.factored_size:
        raise UnsupportedError(
            f"outputs {names.HIDDEN_STATES}: the last one is {spec.head.factored_size} numbers wide in the "
            f"original, and the others {spec.stack.hidden_size}; ask for {names.ATTENTIONS} alone"
        )
    for name, stack in spec.stacks.items() if names.ATTENTIONS in outputs else ():
        if isinstance(stack, TextStackSpec) and isinstance(stack.relative, RoundedAlibiSpec):
            raise UnsupportedError(
                f"outputs {names.ATTENTIONS}: the original adds its rounded biases twice where it gives "
                f"weights, and the {name} weighs otherwise; ask for {names.HIDDEN_STATES} alone"
            )
        for block in stack.blocks:
            if not isinstance(block.attention, MaskedAttentionSpec | PositionedAttentionSpec):
                kind = type(block.attention).__name__.removesuffix("AttentionSpec").lower()
                raise UnsupportedError(
                    f"outputs {names.ATTENTIONS}: the {name} has {kind} attention, which has no weight of "
                    f"every token for every other; ask for {names.HIDDEN_STATES} alone"
                )
