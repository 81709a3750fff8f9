"""A text encoder and one of images or sounds, whose vectors are compared."""

from dataclasses import dataclass, field
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.embedding import EmbeddingSpec
from txexport.spec.enums import Activation, Architecture, Pick
from txexport.spec.head import AttentionPoolSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.naflex import NaflexSpec
from txexport.spec.signal_embedding import PatchSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec, check_stateless
from txexport.spec.staged import StagedStackSpec


@dataclass(frozen=True)
class DualEncoderSpec:
    """Two encoders whose vectors of texts and images, or of texts and sounds, are compared.

    As in CLIP (Radford et al. 2021, 2.3), an image's vector is the first, a text's is selected by `pick`,
    where `eos_token_id` is the id that ends a text. Both are projected to `size` numbers and L2-normalised;
    `text_bias` is the text projection's. With a `vision_pool`, an image's vector is the pool's, and not
    projected. Their products are multiplied by a learned scale. With `sigmoid_scores`, a learned bias is
    added, and the sigmoid of the sum is the probability of one pair (Zhai et al. 2023, 3.2).

    As in CLAP (Wu et al. 2023, 3), `audio` takes the place of `vision`. A sound's vector is the mean of all,
    a text's the first one after a dense layer and tanh. Projections have a second layer behind `activation`,
    both with a bias, and the scores of sounds another scale than those of texts.
    """

    text: TextStackSpec
    vision: SignalStackSpec | None
    size: int
    pick: Pick
    eos_token_id: int | None = None
    text_bias: bool = False
    vision_pool: AttentionPoolSpec | None = None
    sigmoid_scores: bool = field(default=False, metadata={"stored": "scored_alone"})
    audio: StagedStackSpec | None = None
    activation: Activation | None = None

    architecture: ClassVar[Architecture] = Architecture.DUAL_ENCODER
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "size")
        check_stateless(self, self.text)
        check_no_crossing(self, self.text.blocks)
        if (self.vision is None) == (self.audio is None) or (self.audio is None) != (self.activation is None):
            read = ", ".join(name for name in ("vision", "audio", "activation") if getattr(self, name))
            raise SpecError(
                f"DualEncoderSpec: beside text it has {read or 'nothing'}; expected vision, or audio and "
                "activation"
            )
        embedding = self.signal.embedding
        if not isinstance(self.text.embedding, EmbeddingSpec) or (
            self.vision is not None and not isinstance(embedding, PatchSpec | NaflexSpec)
        ):
            read = f"{type(self.text.embedding).__name__} and {type(embedding).__name__}"
            raise SpecError(
                f"DualEncoderSpec: one encoder reads text, the other images; they read {read}, expected "
                "EmbeddingSpec and PatchSpec"
            )
        if self.text.global_tokens:
            raise SpecError("DualEncoderSpec: neither encoder takes global tokens")
        picks = (Pick.FIRST, Pick.FIRST_EOS, Pick.ARGMAX_ID, Pick.FINAL)
        if self.pick not in picks or (self.pick == Pick.FIRST_EOS) != (self.eos_token_id is not None):
            raise SpecError(
                "DualEncoderSpec: a text's vector is its first, its final, or picked by the id that ends it, "
                f"not '{self.pick}' {self.eos_token_id}"
            )
        if self.pick == Pick.FINAL and self.text.limit is None:
            raise SpecError("DualEncoderSpec: texts are padded to one length, but positions have no limit")
        pool = self.vision_pool
        if pool is not None and {pool.norm.size, self.size} != {self.signal.hidden_size}:
            raise SpecError(
                f"DualEncoderSpec: images are {self.signal.hidden_size} wide, their pool {pool.norm.size}, "
                f"vectors {self.size}; expected one width, since nothing projects what is pooled"
            )
        masked = isinstance(embedding, NaflexSpec)
        if masked != (pool is not None and not pool.attention.unmasked):
            raise SpecError(
                f"DualEncoderSpec: the pool is {'none' if pool is None else 'one of attention'} over "
                f"{type(embedding).__name__}; expected unmasked=False over patches of any shape alone"
            )

    @property
    def signal(self) -> SignalStackSpec | StagedStackSpec:
        """The encoder of images or sounds."""
        stack = self.vision if self.audio is None else self.audio
        assert stack is not None
        return stack

    @property
    def signal_name(self) -> str:
        """The name of that encoder: "vision" or "audio"."""
        return "vision" if self.audio is None else "audio"

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"text": self.text, self.signal_name: self.signal}
