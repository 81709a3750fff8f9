"""Support of outputs of every layer: hidden states and attention weights."""

from collections.abc import Collection

from txexport.contracts import names
from txexport.errors import UnsupportedError
from txexport.parts.heads import head_of
from txexport.parts.heads.choices import HEAD as CHOICES
from txexport.parts.inputs import input_of
from txexport.spec import (
    CrossVisionLanguageSpec,
    DecoderSpec,
    DescribedSegmentsSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    FourierMixingSpec,
    GroundedSpec,
    HeadKind,
    MapStackSpec,
    MaskedAttentionSpec,
    ModelSpec,
    OpenVocabularySpec,
    PositionedAttentionSpec,
    PromptableSpec,
    QueryPoolingSpec,
    RoundedAlibiSpec,
    SpectrogramGridSpec,
    StackSpec,
    StagedStackSpec,
    TextStackSpec,
    VisionLanguageSpec,
    VisualRetrieverSpec,
    WaveformSpec,
)


def last_before_norm(spec: ModelSpec, stack: StackSpec) -> bool:
    """Tell whether the original returns a stack's last hidden state without the final norm."""
    tower = isinstance(spec, DualEncoderSpec) or (isinstance(spec, EncoderSpec) and spec.vector is not None)
    normed = isinstance(stack.embedding, WaveformSpec) and stack.embedding.normed_state
    return tower or (input_of(stack).last_state_before_norm and not normed)


def sums_layers(spec: ModelSpec) -> bool:
    """Tell whether a head reads the hidden states of several layers."""
    return isinstance(spec, EncoderSpec) and (spec.layer_sum or spec.head.neck is not None)


def reads_stages(spec: ModelSpec) -> bool:
    """Tell whether a head reads the maps of all stages."""
    if not isinstance(spec, EncoderSpec):
        return False
    head = spec.head
    if head.kind == HeadKind.LAST_MAP or head.map_pyramid is not None:
        return True
    return any((head.stages, head.masks, head.object_masks, head.masked_queries, head.instance_masks))


def check_outputs(spec: ModelSpec, outputs: Collection[str]) -> None:
    """Raise UnsupportedError if a model's layers cannot return one of `outputs`."""
    tasks: dict[type, str] = {PromptableSpec: "mask-generation"}
    tasks[VisualRetrieverSpec] = "visual-document-retrieval"
    tasks[DescribedSegmentsSpec] = "image-segmentation by texts"
    tasks |= dict.fromkeys((VisionLanguageSpec, CrossVisionLanguageSpec), "image-text-to-text")
    without = PromptableSpec | OpenVocabularySpec | GroundedSpec | VisualRetrieverSpec | DescribedSegmentsSpec
    if isinstance(spec, without) or type(spec) in tasks:
        if outputs:
            task = tasks.get(type(spec), "zero-shot-object-detection")
            task = "audio-text-to-text" if isinstance(spec, VisionLanguageSpec) and spec.sounds else task
            raise UnsupportedError(f"outputs of every layer are not supported for {task}; leave them out")
        return
    if outputs and isinstance(spec, EncoderDecoderSpec) and spec.vision is not None:
        raise UnsupportedError(
            "outputs of every layer are not supported for questions about an image, whose original returns "
            "none of the question; leave them out"
        )
    if outputs and not isinstance(spec, DualEncoderSpec) and head_of(spec.head) is CHOICES:
        raise UnsupportedError(
            "outputs of every layer are not supported for multiple-choice; "
            "leave them out, or export with another --task"
        )
    convolves = [name for name, stack in spec.stacks.items() if isinstance(stack, MapStackSpec)]
    if outputs and not convolves and not all(stack.blocks for stack in spec.stacks.values()):
        raise UnsupportedError(
            "outputs of every layer are not supported for detection by queries; leave them out"
        )
    if names.HIDDEN_STATES in outputs and isinstance(spec, DecoderSpec) and spec.head.factored_size:
        raise UnsupportedError(
            f"outputs {names.HIDDEN_STATES}: the original's last one has size {spec.head.factored_size}, "
            f"the others {spec.stack.hidden_size}; ask for {names.ATTENTIONS} alone"
        )
    for name, stack in spec.stacks.items() if names.HIDDEN_STATES in outputs else ():
        if isinstance(stack, TextStackSpec) and stack.streams is not None:
            raise UnsupportedError(
                f"outputs {names.HIDDEN_STATES}: between layers of the {name} a token has "
                f"{stack.streams.count} vectors; ask for {names.ATTENTIONS} alone"
            )
        maps = isinstance(stack, StagedStackSpec) and (
            isinstance(stack.embedding, SpectrogramGridSpec)
            or any(stage.norm or stage.map_norm for stage in stack.stages)
        )
        if isinstance(stack, StagedStackSpec) and isinstance(stack.stages[0].merging, QueryPoolingSpec):
            raise UnsupportedError(
                f"outputs {names.HIDDEN_STATES}: the original returns them of the {name} in the order of its "
                "windows; leave them out"
            )
        if maps or isinstance(stack, MapStackSpec):
            raise UnsupportedError(
                f"outputs {names.HIDDEN_STATES}: the original returns maps, not vectors, of the {name}; "
                "leave them out"
            )
    if names.ATTENTIONS in outputs and convolves:
        raise UnsupportedError(
            f"outputs {names.ATTENTIONS}: the {convolves[0]} has convolutions in place of attention; "
            "leave them out"
        )
    for name, stack in spec.stacks.items() if names.ATTENTIONS in outputs else ():
        if isinstance(stack, TextStackSpec) and isinstance(stack.relative, RoundedAlibiSpec):
            raise UnsupportedError(
                f"outputs {names.ATTENTIONS}: the original adds its rounded biases twice when it returns "
                f"weights, so the {name} has other weights; ask for {names.HIDDEN_STATES} alone"
            )
        if isinstance(stack, TextStackSpec) and not all(block.attends for block in stack.blocks):
            raise UnsupportedError(
                f"outputs {names.ATTENTIONS}: the {name} has layers with states in place of attention, which "
                f"have no weights; ask for {names.HIDDEN_STATES} alone"
            )
        for block in stack.blocks:
            if not isinstance(block.attention, MaskedAttentionSpec | PositionedAttentionSpec):
                kind = type(block.attention).__name__.removesuffix("Spec").removesuffix("Attention").lower()
                mixes = isinstance(block.attention, FourierMixingSpec)
                mixer = "Fourier transforms" if mixes else f"{kind} attention"
                raise UnsupportedError(
                    f"outputs {names.ATTENTIONS}: the {name} has {mixer}, which has no weights "
                    f"between all pairs of tokens; ask for {names.HIDDEN_STATES} alone"
                )
