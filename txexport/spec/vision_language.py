"""A decoder that reads images or sounds among its tokens."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError
from txexport.spec.attention import AttentionSpec
from txexport.spec.connector import ConnectorSpec
from txexport.spec.decoder import check_causal_lm, check_decoder
from txexport.spec.enums import Architecture, Mutual, PositionKind
from txexport.spec.head import HeadSpec
from txexport.spec.mosaic import MosaicSpec
from txexport.spec.naflex import NaflexSpec
from txexport.spec.packed import PackedSpec
from txexport.spec.patch_merger import PatchMergerSpec
from txexport.spec.signal_embedding import LogMelSpec, PatchSpec
from txexport.spec.stack import SignalStackSpec, StackSpec, TextStackSpec

AXES = 3  # frames, rows and columns


@dataclass(frozen=True)
class VisionLanguageSpec:
    """An encoder of images, a connector, and a decoder under a causal LM head (Liu et al. 2023, 4.1).

    The connector's vectors of images, in their order, replace the embeddings of the tokens `image_token_id`.
    So do those of sounds, if `vision` is an encoder of sounds.

    - Images of one size: each is one row of vectors, or several where they are `tiled`; other clients then
      pass the tiles of a prompt, with a mask. The vectors of an image's tiles may form a `mosaic`, a map
      whose size depends on the image's; its graph reads one image at a time.
    - Images of any size: as packed patches, for a decoder with 3D positions (M-RoPE; Wang et al. 2024, 2.1);
      as patches with a mask, as in SigLIP 2; or as pixels, whose neighbouring patches a `merger` may join.
      With the latter two, positions are those of the tokens.
    - Sounds: log-mel spectrograms of one length. With a mask of their frames, vectors of padding are left
      out, so a sound has as many as its length says (Chu et al. 2024, 2); without, padding is read as sound,
      and longer sounds are several spectrograms (Liu et al. 2025, 2.1).
    - `mutual`: the tokens of an image, or of a prompt, attend to each other, so all of them are read in one
      step. For images there are no graphs for other clients, which cannot tell images apart from texts.
    - `deep`: outputs of these layers of the image encoder pass a `deep_connector` each and are added after
      the first layers of the decoder (DeepStack; Meng et al. 2024, 3.1). Other clients have no input for
      them, so there are no graphs for these.
    """

    vision: SignalStackSpec
    connector: ConnectorSpec
    decoder: TextStackSpec
    head: HeadSpec
    image_token_id: int
    tiled: bool = False
    mutual: Mutual | None = None
    mosaic: MosaicSpec | None = None
    deep: tuple[int, ...] = ()
    deep_connector: ConnectorSpec | None = None
    merger: PatchMergerSpec | None = None

    architecture: ClassVar[Architecture] = Architecture.VISION_LANGUAGE
    alignment: ClassVar[None] = None
    generates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_decoder(self, self.decoder)
        if self.decoder.has_cross_attention:
            raise SpecError(
                "VisionLanguageSpec: the decoder reads images among its tokens; expected cross_attention=None"
            )
        check_causal_lm(self, self.head, self.decoder)
        self._check_embedding()
        self._check_deep()
        if self.merger is not None and not self.square:
            raise SpecError("VisionLanguageSpec: a merger is for images of any size in pixels, expected None")
        if self.sounds:
            self._check_sounds(self.vision.embedding.shape[1] // 2)
            return
        if self.vision.packed is not None:
            self._check_packed(self.vision.packed)
            return
        if isinstance(self.vision.embedding, NaflexSpec):
            self._check_naflex()
            return
        patches = self.vision.embedding
        if isinstance(patches, PatchSpec) and patches.any_size and not patches.positioned:
            self._check_any_size()
            return
        if not isinstance(patches, PatchSpec) or patches.any_size or self.axes:
            raise SpecError(
                f"VisionLanguageSpec: the encoder reads {type(patches).__name__} for a decoder with "
                f"positions on {self.axes or 1} axes, expected patches of images of one size for one on 1"
            )
        if self.mosaic is not None and self.connector.vectors != self.mosaic.side**2:
            raise SpecError(
                f"VisionLanguageSpec: a tile has {self.connector.vectors} vectors, expected "
                f"{self.mosaic.side**2} for a mosaic"
            )
        read = patches.length - self.connector.skipped, self.vision.hidden_size, self.decoder.hidden_size
        if read != (patches.patches, self.connector.hidden_size, self.connector.size) or (
            self.connector.grid != patches.grid
        ):
            raise SpecError(
                f"VisionLanguageSpec: the connector reads a grid {self.connector.grid} of "
                f"{self.connector.hidden_size} numbers and gives {self.connector.size}, expected "
                f"{patches.grid} of {self.vision.hidden_size} and {self.decoder.hidden_size}"
            )

    def _check_packed(self, patches: PackedSpec) -> None:
        """Raise SpecError unless the connector joins what is packed, for a decoder of three axes."""
        self._check_squares(patches.merged)
        if self.axes != AXES or self.mutual or self.tiled or self.mosaic:
            raise SpecError(
                f"VisionLanguageSpec: positions on {self.axes or 1} axes with packed patches, expected "
                f"{AXES}, without tiles or mutual attention"
            )

    def _check_sounds(self, length: int) -> None:
        """Raise SpecError unless the connector joins all of the `length` vectors of a sound."""
        connector = self.connector
        read = connector.hidden_size, connector.size, connector.merged, connector.grid, connector.skipped
        if (
            read != (self.vision.hidden_size, self.decoder.hidden_size, 1, None, 0)
            or length % connector.consecutive
            or (self.axes, self.mutual, self.tiled, self.mosaic) != (0, None, False, None)
        ):
            raise SpecError(
                f"VisionLanguageSpec: sounds of {length} vectors, positions on {self.axes or 1} axes and "
                f"{connector}; expected 1 axis, and a connector of "
                f"{self.vision.hidden_size} numbers to {self.decoder.hidden_size} that joins all vectors"
            )

    def _check_any_size(self) -> None:
        """Raise SpecError unless the connector reads each patch, or what a merger makes of them."""
        width = self.vision.hidden_size if self.merger is None else self.merger.hidden_size
        if width != self.vision.hidden_size:
            raise SpecError(
                f"VisionLanguageSpec: the merger reads {width} numbers, expected {self.vision.hidden_size}"
            )
        if self.connector.merged != 1 or self.prefix_tokens:
            raise SpecError(
                f"VisionLanguageSpec: a connector of {self.connector.merged} by {self.connector.merged} "
                f"neighbours with {self.prefix_tokens} vectors before the patches of images of any size; "
                "expected 1 by 1 and none"
            )
        self._check_naflex()

    def _check_naflex(self) -> None:
        """Raise SpecError unless the connector joins patches of any shape, for positions in order."""
        self._check_squares(self.connector.merged)
        if self.axes or self.mutual or self.tiled or self.mosaic:
            raise SpecError(
                f"VisionLanguageSpec: positions on {self.axes or 1} axes with patches of any shape, expected "
                "1, without tiles or mutual attention"
            )

    def _check_squares(self, merged: int) -> None:
        """Raise SpecError unless the connector joins squares of `merged` by `merged` patches side by side."""
        connector = self.connector
        read = connector.hidden_size, connector.size, connector.merged
        sizes = self.vision.hidden_size, self.decoder.hidden_size, merged
        if read != sizes or connector.grid is not None or connector.skipped:
            raise SpecError(
                f"VisionLanguageSpec: the connector reads {connector.hidden_size} numbers of "
                f"{connector.merged} by {connector.merged} neighbours on the grid {connector.grid} and gives "
                f"{connector.size}, expected {sizes[0]} of {sizes[2]} by {sizes[2]} without a grid and "
                f"{sizes[1]}"
            )

    def _check_deep(self) -> None:
        """Raise SpecError unless layers of both stacks, and connectors like the last one, fit `deep`."""
        last, other = self.connector, self.deep_connector
        layers, fewer = self.vision.num_layers, self.decoder.num_layers
        if not self.deep and other is None:
            return
        rising = [*self.deep] == sorted({*self.deep}) and all(0 <= one < layers for one in self.deep)
        alike = other is not None and (other.hidden_size, other.size, other.grid, other.merged) == (
            last.hidden_size,
            last.size,
            last.grid,
            last.merged,
        )
        if not (self.deep and rising and alike and len(self.deep) < fewer and self.vision.packed):
            raise SpecError(
                f"VisionLanguageSpec: deep is {self.deep} of {layers} layers over {fewer} of the decoder, "
                f"and its connector {other}; expected layers that rise, fewer than the decoder's, of packed "
                "patches, and a connector as the last one"
            )

    def _check_embedding(self) -> None:
        """Raise SpecError where the vectors of tokens are more than a row of the vocabulary's matrix."""
        embedding = self.decoder.embedding
        plain = embedding.position.kind == PositionKind.NONE and embedding.norm is None
        if not plain or embedding.type_vocab_size or self.decoder.relative is not None:
            raise SpecError(
                "VisionLanguageSpec: the decoder adds positions, segments or a norm to the vectors of "
                "tokens, or a bias to its attention; expected rotary positions alone"
            )
        if self.decoder.layer_inputs is not None:
            raise SpecError(
                "VisionLanguageSpec: the decoder has layer_inputs, which are read by token ids; expected None"
            )
        if not 0 <= self.image_token_id < self.vocab_size:
            raise SpecError(
                f"VisionLanguageSpec: image_token_id is {self.image_token_id}, expected 0 to "
                f"{self.vocab_size - 1}"
            )

    @property
    def axes(self) -> int:
        """The number of axes of a token's position; 0 where it is a single number."""
        kinds = [block.attention for block in self.decoder.blocks]
        rotations = [kind.rotary for kind in kinds if isinstance(kind, AttentionSpec)]
        return max((max(one.axes) + 1 for one in rotations if one is not None and one.axes), default=0)

    @property
    def sounds(self) -> bool:
        """True where it reads sounds, not images."""
        return isinstance(self.vision.embedding, LogMelSpec)

    @property
    def any_size(self) -> bool:
        """True where the number of an image's vectors depends on its size."""
        return self.mosaic is not None or self.connector.grid is None

    @property
    def prefix_tokens(self) -> int:
        """The vectors of the image encoder before those of patches."""
        patches = self.vision.patches
        return 0 if patches is None else patches.tokens + patches.registers

    @property
    def square(self) -> int:
        """The side in pixels of the square that a vector covers, in images of any size; 0 for others."""
        patches = self.vision.patches
        if patches is None or not patches.any_size:
            return 0
        return patches.patch_size * (1 if self.merger is None else self.merger.merged)

    @property
    def masked_images(self) -> bool:
        """True where images of any shape have patches with a mask."""
        return isinstance(self.vision.embedding, NaflexSpec)

    @property
    def features(self) -> int:
        """The numbers of a vector of an image: one of the decoder's width for each connector."""
        return self.decoder.hidden_size * (1 + len(self.deep))

    @property
    def stacks(self) -> dict[str, StackSpec]:
        """Its stacks by name."""
        return {"vision": self.vision, "decoder": self.decoder}

    @property
    def stack(self) -> TextStackSpec:
        """The stack under the head."""
        return self.decoder

    @property
    def vocab_size(self) -> int:
        """Tokens that the stack under the head knows."""
        return self.decoder.embedding.vocab_size
