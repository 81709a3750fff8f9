"""A decoder that reads images or sounds among its tokens: a graph of these, and one of steps over a cache."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import BOOL, Contract, Port, Signature, floats, ints
from txexport.contracts.stage import ONCE, STEP, GraphFacts, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures import _cached, _readouts
from txexport.parts.architectures._connector import connector, patch_merger
from txexport.parts.architectures._padded import Case
from txexport.parts.cases import EncoderCase, decoder_cases, tokens_for_experts
from txexport.parts.heads import head_of
from txexport.parts.inputs import input_of
from txexport.parts.part import Decoding, Readout, Skipped, View
from txexport.parts.pictures import picture_cases, picture_prompts
from txexport.spec import Mutual, VisionLanguageSpec
from txexport.spec.shapes import Shapes, under

IMAGES = names.IMAGE_BATCH_SIZE
INSTEAD_OF = {roles.EMBEDDING: [roles.EMBED_TOKENS], roles.GENAI_VISION: [roles.IMAGE_ENCODER]}


class VisionLanguage:
    """A graph of images, which runs once for each, and one of steps; tokens apart for other clients."""

    spec = VisionLanguageSpec

    def roles(self, spec: VisionLanguageSpec) -> tuple[str, ...]:
        """The encoder of images or sounds with its connector, and the decoder."""
        return _encoder(spec), roles.MODEL

    def signatures(self, spec: VisionLanguageSpec, contract: Contract) -> dict[str, Signature]:
        """Vectors of images, then steps as a decoder's, which also take those of the new tokens.

        For other clients, tokens have a graph of their own, and a step takes vectors in their place. Where
        onnxruntime-genai makes the 3D positions, a second graph of tokens takes the vectors of images too.
        """
        if contract.cache is None or contract.role == roles.SHARED:
            raise SpecError(
                "VisionLanguageSpec: a step over its cache needs the contract static, dynamic or ecosystem"
            )
        width, (before, after) = spec.decoder.hidden_size, contract.lengths
        pixels = input_of(spec.vision).ports(spec.vision, (IMAGES,))
        of_each = (names.NUM_FEATURES,) if spec.any_size else (IMAGES, spec.connector.vectors)
        if spec.mosaic:
            pixels = *pixels, ints(names.TILE_GRID, 1, 6)
        vectors = names.AUDIO_FEATURES if spec.sounds else names.IMAGE_FEATURES
        images = Signature(pixels, (floats(vectors, *of_each, spec.features),))
        contract = _positioned(spec, contract)
        if spec.tiled and contract.hub:
            images = replace(images, inputs=_by_prompt(pixels[0]))
        past = _cached.own(spec.decoder, cache_names.PAST, None, before)
        present = _cached.own(spec.decoder, cache_names.PRESENT, None, after)
        outputs = (*_cached.logits(spec.head, spec.decoder, contract.logits), *present)
        if not contract.hub:
            prefix = (ints(names.PREFIX_LENGTHS, names.BATCH_SIZE),) * (spec.mutual == Mutual.PREFIX)
            features = floats(vectors, names.NUM_FEATURES, spec.features)
            counts = _cached.counts(spec.decoder, contract)
            step = Signature((*contract.step, *counts, *prefix, features, *past), outputs)
            return {_encoder(spec): images, roles.MODEL: step}
        if spec.mutual == Mutual.IMAGE or spec.deep:
            return {}
        ids, *others = contract.step
        embeds = floats(names.INPUTS_EMBEDS, *stacks.TOKENS, width)
        graphs = {_encoder(spec): images, roles.EMBED_TOKENS: Signature((ids,), (embeds,))}
        if spec.vision.packed is not None:
            features = floats(vectors, names.NUM_FEATURES, spec.features)
            graphs[roles.EMBEDDING] = Signature((ids, features), (embeds,))
            if spec.vision.packed.grids != names.IMAGE_GRIDS:
                renamed = (replace(pixels[0]), replace(pixels[1], name=names.IMAGE_GRIDS))
                graphs[roles.GENAI_VISION] = replace(images, inputs=renamed)
        return graphs | {roles.DECODER_MERGED: Signature((embeds, *others, *past), outputs)}

    def layer_ports(
        self, spec: VisionLanguageSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("VisionLanguageSpec: no graph returns the outputs of its layers")

    def stages(self, spec: VisionLanguageSpec, contract: Contract) -> list[Stage]:
        """The image encoder, and what runs at each step: for the prompt, and then for the tokens after it."""
        graphs = self.signatures(spec, contract)
        tokens = replace(
            input_of(spec.decoder).facts(spec.decoder.embedding),
            limit="decoder",
            image_token_id=spec.image_token_id,
            mutual_images=spec.mutual == Mutual.IMAGE,
            mutual_prompts=spec.mutual == Mutual.PREFIX,
        )
        images = input_of(spec.vision).facts(spec.vision.embedding)
        if spec.mosaic:
            images = replace(images, tile_side=spec.mosaic.side, most_tiles=spec.mosaic.most or 0)
        if spec.masked_images:
            images = replace(images, merged_patches=spec.connector.merged)
        if spec.square:
            merged = 1 if spec.merger is None else spec.merger.merged
            images = replace(images, merged_patches=merged, vector_side=spec.square)
        if spec.sounds:
            frames = 2 * spec.connector.consecutive
            least = frames - 1 if spec.vision.masked else 0  # 0 where padding is read too
            images = replace(images, least_samples=least, vector_stride=frames)
        elif spec.any_size and spec.mosaic is None:
            images = replace(images, patch_heads=spec.vision.blocks[0].attention.num_heads)
        earlier = {
            names.IMAGE_FEATURES: f"{roles.IMAGE_ENCODER}.{names.IMAGE_FEATURES}",
            names.AUDIO_FEATURES: f"{roles.AUDIO_ENCODER}.{names.AUDIO_FEATURES}",
            names.INPUTS_EMBEDS: f"{roles.EMBED_TOKENS}.{names.INPUTS_EMBEDS}",
        }
        return [
            Stage(
                role,
                ONCE if role in (_encoder(spec), roles.GENAI_VISION) else STEP,
                sources_of(one.inputs, earlier),
                self._facts(role, images, tokens),
                INSTEAD_OF.get(role, []),
            )
            for role, one in graphs.items()
        ]

    def _facts(self, role: str, images: GraphFacts, tokens: GraphFacts) -> GraphFacts:
        """The facts of a graph of images, of tokens, or of vectors alone."""
        if role in (roles.IMAGE_ENCODER, roles.AUDIO_ENCODER, roles.GENAI_VISION):
            return replace(images, prefix_tokens=0)
        return replace(tokens, vocab_size=0) if role == roles.DECODER_MERGED else tokens

    def limits(self, spec: VisionLanguageSpec) -> dict[str, int | None]:
        """The longest sequence of the decoder, vectors of images included."""
        return {"decoder": spec.decoder.limit}

    def parameters(self, spec: VisionLanguageSpec) -> Shapes:
        """The image encoder, the connector, the decoder and the head."""
        head = head_of(spec.head).parameters(spec.head, spec.decoder.hidden_size, spec.vocab_size)
        shapes = under("vision", stacks.parameters(spec.vision)) | under(
            "connector", connector(spec.connector)
        )
        if spec.mosaic:
            shapes |= {"mosaic.newline": (spec.connector.size,)}
        if spec.merger is not None:
            shapes |= under("merger", patch_merger(spec.merger))
        if spec.deep_connector is not None:
            for number in range(len(spec.deep)):
                shapes |= under(f"deep.{number}", connector(spec.deep_connector))
        return shapes | under("decoder", stacks.parameters(spec.decoder)) | under("head", head)

    def shared(self, spec: VisionLanguageSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: VisionLanguageSpec) -> Decoding:
        """The decoder, which attends to no other stack."""
        return Decoding("decoder")

    def readouts(self, spec: VisionLanguageSpec, stack: str) -> tuple[Readout, ...]:
        """The connector of the image encoder, the ends of rows of a mosaic, and the head of the decoder."""
        if stack == names.VISION:
            merged = spec.connector.merged if spec.merger is None else spec.merger.merged
            packed = f"a vector for {merged} x {merged} patches"
            each = "a tile" if spec.mosaic else "an image"
            note = (
                packed if spec.any_size and not spec.mosaic else f"{spec.connector.vectors:,} vectors {each}"
            )
            ends = (Readout("mosaic", "the end of each row of vectors", every=True),) if spec.mosaic else ()
            if spec.sounds:
                note = f"a vector for {2 * spec.connector.consecutive} frames"
            square = merged**2 * spec.connector.consecutive
            deep = (Readout(f"deep.{i}", every=True, joined=square) for i in range(len(spec.deep)))
            first = () if spec.merger is None else (Readout("merger", every=True, joined=square),)
            return (*first, Readout("connector", note, every=True, joined=square), *ends, *deep)
        return (_readouts.head(spec.head, spec.vocab_size, "decoder.embedding.word.weight"),)

    def vector_output(self, spec: VisionLanguageSpec) -> None:
        """None."""
        return None

    def cases(self, spec: VisionLanguageSpec, view: View) -> Iterator[Case]:
        """Prompts and steps of tokens alone, then with images among them; generation from both.

        Steps and cases of tokens alone have no token that stands for images.
        """
        yield from decoder_cases(
            spec.vocab_size,
            view.longest(spec.decoder),
            ragged=True,
            left=not view.static,
            experts=tokens_for_experts(spec.decoder),
            left_out=spec.image_token_id,
        )
        yield from picture_cases(spec, left=not view.static)
        if view.hub:
            name = "greedy, sounds" if spec.sounds else "greedy, images"
            yield Skipped(name, "txexport's runtime runs its own graphs")
        else:
            yield from picture_prompts(spec)
        if view.static:
            yield Skipped("left padding", "a static cache pads on the right")

    def text_case(self, spec: VisionLanguageSpec, batch: EncoderCase) -> EncoderCase:
        """The batch."""
        return batch


def _encoder(spec: VisionLanguageSpec) -> str:
    """The role of the graph of images or sounds."""
    return roles.AUDIO_ENCODER if spec.sounds else roles.IMAGE_ENCODER


def _positioned(spec: VisionLanguageSpec, contract: Contract) -> Contract:
    """The contract whose steps take a position on each axis, where a token has several."""
    if not spec.axes:
        return contract
    positions = ints(names.POSITION_IDS, spec.axes, *stacks.TOKENS)
    others = [port for port in contract.step if port.name != names.POSITION_IDS]
    return replace(contract, step=(*others, positions))


def _by_prompt(pixels: Port) -> tuple[Port, ...]:
    """The tiles of each prompt, and a mask of their pixels, which has none of a tile that is padding."""
    _, channels, *sides = pixels.shape
    prompts = names.BATCH_SIZE, names.NUM_IMAGES
    mask = Port(names.PIXEL_ATTENTION_MASK, BOOL, [*prompts, *sides])
    return floats(pixels.name, *prompts, channels, *sides), mask


ARCHITECTURE = VisionLanguage()
