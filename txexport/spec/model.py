"""Whole models: stacks of layers, alone, one after the other, or side by side."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import LinformerAttentionSpec
from txexport.spec.embedding import AlibiSpec, EmbeddingSpec, PatchSpec, RelativeSpec, SoundSpec
from txexport.spec.enums import HeadKind, Pick
from txexport.spec.head import HeadSpec
from txexport.spec.layer import BlockSpec
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class StackSpec:
    """An embedding and `num_layers` layers; `final_norm` closes a pre-norm stack.

    `blocks` are the layers' in turn, from the first again after the last, so one serves a stack of equal
    layers. `relative` is the bias that all layers share.
    """

    embedding: EmbeddingSpec | PatchSpec | SoundSpec
    blocks: tuple[BlockSpec, ...]
    num_layers: int
    final_norm: NormSpec | None = None
    relative: RelativeSpec | AlibiSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "num_layers")
        if not 1 <= len(self.blocks) <= self.num_layers:
            raise SpecError(f"StackSpec: {len(self.blocks)} blocks for {self.num_layers} layers")
        width, first = self.embedding.hidden_size, self.blocks[0]
        for block in self.blocks:
            if block.attention.hidden_size != width:
                raise SpecError(
                    f"StackSpec: the embedding is {width} wide, its blocks {block.attention.hidden_size}"
                )
            if block.attention.biased != (self.relative is not None):
                raise SpecError("StackSpec: attention is biased exactly when positions give a relative bias")
            if (block.cross_attention is None) != (first.cross_attention is None):
                raise SpecError("StackSpec: either every layer has cross attention or none")
            if block.attention.causal != first.attention.causal:
                raise SpecError("StackSpec: either every layer is causal or none")
            kind, limit = block.attention, self.limit
            if isinstance(kind, LinformerAttentionSpec) and kind.max_length != limit:
                raise SpecError(
                    f"StackSpec: attention takes up to {kind.max_length} tokens, positions {limit}"
                )
        heads = first.attention.num_heads
        if isinstance(self.relative, AlibiSpec) and len(self.relative.slopes) != heads:
            raise SpecError(f"StackSpec: {len(self.relative.slopes)} slopes for {heads} heads")
        if not isinstance(self.embedding, EmbeddingSpec) and (
            self.causal
            or self.relative is not None
            or any(b.attention.token_masks or b.attention.window for b in self.blocks)
        ):
            raise SpecError("StackSpec: images and sounds are seen as a whole")
        if self.final_norm is not None and self.final_norm.size != width:
            raise SpecError(f"StackSpec: final norm is {self.final_norm.size} wide, the stack {width}")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.embedding.hidden_size

    @property
    def words(self) -> EmbeddingSpec:
        """The embedding of a stack that reads tokens."""
        assert isinstance(self.embedding, EmbeddingSpec)
        return self.embedding

    @property
    def limit(self) -> int | None:
        """The longest sequence, in tokens; None where there is no limit, or where no tokens come in."""
        return self.embedding.position.limit if isinstance(self.embedding, EmbeddingSpec) else None

    @property
    def layers(self) -> tuple[BlockSpec, ...]:
        """The block of every layer."""
        return tuple(self.blocks[layer % len(self.blocks)] for layer in range(self.num_layers))

    @property
    def causal(self) -> bool:
        """Whether tokens see only those before them."""
        return self.blocks[0].attention.causal

    @property
    def crossed(self) -> bool:
        """Whether layers attend to an encoder's output."""
        return self.blocks[0].cross_attention is not None

    @property
    def global_tokens(self) -> bool:
        """Whether a layer takes a mask of tokens that every token sees."""
        return any("global_attention_mask" in block.attention.token_masks for block in self.blocks)


@dataclass(frozen=True)
class TowersSpec:
    """Two encoders whose vectors of texts and images are compared (Radford et al. 2021, 2.3).

    Each picks one vector of its sequence, projected to `size` numbers and made 1 long: the images' first, the
    texts' by `pick`, where `mark` is the id that ends a text. A learned scale multiplies their products.
    """

    text: StackSpec
    vision: StackSpec
    size: int
    pick: Pick
    mark: int | None = None

    def __post_init__(self) -> None:
        positive(self, "size")
        if not (
            isinstance(self.text.embedding, EmbeddingSpec) and isinstance(self.vision.embedding, PatchSpec)
        ):
            raise SpecError("TowersSpec: one tower reads text, the other images")
        if self.text.global_tokens:
            raise SpecError("TowersSpec: no tower takes global tokens")
        if self.pick not in (Pick.MARK, Pick.HIGHEST) or (self.pick == Pick.MARK) != (self.mark is not None):
            raise SpecError(
                f"TowersSpec: a text's vector is picked by its mark, not '{self.pick}' {self.mark}"
            )


@dataclass(frozen=True)
class ModelSpec:
    """A whole model.

    `encoder` reads a whole sequence at once; `decoder` reads new tokens over a cache of past ones.
    Both together are sequence-to-sequence, and `shared_embedding` then says that one word matrix
    serves both. With a `start`, the decoder generates nothing: it reads what the encoder reads, one place
    later and after that token, and the head's labels are of what it makes of it (Lewis et al. 2020, 3.1).
    A causal stack may stand in `encoder`: hidden states of a decoder-only model need
    no cache. `next_sentence` is a second head, beside a masked LM's, for pretraining; `distilled` one that
    scores the second token, and both are averaged (Touvron et al. 2021, 4). `towers` are two encoders of
    their own instead.
    """

    encoder: StackSpec | None = None
    decoder: StackSpec | None = None
    head: HeadSpec = HeadSpec()
    pooler: bool = False
    shared_embedding: bool = False
    next_sentence: HeadSpec | None = None
    distilled: bool = False
    towers: TowersSpec | None = None
    start: int | None = None

    def __post_init__(self) -> None:
        if self.towers is not None:
            if (self.encoder, self.decoder, self.head) != (None, None, HeadSpec()):
                raise SpecError("ModelSpec: two towers stand alone, with no other stack and no head")
            return
        if self.encoder is None and self.decoder is None:
            raise SpecError("ModelSpec: neither encoder nor decoder")
        if self.decoder is not None:
            self._check_decoder(self.decoder)
        elif self.head.kind == HeadKind.CAUSAL_LM:
            raise SpecError("ModelSpec: a causal LM head needs a decoder")
        elif self.encoder is not None and self.encoder.crossed:
            raise SpecError("ModelSpec: an encoder has nothing to cross-attend to")
        if self.start is not None:
            self._check_start()
        if self.pooler and (self.encoder is None or self.decoder is not None):
            raise SpecError("ModelSpec: a pooler needs an encoder-only model")
        second = self.next_sentence
        if second is not None and not (self.head.kind == HeadKind.MASKED_LM and second.whole):
            raise SpecError(
                "ModelSpec: a next-sentence head stands beside a masked LM's, and scores sequences"
            )
        if self.distilled and self.head.kind != HeadKind.SEQUENCE:
            raise SpecError("ModelSpec: a distilled head stands beside one that scores sequences")
        if self.head.kind in (HeadKind.MASKED_LM, HeadKind.CAUSAL_LM) and self.head.tied:
            self._check_tied()
        if self.shared_embedding:
            self._check_shared()

    def _check_decoder(self, decoder: StackSpec) -> None:
        if any(block.attention.token_masks for block in decoder.blocks):
            raise SpecError("ModelSpec: sparse attention has no cache, so it stands in an encoder only")
        if decoder.words.position.padding is not None:
            raise SpecError("ModelSpec: a decoder's positions continue a cache, so they cannot skip padding")
        if decoder.crossed != (self.encoder is not None):
            raise SpecError("ModelSpec: a decoder has cross attention exactly when there is an encoder")
        if not decoder.causal:
            raise SpecError("ModelSpec: a decoder's attention must be causal")
        if self.start is None and self.head.kind != HeadKind.CAUSAL_LM:
            raise SpecError(f"ModelSpec: a decoder needs a causal LM head, not '{self.head.kind}'")

    def _check_start(self) -> None:
        reads = self.encoder is not None and isinstance(self.encoder.embedding, EmbeddingSpec)
        if not reads or self.decoder is None or self.head.kind not in (HeadKind.SEQUENCE, HeadKind.SPANS):
            raise SpecError("ModelSpec: what is read twice are tokens, for labels of sequences or for spans")

    def _check_tied(self) -> None:
        words = self.stack.words.table_size
        projected = self.head.norm.size if self.head.norm is not None else self.stack.hidden_size
        if projected != words:
            raise SpecError(f"ModelSpec: a head of {projected} numbers is tied to word vectors of {words}")

    def _check_shared(self) -> None:
        if self.encoder is None or self.decoder is None:
            raise SpecError("ModelSpec: a shared embedding needs an encoder and a decoder")
        ours, theirs = self.encoder.words, self.decoder.words
        if (ours.vocab_size, ours.hidden_size) != (theirs.vocab_size, theirs.hidden_size):
            raise SpecError("ModelSpec: encoder and decoder cannot share word matrices of two shapes")

    @property
    def generates(self) -> bool:
        """Whether a decoder writes tokens."""
        return self.decoder is not None and self.start is None

    @property
    def stack(self) -> StackSpec:
        """The stack under the head: the decoder where there is one."""
        stack = self.decoder or self.encoder
        assert stack is not None
        return stack
