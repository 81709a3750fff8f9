"""An encoder and a decoder with cross-attention."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.decoder import check_causal_lm, check_decoder
from txexport.spec.dual_attention import PicturesSpec
from txexport.spec.enums import Architecture, HeadKind
from txexport.spec.head import HeadSpec
from txexport.spec.lengths import output_size
from txexport.spec.signal_embedding import PatchSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec, check_stateless


@dataclass(frozen=True)
class AlignmentSpec:
    """The heads of cross-attention that align a decoder's tokens with a sound, as (layer, head).

    A median filter of `filter_width` frames smooths their weights. If `for_others`, other clients read them
    from the weights of every layer.
    """

    heads: tuple[tuple[int, int], ...]
    filter_width: int = 7
    for_others: bool = False

    def __post_init__(self) -> None:
        if not self.heads or len(set(self.heads)) != len(self.heads):
            raise SpecError(f"AlignmentSpec: heads are {self.heads}, expected one or more, each once")
        if self.filter_width < 1 or self.filter_width % 2 == 0:
            raise SpecError(f"AlignmentSpec: filter_width is {self.filter_width}, expected an odd number")

    @property
    def num_layers(self) -> int:
        """The number of layers up to the last one with such a head."""
        return 1 + max(layer for layer, _ in self.heads)


@dataclass(frozen=True)
class EncoderDecoderSpec:
    """A decoder with cross-attention to the output of an encoder.

    With `shared_embedding`, both have one token embedding. Cross-attention reads the encoder's vectors,
    `projected` to the decoder's width first or as they are. With a `decoder_start_token_id`, the decoder
    generates nothing: it reads the encoder's input shifted right, after that token, and the head classifies
    its output (Lewis et al. 2020, 3.1). With an `alignment`, tokens have times in the sound that is encoded.
    With `pictures`, images stand among the encoder's tokens (Xiao et al. 2024, 4). With a `vision` stack, the
    encoder attends to the vectors of an image, one for each text (Li et al. 2022, 3.1).
    """

    encoder: StackSpec
    decoder: TextStackSpec
    head: HeadSpec
    shared_embedding: bool = False
    decoder_start_token_id: int | None = None
    projected: bool = False
    alignment: AlignmentSpec | None = None
    pictures: PicturesSpec | None = None
    vision: SignalStackSpec | None = None

    architecture: ClassVar[Architecture] = Architecture.ENCODER_DECODER

    def __post_init__(self) -> None:
        check_stateless(self, self.encoder)
        check_decoder(self, self.decoder)
        if not self.decoder.has_cross_attention:
            raise SpecError(
                "EncoderDecoderSpec: cross_attention is None, expected one, by which the decoder reads the "
                "encoder; or a DecoderSpec"
            )
        self._check_vision()
        self._check_source()
        self._check_alignment()
        self._check_pictures()
        if self.generates:
            check_causal_lm(self, self.head, self.decoder)
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
                    "EncoderDecoderSpec: encoder and decoder cannot share token embeddings of two shapes, "
                    f"{shapes}; expected equal ones, or shared_embedding=False"
                )

    def _check_source(self) -> None:
        """Raise SpecError where keys and values are of other vectors than the decoder is given."""
        given = self.decoder.hidden_size if self.projected else self.source_size
        for block in self.decoder.blocks:
            cross = block.cross_attention
            if cross is not None and cross.unmasked and self.masked:
                raise SpecError(
                    "EncoderDecoderSpec: cross attention is unmasked over a masked sound; expected False"
                )
            if cross is not None and cross.key_value_size != given:
                raise SpecError(
                    f"EncoderDecoderSpec: keys and values are made of {cross.key_value_size} numbers, but a "
                    f"vector given has {given}; expected source_size={given}, or projected=True"
                )

    def _check_vision(self) -> None:
        """Raise SpecError unless the encoder of tokens attends to a stack over images, or to nothing."""
        crossed = [block.cross_attention for block in self.encoder.blocks if block.cross_attention]
        if self.vision is None:
            if self.encoder.has_cross_attention:
                raise SpecError("EncoderDecoderSpec: an encoder has nothing to cross-attend to")
            return
        fixed = isinstance(self.vision.embedding, PatchSpec) and not self.vision.embedding.any_size
        if not (fixed and crossed and not self.encoder.causal and self.generates and self.pictures is None):
            raise SpecError(
                f"EncoderDecoderSpec: vision reads {type(self.vision.embedding).__name__}, the encoder has "
                f"causal={self.encoder.causal} and {len(crossed)} blocks with cross attention; expected "
                "patches of one size, False and all of them, under a decoder that generates"
            )
        for cross in crossed:
            if (cross.key_value_size, cross.unmasked) != (self.vision.hidden_size, True):
                raise SpecError(
                    f"EncoderDecoderSpec: the encoder attends to vectors of {cross.key_value_size} numbers "
                    f"with unmasked={cross.unmasked}, expected {self.vision.hidden_size} and True"
                )

    def _check_pictures(self) -> None:
        """Raise SpecError unless images stand among the tokens of the encoder, or nowhere."""
        tokens = self.encoder.embedding if isinstance(self.encoder, TextStackSpec) else None
        pictured = tokens is not None and tokens.image_token_id is not None
        if pictured != (self.pictures is not None) or (pictured and not self.generates):
            raise SpecError(
                f"EncoderDecoderSpec: pictures are {self.pictures}, and the encoder's image_token_id is "
                f"{None if tokens is None else tokens.image_token_id}; expected both, over a decoder that "
                "generates, or neither"
            )
        if self.decoder.embedding.image_token_id is not None:
            raise SpecError("EncoderDecoderSpec: the decoder has an image_token_id; expected None")
        if self.pictures is not None and self.pictures.norm.size != self.encoder.hidden_size:
            raise SpecError(
                f"EncoderDecoderSpec: pictures are vectors of {self.pictures.norm.size} numbers, expected "
                f"{self.encoder.hidden_size}"
            )

    def _check_alignment(self) -> None:
        """Raise SpecError for heads of alignment that the decoder lacks."""
        for layer, head in () if self.alignment is None else self.alignment.heads:
            cross = (
                self.decoder.layers[layer].cross_attention if 0 <= layer < self.decoder.num_layers else None
            )
            if cross is None or not 0 <= head < cross.num_heads or not self.generates:
                raise SpecError(
                    f"EncoderDecoderSpec: alignment has head {head} of layer {layer}, expected one of the "
                    f"{self.decoder.num_layers} layers of a decoder that generates"
                )

    @property
    def masked(self) -> bool:
        """True where the encoder reads the mask of a signal, and so does the decoder's cross-attention."""
        return isinstance(self.encoder, SignalStackSpec) and self.encoder.masked

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Kernels and strides by which the vectors of a masked signal are counted, up to the decoder."""
        return self.encoder.counted if isinstance(self.encoder, SignalStackSpec) else ()

    @property
    def image_token_id(self) -> int | None:
        """The token of the encoder in whose places images stand; None without images."""
        return self.encoder.embedding.image_token_id if isinstance(self.encoder, TextStackSpec) else None

    @property
    def source_size(self) -> int:
        """The width of the encoder's output."""
        return output_size(self.encoder)

    @property
    def generates(self) -> bool:
        """True where the decoder generates tokens."""
        return self.decoder_start_token_id is None

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        images: dict[str, StackSpec] = {} if self.vision is None else {"vision": self.vision}
        return images | {"encoder": self.encoder, "decoder": self.decoder}

    @property
    def stack(self) -> TextStackSpec:
        """The stack under the head."""
        return self.decoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack under the head knows."""
        return self.decoder.embedding.vocab_size
