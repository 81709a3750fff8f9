"""Whole models: one stack of layers, one after the other, or two side by side.

Each class answers what generic code asks of any model: its `stacks` by name, and whether it `generates`
tokens. All but two encoders side by side have a `head` on the `stack` under it, which knows `vocab_size`
tokens, 0 where it reads none.
"""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.embedding import EmbeddingSpec, PatchSpec
from txexport.spec.enums import Architecture, HeadKind, Pick
from txexport.spec.head import AttentionPoolSpec, HeadSpec, VectorSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec


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
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
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
        labels = self.head.kind == HeadKind.SEQUENCE and not self.distilled
        if self.layer_sum and (isinstance(self.encoder, TextStackSpec) or not labels):
            raise SpecError(
                f"EncoderSpec: layer_sum is True under a head of kind '{self.head.kind}' over "
                f"{type(self.encoder.embedding).__name__}, distilled={self.distilled}; the sum is of an "
                f"image's or a sound's layers, for one head of kind '{HeadKind.SEQUENCE}': expected False"
            )
        own = self.encoder.embedding.registers if isinstance(self.encoder.embedding, PatchSpec) else 0
        if self.head.pick == Pick.FIRST_AND_MEAN and self.head.registers != own:
            raise SpecError(
                f"EncoderSpec: the head's mean leaves out {self.head.registers} registers, expected {own}"
            )
        if self.head.pick == Pick.MEAN_BEHIND and isinstance(self.encoder, TextStackSpec):
            raise SpecError(
                f"EncoderSpec: '{Pick.MEAN_BEHIND}' reads no mask, but a text may be padded; expected "
                f"'{Pick.MEAN}'"
            )
        if self.vector is not None:
            self._check_vector(self.vector)
        if self.head.kind == HeadKind.MASKED_LM:
            if not isinstance(self.encoder, TextStackSpec):
                read = type(self.encoder.embedding).__name__
                raise SpecError(
                    f"EncoderSpec: a masked LM reads tokens, not images or sounds; embedding is {read}, "
                    "expected EmbeddingSpec"
                )
            _check_tied(self.head, self.encoder)

    def _check_vector(self, vector: VectorSpec) -> None:
        """Raise SpecError where it stands beside more than hidden states, or does not fit them."""
        if self.pooler or self.head.kind != HeadKind.NONE:
            raise SpecError(
                f"EncoderSpec: a vector with pooler={self.pooler} and a head of kind '{self.head.kind}'; it "
                f"stands beside hidden states alone: expected False and '{HeadKind.NONE}'"
            )
        if vector.pick != Pick.FIRST and not isinstance(self.encoder, TextStackSpec):
            raise SpecError(
                f"EncoderSpec: the vector is picked by '{vector.pick}', but images and sounds have no ids; "
                f"expected '{Pick.FIRST}'"
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


@dataclass(frozen=True)
class DecoderSpec:
    """A stack that reads new tokens over a cache of past ones, and scores what comes next."""

    decoder: TextStackSpec
    head: HeadSpec

    architecture: ClassVar[Architecture] = Architecture.DECODER
    generates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_decoder(self, self.decoder)
        if self.decoder.has_cross_attention:
            raise SpecError(
                "DecoderSpec: there is no encoder to cross-attend to; expected cross_attention=None, or an "
                "EncoderDecoderSpec"
            )
        _check_causal_lm(self, self.head, self.decoder)

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"decoder": self.decoder}

    @property
    def stack(self) -> TextStackSpec:
        """The stack under the head."""
        return self.decoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack under the head knows."""
        return self.decoder.embedding.vocab_size


@dataclass(frozen=True)
class EncoderDecoderSpec:
    """A decoder that attends to what an encoder makes of a whole sequence.

    `shared_embedding` says that one word matrix serves both. Keys and values are made of the encoder's
    vectors, `projected` to the decoder's width first or as they are. With a `decoder_start_token_id`, the
    decoder generates nothing: it reads what the encoder reads, one place later and after that token, and the
    head's labels are of what it makes of it (Lewis et al. 2020, 3.1).
    """

    encoder: StackSpec
    decoder: TextStackSpec
    head: HeadSpec
    shared_embedding: bool = False
    decoder_start_token_id: int | None = None
    projected: bool = False

    architecture: ClassVar[Architecture] = Architecture.ENCODER_DECODER

    def __post_init__(self) -> None:
        _check_decoder(self, self.decoder)
        if not self.decoder.has_cross_attention:
            raise SpecError(
                "EncoderDecoderSpec: cross_attention is None, expected one, by which the decoder reads the "
                "encoder; or a DecoderSpec"
            )
        if self.encoder.has_cross_attention:
            raise SpecError("EncoderDecoderSpec: an encoder has nothing to cross-attend to")
        self._check_source()
        if self.generates:
            _check_causal_lm(self, self.head, self.decoder)
        elif not isinstance(self.encoder, TextStackSpec) or self.head.kind not in (
            HeadKind.SEQUENCE,
            HeadKind.SPANS,
        ):
            read = type(self.encoder.embedding).__name__
            raise SpecError(
                "EncoderDecoderSpec: what is read twice are tokens, for labels of sequences or for spans; "
                f"the encoder reads {read} and head.kind is '{self.head.kind}'"
            )
        if self.shared_embedding:
            if not isinstance(self.encoder, TextStackSpec):
                read = type(self.encoder.embedding).__name__
                raise SpecError(
                    "EncoderDecoderSpec: a shared embedding needs two stacks that read tokens; the encoder "
                    f"reads {read}: expected shared_embedding=False"
                )
            ours, theirs = self.encoder.embedding, self.decoder.embedding
            if (ours.vocab_size, ours.hidden_size) != (theirs.vocab_size, theirs.hidden_size):
                shapes = " and ".join(f"({e.vocab_size}, {e.hidden_size})" for e in (ours, theirs))
                raise SpecError(
                    "EncoderDecoderSpec: encoder and decoder cannot share word matrices of two shapes, "
                    f"{shapes}; expected equal ones, or shared_embedding=False"
                )

    def _check_source(self) -> None:
        """Raise SpecError where keys and values are of other vectors than the decoder is given."""
        given = self.decoder.hidden_size if self.projected else self.encoder.hidden_size
        for block in self.decoder.blocks:
            cross = block.cross_attention
            if cross is not None and cross.key_value_size != given:
                raise SpecError(
                    f"EncoderDecoderSpec: keys and values are made of {cross.key_value_size} numbers, but a "
                    f"vector given has {given}; expected source_size={given}, or projected=True"
                )

    @property
    def generates(self) -> bool:
        """Whether the decoder writes tokens."""
        return self.decoder_start_token_id is None

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"encoder": self.encoder, "decoder": self.decoder}

    @property
    def stack(self) -> TextStackSpec:
        """The stack under the head."""
        return self.decoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack under the head knows."""
        return self.decoder.embedding.vocab_size


@dataclass(frozen=True)
class DualEncoderSpec:
    """Two encoders whose vectors of texts and images are compared (Radford et al. 2021, 2.3).

    Each picks one vector of its sequence, projected to `size` numbers and made 1 long: the images' first, the
    texts' by `pick`, where `eos_token_id` is the id that ends a text; `text_bias` is that projection's. With
    a `vision_pool`, an image's vector is the pool's, and not projected. A learned scale multiplies their
    products. Where they are `scored_alone`, a learned bias is added, and the sigmoid of the sum is a pair's
    own probability (Zhai et al. 2023, 3.2).
    """

    text: TextStackSpec
    vision: SignalStackSpec
    size: int
    pick: Pick
    eos_token_id: int | None = None
    text_bias: bool = False
    vision_pool: AttentionPoolSpec | None = None
    scored_alone: bool = False

    architecture: ClassVar[Architecture] = Architecture.DUAL_ENCODER
    generates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "size")
        if not (
            isinstance(self.text.embedding, EmbeddingSpec) and isinstance(self.vision.embedding, PatchSpec)
        ):
            read = f"{type(self.text.embedding).__name__} and {type(self.vision.embedding).__name__}"
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
        if pool is not None and {pool.norm.size, self.size} != {self.vision.hidden_size}:
            raise SpecError(
                f"DualEncoderSpec: images are {self.vision.hidden_size} wide, their pool {pool.norm.size}, "
                f"vectors {self.size}; expected one width, since nothing projects what is pooled"
            )

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"text": self.text, "vision": self.vision}


ModelSpec = EncoderSpec | DecoderSpec | EncoderDecoderSpec | DualEncoderSpec


def _check_decoder(owner: object, decoder: TextStackSpec) -> None:
    if any(block.attention.token_masks for block in decoder.blocks):
        kinds = sorted({type(block.attention).__name__ for block in decoder.blocks})
        raise SpecError(
            f"{type(owner).__name__}: sparse attention has no cache, so it stands in an encoder only; "
            f"blocks have {', '.join(kinds)}, expected AttentionSpec"
        )
    if not decoder.causal:
        raise SpecError(
            f"{type(owner).__name__}: attention.causal is False, expected True: "
            "a decoder's attention must be causal"
        )
    if decoder.embedding.position.pad_token_id is not None:
        skipped = decoder.embedding.position.pad_token_id
        raise SpecError(
            f"{type(owner).__name__}: position.pad_token_id is {skipped}, expected None: "
            "a decoder's positions continue a cache, so they cannot skip padding"
        )


def _check_causal_lm(owner: object, head: HeadSpec, decoder: TextStackSpec) -> None:
    if head.kind != HeadKind.CAUSAL_LM:
        raise SpecError(f"{type(owner).__name__}: a decoder needs a causal LM head, not '{head.kind}'")
    _check_tied(head, decoder)


def _check_tied(head: HeadSpec, stack: TextStackSpec) -> None:
    """Raise SpecError where a language model's head is tied to words of another width."""
    words = stack.embedding.word_size
    projected = head.projection_size(stack.hidden_size)
    if head.tied and projected != words:
        raise SpecError(f"HeadSpec: a head of {projected} numbers is tied to word vectors of {words}")
