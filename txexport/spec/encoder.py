"""One encoder under a head."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.anchor_stack import AnchorStackSpec
from txexport.spec.boxes import BoxesSpec
from txexport.spec.conditional_stack import ConditionalStackSpec
from txexport.spec.deformable_stack import DeformableStackSpec
from txexport.spec.distribution_stack import DistributionStackSpec
from txexport.spec.enums import Architecture, HeadKind, Pick
from txexport.spec.feature_fusion import FeatureFusionSpec
from txexport.spec.head import HeadSpec, VectorSpec, check_tied
from txexport.spec.instance_masks import InstanceMasksSpec
from txexport.spec.map_stack import MapStackSpec
from txexport.spec.mixed_stack import MixedStackSpec
from txexport.spec.naflex import FlattenedPatchesSpec, NaflexSpec
from txexport.spec.object_masks import ObjectMasksSpec
from txexport.spec.packed import PackedSpec
from txexport.spec.pose import PoseSpec
from txexport.spec.proposal_stack import ProposalStackSpec
from txexport.spec.query_stack import QueryStackSpec
from txexport.spec.segments import PyramidSpec
from txexport.spec.signal_embedding import LogMelSpec, PatchSpec
from txexport.spec.stack import StackSpec, TextStackSpec, check_stateless
from txexport.spec.staged import StagedStackSpec

VECTORS = (HeadKind.NONE, HeadKind.LAST_MAP)  # heads that leave hidden states as they are
SUMMED = (HeadKind.SEQUENCE, HeadKind.TOKENS, HeadKind.SPEAKER)  # heads that read a sum of layers

# Stacks that return boxes with their queries.
REFINING = (
    ProposalStackSpec
    | DistributionStackSpec
    | DeformableStackSpec
    | ConditionalStackSpec
    | AnchorStackSpec
    | MixedStackSpec
)
SCORING = ProposalStackSpec | DistributionStackSpec | MixedStackSpec  # stacks that score places


@dataclass(frozen=True)
class EncoderSpec:
    """A stack that reads a whole sequence at once, under a head.

    The stack may be causal: hidden states of a decoder-only model need no cache. `next_sentence` is a second
    head, beside a masked LM's, for pretraining; `distilled` one that scores the second token, and both are
    averaged (Touvron et al. 2021, 4). `vector` is a sequence's, made in another way than BERT's `pooler`.
    With a `layer_sum`, the head reads a signal's hidden states of all layers, summed by learned shares.
    """

    encoder: StackSpec
    head: HeadSpec = HeadSpec()
    pooler: bool = False
    next_sentence: HeadSpec | None = None
    distilled: bool = False
    vector: VectorSpec | None = None
    layer_sum: bool = False

    architecture: ClassVar[Architecture] = Architecture.ENCODER
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_stateless(self, self.encoder)
        if self.head.kind == HeadKind.CAUSAL_LM:
            raise SpecError(
                f"EncoderSpec: a causal LM head needs a decoder; head.kind is '{self.head.kind}', "
                "expected another"
            )
        if self.encoder.has_cross_attention:
            raise SpecError("EncoderSpec: an encoder has nothing to cross-attend to")
        second = self.next_sentence
        if second is not None and not (self.head.kind == HeadKind.MASKED_LM and second.scores_sequence):
            raise SpecError(
                "EncoderSpec: a next-sentence head stands beside a masked LM's, and scores sequences; "
                f"it is of kind '{second.kind}' beside one of kind '{self.head.kind}'"
            )
        if self.distilled and self.head.kind != HeadKind.SEQUENCE:
            raise SpecError(
                f"EncoderSpec: a distilled head stands beside one that scores sequences; head.kind is "
                f"'{self.head.kind}', expected '{HeadKind.SEQUENCE}', or distilled=False"
            )
        labels = self.head.kind in SUMMED and not self.distilled
        if self.layer_sum and (isinstance(self.encoder, TextStackSpec) or not labels):
            raise SpecError(
                f"EncoderSpec: layer_sum is True under a head of kind '{self.head.kind}' over "
                f"{type(self.encoder.embedding).__name__}, distilled={self.distilled}; the sum is of an "
                f"image's or a sound's layers, for one head of kind {', '.join(SUMMED)}: expected False"
            )
        if self.head.kind == HeadKind.LAST_MAP and not isinstance(self.encoder, MapStackSpec):
            raise SpecError(
                f"EncoderSpec: a head of kind '{self.head.kind}' over {type(self.encoder).__name__}; "
                "expected MapStackSpec, which has maps"
            )
        own = self.encoder.embedding.registers if isinstance(self.encoder.embedding, PatchSpec) else 0
        if self.head.pick == Pick.FIRST_AND_MEAN and self.head.registers != own:
            raise SpecError(
                f"EncoderSpec: the head's mean leaves out {self.head.registers} registers, expected {own}"
            )
        if self.head.pick == Pick.GLOBAL_AVERAGE and isinstance(self.encoder, TextStackSpec):
            raise SpecError(
                f"EncoderSpec: '{Pick.GLOBAL_AVERAGE}' reads no mask, but a text may be padded; expected "
                f"'{Pick.MEAN}'"
            )
        masked = isinstance(self.encoder, TextStackSpec) or self.encoder.masked
        if self.head.pick == Pick.MEAN and not masked:
            raise SpecError(
                f"EncoderSpec: '{Pick.MEAN}' reads a mask, but the signal has none; expected "
                f"'{Pick.GLOBAL_AVERAGE}'"
            )
        if isinstance(self.encoder.embedding, NaflexSpec):
            raise SpecError("EncoderSpec: embedding is NaflexSpec, which a DualEncoderSpec alone reads")
        if isinstance(self.encoder.embedding, FlattenedPatchesSpec):
            raise SpecError("EncoderSpec: FlattenedPatchesSpec, which an EncoderDecoderSpec alone reads")
        if isinstance(self.encoder.embedding, PackedSpec):
            raise SpecError("EncoderSpec: embedding is PackedSpec, which a VisionLanguageSpec alone reads")
        if isinstance(self.encoder.embedding, LogMelSpec) and self.encoder.masked:
            raise SpecError("EncoderSpec: a masked LogMelSpec is read by a VisionLanguageSpec alone")
        if self.head.neck is not None:
            self._check_neck(self.head.neck)
        if self.head.stages:
            self._check_stages(self.head.stages)
        if self.head.boxes is not None:
            self._check_boxes(self.head.boxes)
        if self.head.instance_masks is not None:
            self._check_instance_masks(self.head.instance_masks)
        if self.head.masks is not None:
            self._check_maps(self.head.masks.pyramid.sizes)
        if self.head.map_pyramid is not None:
            self._check_maps(self.head.map_pyramid.sizes)
        if self.head.masked_queries is not None:
            self._check_maps(self.head.masked_queries.pyramid.sizes)
        if self.head.object_masks is not None:
            self._check_object_masks(self.head.object_masks)
        if self.vector is not None:
            self._check_vector(self.vector)
        if self.head.kind == HeadKind.MASKED_LM:
            if not isinstance(self.encoder, TextStackSpec):
                read = type(self.encoder.embedding).__name__
                raise SpecError(
                    f"EncoderSpec: a masked LM reads tokens, not images or sounds; embedding is {read}, "
                    "expected EmbeddingSpec"
                )
            check_tied(self.head, self.encoder)

    def _check_neck(self, neck: FeatureFusionSpec | PyramidSpec | PoseSpec) -> None:
        """Raise SpecError where the stack reads no patches of that size, or has not as many layers."""
        patches, kind = self.encoder.embedding, self.head.kind
        if not isinstance(patches, PatchSpec):
            read = type(patches).__name__
            raise SpecError(
                f"EncoderSpec: a head of kind '{kind}' reads patches; embedding is {read}, not PatchSpec"
            )
        before = patches.tokens + patches.registers
        if (neck.patch_size, neck.tokens) != (patches.patch_size, before) or patches.detection_tokens:
            raise SpecError(
                f"EncoderSpec: a head of kind '{kind}' reads patches of {neck.patch_size} pixels after "
                f"{neck.tokens} vectors; the encoder's have {patches.patch_size} after {before}, and "
                f"{patches.detection_tokens} vectors follow them; expected the same, and none"
            )
        if neck.layers[-1] != self.encoder.num_layers:
            raise SpecError(
                f"EncoderSpec: a head of kind '{kind}' reads the layers {[*neck.layers]} of "
                f"{self.encoder.num_layers}; expected the last layer among them"
            )
        if isinstance(neck, PyramidSpec) and neck.norm.size != self.encoder.hidden_size:
            raise SpecError(
                f"EncoderSpec: a pyramid's norm is {neck.norm.size} wide, the encoder "
                f"{self.encoder.hidden_size}"
            )

    def _check_boxes(self, boxes: BoxesSpec) -> None:
        """Raise SpecError where the stack returns no boxes to refine, or scores other labels."""
        stack = self.encoder
        proposed = isinstance(stack, REFINING)
        if boxes.refined != proposed:
            raise SpecError(
                f"EncoderSpec: boxes with refined={boxes.refined} over {type(stack).__name__}; expected "
                f"{proposed}"
            )
        if boxes.scaled != isinstance(stack, MixedStackSpec):
            raise SpecError(
                f"EncoderSpec: boxes with scaled={boxes.scaled} over {type(stack).__name__}, expected "
                f"{not boxes.scaled}"
            )
        edges = stack.edges if isinstance(stack, DistributionStackSpec) else None
        if edges != (boxes.quality and boxes.quality.edges):
            raise SpecError(
                f"EncoderSpec: {boxes.quality} over {type(stack).__name__}, expected one of {edges}"
            )
        if isinstance(stack, SCORING) and self.head.labels != stack.labels:
            raise SpecError(
                f"EncoderSpec: the head has {self.head.labels} labels, expected the stack's {stack.labels}"
            )

    def _check_stages(self, read: tuple[int, ...]) -> None:
        """Raise SpecError where the stack has no stages, or others."""
        stages = self.encoder.stages if isinstance(self.encoder, StagedStackSpec) else ()
        sizes = tuple(stage.hidden_size for stage in stages if stage.norm is not None)
        if not stages or sizes != read or len(sizes) != len(stages):
            raise SpecError(
                f"EncoderSpec: a head of kind '{self.head.kind}' reads maps of {read} channels, but "
                f"{len(stages)} stages have norms of {sizes}; expected one map for each stage, and a norm in "
                "each"
            )

    def _check_maps(self, read: tuple[int, ...]) -> None:
        """Raise SpecError where the stack has no stages, or others than those whose maps are read."""
        stack = self.encoder
        stages = stack.stages if isinstance(stack, StagedStackSpec) else ()
        sizes = tuple(stage.hidden_size for stage in stages)
        sizes = stack.embedding.sizes if isinstance(stack, MapStackSpec) else sizes
        if sizes != read:
            raise SpecError(
                f"EncoderSpec: masks of maps of {read} channels, but stages of {sizes}; expected one map for "
                "each stage"
            )

    def _check_object_masks(self, masks: ObjectMasksSpec) -> None:
        """Raise SpecError where the stack has no queries, or others."""
        stack = self.encoder
        described = (stack.queries, stack.hidden_size) if isinstance(stack, QueryStackSpec) else ()
        sizes = stack.embedding.sizes[:-1] if isinstance(stack, QueryStackSpec) else ()
        if described != (masks.queries, masks.hidden_size) or sizes != masks.sizes:
            raise SpecError(
                f"EncoderSpec: masks of {masks.queries} queries of {masks.hidden_size} numbers over maps of "
                f"{masks.sizes} channels; expected those of the encoder, {described} over {sizes}"
            )

    def _check_instance_masks(self, masks: InstanceMasksSpec) -> None:
        """Raise SpecError where the stack has other boxes or queries, or not one map."""
        self._check_boxes(masks.boxes)
        stack = self.encoder
        described = (stack.queries, stack.hidden_size) if isinstance(stack, MixedStackSpec) else ()
        levels = stack.embedding.levels if isinstance(stack, MixedStackSpec) else 0
        if described != (masks.boxes.queries, masks.hidden_size) or levels != 1:
            raise SpecError(
                f"EncoderSpec: masks of {masks.boxes.queries} queries of {masks.hidden_size} numbers over "
                f"{levels} maps; expected those of the encoder, {described}, over one"
            )

    def _check_vector(self, vector: VectorSpec) -> None:
        """Raise SpecError where it stands beside more than hidden states, or does not fit them."""
        if self.pooler or self.head.kind not in VECTORS:
            raise SpecError(
                f"EncoderSpec: a vector with pooler={self.pooler} and a head of kind '{self.head.kind}'; it "
                f"stands beside hidden states alone: expected False and '{HeadKind.NONE}'"
            )
        signal = not isinstance(self.encoder, TextStackSpec)
        if vector.pick not in (Pick.FIRST, Pick.GLOBAL_AVERAGE) and signal:
            raise SpecError(
                f"EncoderSpec: the vector is picked by '{vector.pick}', but images and sounds have no ids; "
                f"expected '{Pick.FIRST}' or '{Pick.GLOBAL_AVERAGE}'"
            )
        masked = isinstance(self.encoder, TextStackSpec) or self.encoder.masked
        if vector.pick == Pick.GLOBAL_AVERAGE and masked:
            raise SpecError(
                f"EncoderSpec: the vector is picked by '{vector.pick}', which reads no mask, but rows may be "
                f"padded; expected '{Pick.FIRST}'"
            )
        if vector.pick == Pick.FINAL and self.encoder.limit is None:
            raise SpecError("EncoderSpec: texts are padded to one length, but positions have no limit")
        pooled = vector.pool.norm if vector.pool is not None else None
        for name, part in (("norm", vector.norm), ("pool", pooled)):
            if part is not None and part.size != self.encoder.hidden_size:
                raise SpecError(
                    f"EncoderSpec: the vector's {name} is {part.size} wide, the encoder "
                    f"{self.encoder.hidden_size}"
                )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"encoder": self.encoder}

    @property
    def stack(self) -> StackSpec:
        """The stack under the head."""
        return self.encoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack under the head knows."""
        return self.encoder.embedding.vocab_size if isinstance(self.encoder, TextStackSpec) else 0
