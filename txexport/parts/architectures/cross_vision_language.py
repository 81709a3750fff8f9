"""A decoder that attends to images: a graph of images, and one of steps over a cache."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.contracts.stage import ONCE, STEP, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures import _cached, _readouts
from txexport.parts.architectures._padded import Case
from txexport.parts.cases import EncoderCase, decoder_cases, tokens_for_experts
from txexport.parts.crossed_pictures import crossed_cases, crossed_prompts
from txexport.parts.heads import head_of
from txexport.parts.inputs import input_of
from txexport.parts.part import Decoding, Readout, Skipped, View
from txexport.spec import CrossVisionLanguageSpec, SourceAttentionSpec
from txexport.spec.attention_parameters import cross_key_value
from txexport.spec.shapes import Shapes, linear, under

IMAGES = names.IMAGE_BATCH_SIZE


class CrossVisionLanguage:
    """A graph of images, which runs once for each, and one of steps, which reads their keys and values."""

    spec = CrossVisionLanguageSpec

    def roles(self, spec: CrossVisionLanguageSpec) -> tuple[str, ...]:
        """The image encoder with its projections, and the decoder."""
        return roles.IMAGE_ENCODER, roles.MODEL

    def signatures(self, spec: CrossVisionLanguageSpec, contract: Contract) -> dict[str, Signature]:
        """Vectors of images, with keys and values for the decoder, then steps as a decoder's that read these.

        No other client runs such a decoder, so there are no graphs for them.
        """
        if contract.cache is None or contract.role == roles.SHARED:
            raise SpecError(
                "CrossVisionLanguageSpec: a step over its cache needs the contract static or dynamic"
            )
        if contract.hub:
            return {}
        before, after = contract.lengths
        pixels = input_of(spec.vision).ports(spec.vision, (IMAGES,))
        length = spec.vision.embedding.length
        features = floats(names.IMAGE_FEATURES, IMAGES, length, spec.width)
        past = _cached.own(spec.decoder, cache_names.PAST, None, before)
        crossed = self._crossed(spec, cache_names.PAST, names.BATCH_SIZE, names.NUM_IMAGE_VECTORS)
        present = _cached.own(spec.decoder, cache_names.PRESENT, None, after)
        hidden = (names.BATCH_SIZE, contract.logits, spec.width)
        logits = head_of(spec.head).ports(spec.head, hidden, spec.vocab_size)
        spans = ints(names.IMAGE_SPANS, names.BATCH_SIZE, names.NUM_IMAGES, 3)
        keys = self._crossed(spec, cache_names.PRESENT, IMAGES, length)
        return {
            roles.IMAGE_ENCODER: Signature(pixels, (features, *keys)),
            roles.MODEL: Signature((*contract.step, spans, *past, *crossed), (*logits, *present)),
        }

    def _crossed(self, spec: CrossVisionLanguageSpec, kind: str, rows: str, length: int | str) -> list[Port]:
        """The keys and values of images by layer, of `kind` cache_names.PAST or PRESENT."""
        ports = []
        for layer, block in enumerate(spec.decoder.layers):
            if isinstance(block.attention, SourceAttentionSpec):
                both = cache_names.pair(kind, layer, cache_names.ENCODER)
                ports += _cached.pair(both, block.attention.attention, length, rows)
        return ports

    def layer_ports(
        self, spec: CrossVisionLanguageSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("CrossVisionLanguageSpec: no graph returns the outputs of its layers")

    def stages(self, spec: CrossVisionLanguageSpec, contract: Contract) -> list[Stage]:
        """The image encoder, and what runs at each step: for the prompt, and then for the tokens after it."""
        graphs = self.signatures(spec, contract)
        tokens = replace(
            input_of(spec.decoder).facts(spec.decoder.embedding),
            limit="decoder",
            image_token_id=spec.image_token_id,
        )
        images = input_of(spec.vision).facts(spec.vision.embedding)
        facts = {roles.IMAGE_ENCODER: images, roles.MODEL: tokens}
        earlier = {
            cache_names.to_past(port.name): f"{roles.IMAGE_ENCODER}.{port.name}"
            for port in self._crossed(spec, cache_names.PRESENT, IMAGES, 0)
        }
        return [
            Stage(
                role,
                ONCE if role == roles.IMAGE_ENCODER else STEP,
                sources_of(one.inputs, earlier),
                facts[role],
            )
            for role, one in graphs.items()
        ]

    def limits(self, spec: CrossVisionLanguageSpec) -> dict[str, int | None]:
        """The longest sequence of the decoder, in tokens."""
        return {"decoder": spec.decoder.limit}

    def parameters(self, spec: CrossVisionLanguageSpec) -> Shapes:
        """The image encoder, the projector, those to keys and values, the decoder and the head."""
        shapes = under("vision", stacks.parameters(spec.vision))
        shapes |= under("projector", linear(spec.vision.output_size, spec.width, True))
        for layer, block in enumerate(spec.decoder.layers):
            if isinstance(block.attention, SourceAttentionSpec):
                shapes |= under(f"cross.{layer}", cross_key_value(block.attention.attention))
        head = head_of(spec.head).parameters(spec.head, spec.width, spec.vocab_size)
        return shapes | under("decoder", stacks.parameters(spec.decoder)) | under("head", head)

    def shared(self, spec: CrossVisionLanguageSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: CrossVisionLanguageSpec) -> Decoding:
        """The decoder, which attends to no other stack of tokens."""
        return Decoding("decoder")

    def readouts(self, spec: CrossVisionLanguageSpec, stack: str) -> tuple[Readout, ...]:
        """The projections of the image encoder's output, and the head of the decoder."""
        if stack == names.VISION:
            note = f"{spec.vision.embedding.length:,} vectors an image"
            cross = Readout("cross", "of images, for the decoder", every=True, for_decoder=True)
            return Readout("projector", note, every=True), cross
        return (_readouts.head(spec.head, spec.vocab_size, "decoder.embedding.word.weight"),)

    def vector_output(self, spec: CrossVisionLanguageSpec) -> None:
        """None."""
        return None

    def cases(self, spec: CrossVisionLanguageSpec, view: View) -> Iterator[Case]:
        """Prompts and steps of tokens alone, then with images; generation from both."""
        yield from decoder_cases(
            spec.vocab_size,
            view.longest(spec.decoder),
            ragged=True,
            left=not view.static,
            experts=tokens_for_experts(spec.decoder),
            left_out=spec.image_token_id,
        )
        yield from crossed_cases(spec, left=not view.static)
        yield from crossed_prompts(spec)
        if view.static:
            yield Skipped("left padding", "a static cache pads on the right")

    def text_case(self, spec: CrossVisionLanguageSpec, batch: EncoderCase) -> EncoderCase:
        """The batch."""
        return batch


ARCHITECTURE = CrossVisionLanguage()
