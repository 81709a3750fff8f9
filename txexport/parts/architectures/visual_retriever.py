"""Pages and queries as a vector for each token, for late interaction (Faysse et al. 2024, 4)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.stage import ONCE, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures._connector import connector
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import EncoderCase
from txexport.parts.inputs import input_of
from txexport.parts.pages import PageCase, page_cases, page_of
from txexport.parts.part import Readout, Skipped, View
from txexport.spec import VisualRetrieverSpec
from txexport.spec.shapes import Shapes, linear, under


class VisualRetriever:
    """A graph of images, and one of tokens with images among them; a single graph for other clients."""

    spec = VisualRetrieverSpec

    def roles(self, spec: VisualRetrieverSpec) -> tuple[str, ...]:
        """The image encoder with its connector, and the stack under the projection."""
        return roles.IMAGE_ENCODER, roles.MODEL

    def signatures(self, spec: VisualRetrieverSpec, contract: Contract) -> dict[str, Signature]:
        """Vectors of images; a vector for each token of texts that have those of images in their places."""
        check_no_cache(spec, contract)
        pixels = input_of(spec.vision).ports(spec.vision, (names.IMAGE_BATCH_SIZE,))
        tokens = input_of(spec.text).ports(spec.text, stacks.TOKENS)
        features = floats(names.IMAGE_FEATURES, names.NUM_FEATURES, spec.text.hidden_size)
        vectors = floats(names.EMBEDDINGS, *stacks.TOKENS, spec.size)
        if contract.hub:
            return {roles.MODEL: Signature((*tokens, *pixels), (vectors,))}
        return {
            roles.IMAGE_ENCODER: Signature(pixels, (features,)),
            roles.MODEL: Signature((*tokens, features), (vectors,)),
        }

    def layer_ports(
        self, spec: VisualRetrieverSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("VisualRetrieverSpec: no graph returns the outputs of its layers")

    def stages(self, spec: VisualRetrieverSpec, contract: Contract) -> list[Stage]:
        """The image encoder, then the tokens; or one graph of both."""
        text = input_of(spec.text).facts(spec.text.embedding)
        text = replace(text, limit="text", image_token_id=spec.image_token_id)
        images = replace(input_of(spec.vision).facts(spec.vision.embedding), prefix_tokens=0)
        if spec.any_size:
            images = replace(images, patch_heads=spec.vision.blocks[0].attention.num_heads)
        earlier = {names.IMAGE_FEATURES: f"{roles.IMAGE_ENCODER}.{names.IMAGE_FEATURES}"}
        return [
            Stage(
                role,
                ONCE,
                sources_of(one.inputs, earlier),
                images if role == roles.IMAGE_ENCODER else text,
            )
            for role, one in self.signatures(spec, contract).items()
        ]

    def limits(self, spec: VisualRetrieverSpec) -> dict[str, int | None]:
        """The longest sequence, vectors of images included."""
        return {"text": spec.text.limit}

    def parameters(self, spec: VisualRetrieverSpec) -> Shapes:
        """Both stacks, the connector and the projection."""
        shapes = under("text", stacks.parameters(spec.text)) | under("vision", stacks.parameters(spec.vision))
        shapes |= under("connector", connector(spec.connector))
        return shapes | under("projection", linear(spec.text.hidden_size, spec.size, True))

    def shared(self, spec: VisualRetrieverSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: VisualRetrieverSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: VisualRetrieverSpec, stack: str) -> tuple[Readout, ...]:
        """The connector of the image encoder; the projection of every token."""
        if stack == names.TEXT:
            return (Readout("projection", f"{spec.size:,} numbers a token", every=True),)
        merged = spec.connector.merged
        packed = f"a vector for {merged} x {merged} patches"
        note = packed if spec.any_size else f"{spec.connector.vectors:,} vectors an image"
        return (Readout("connector", note, every=True, joined=merged**2),)

    def vector_output(self, spec: VisualRetrieverSpec) -> None:
        """None."""

    def cases(self, spec: VisualRetrieverSpec, view: View) -> Iterator[PageCase | Skipped]:
        """Pages, queries, and both in one padded batch."""
        return page_cases(spec, view)

    def text_case(self, spec: VisualRetrieverSpec, batch: EncoderCase) -> PageCase:
        """The batch of texts without images."""
        return page_of(spec, batch)


ARCHITECTURE = VisualRetriever()
