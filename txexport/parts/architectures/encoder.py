"""An encoder with a head: one graph, which reads its whole input at once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.stage import ONCE, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures import _readouts
from txexport.parts.architectures._padded import Case, Texts, padded_cases
from txexport.parts.cases import EncoderCase
from txexport.parts.heads import (
    depth,
    head_of,
    instance_masks,
    masked_queries,
    masks,
    object_masks,
    pose,
    segments,
)
from txexport.parts.heads.spans import EACH, QUESTION
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, Shape, View
from txexport.parts.vectors import parameters as vector
from txexport.parts.vectors import vector_name
from txexport.spec import (
    DepthSpec,
    EncoderSpec,
    HeadKind,
    MapStackSpec,
    MixedStackSpec,
    PatchSpec,
    Pick,
    QueryStackSpec,
    SegmentsSpec,
    StagedDepthSpec,
    StagedStackSpec,
    TextStackSpec,
)
from txexport.spec.lengths import output_size
from txexport.spec.shapes import Shapes, linear, under

CHOICES: Shape = (names.BATCH_SIZE, names.NUM_CHOICES, names.SEQUENCE_LENGTH)


class Encoder:
    """One stack and its head, or heads."""

    spec = EncoderSpec

    def roles(self, spec: EncoderSpec) -> tuple[str, ...]:
        """The one graph."""
        return (roles.MODEL,)

    def signatures(self, spec: EncoderSpec, contract: Contract) -> dict[str, Signature]:
        """Inputs of the stack, outputs of the heads."""
        check_no_cache(spec, contract)
        rows = CHOICES if spec.head.kind == HeadKind.CHOICES else stacks.TOKENS
        shape = (*stacks.hidden_shape(spec.encoder, stacks.TOKENS), output_size(spec.encoder))
        outputs = (*head_of(spec.head).ports(spec.head, shape, spec.vocab_size), *self._beside(spec, shape))
        if spec.next_sentence is not None:
            scores = floats(names.PREDICTION_LOGITS, *outputs[0].shape)
            outputs = (scores, floats(names.SEQ_RELATIONSHIP_LOGITS, shape[0], spec.next_sentence.labels))
        if spec.distilled:
            both = (names.CLS_LOGITS, names.DISTILLATION_LOGITS)
            outputs = (*(floats(name, *outputs[0].shape) for name in both), *outputs)
        return {roles.MODEL: Signature(input_of(spec.encoder).ports(spec.encoder, rows), outputs)}

    def decoding(self, spec: EncoderSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: EncoderSpec, stack: str) -> tuple[Readout, ...]:
        """The sum of layers, the pooler or another vector, the second heads, and the head."""
        pool = spec.vector.pool if spec.vector is not None else None
        return (
            *[Readout("layer_sum")] * spec.layer_sum,
            *[Readout("pooler")] * spec.pooler,
            *[Readout("vector", pool=pool)] * (spec.vector is not None),
            *[Readout("next_sentence")] * (spec.next_sentence is not None),
            *[Readout("distilled")] * spec.distilled,
            *[Readout(f"head.{QUESTION}")] * spec.head.question_aware,
            self._head(spec),
        )

    def _head(self, spec: EncoderSpec) -> Readout:
        """The head; one of pixels is of convolutions over the patches of an image of `image_size`."""
        readout, stack = (
            _readouts.head(spec.head, spec.vocab_size, "encoder.embedding.word.weight"),
            spec.encoder,
        )
        if spec.head.question_aware:
            return replace(readout, owner=f"head.{EACH}")
        if spec.head.neck is not None and isinstance(stack.embedding, PatchSpec):
            size, grid = stack.hidden_size, stack.embedding.grid
            if isinstance(spec.head.depth, DepthSpec):
                return replace(readout, operations=depth.operations(spec.head.depth, size, *grid))
            if spec.head.pose is not None:
                return replace(readout, operations=pose.operations(spec.head, size, *grid))
            return replace(readout, operations=segments.operations_over_patches(spec.head, size, *grid))
        if spec.head.stages and isinstance(stack, StagedStackSpec):
            grids = stack.grids(stack.embedding.grid)
            if isinstance(spec.head.depth, StagedDepthSpec):
                work = depth.operations_over_stages(spec.head.depth, grids)
                return replace(readout, every=False, operations=work)
            assert isinstance(spec.head.segments, SegmentsSpec)
            work = segments.operations(spec.head.segments, spec.head.labels, grids)
            return replace(readout, every=False, operations=work)
        pyramid, labels = spec.head.map_pyramid, spec.head.labels
        if (spec.head.masks or pyramid) and isinstance(stack, StagedStackSpec | MapStackSpec):
            grids = (
                stack.embedding.grids
                if isinstance(stack, MapStackSpec)
                else stack.grids(stack.embedding.grid)
            )
            work = 0 if pyramid is None else segments.operations_over_maps(pyramid, labels, grids)
            work += 0 if spec.head.masks is None else masks.operations(spec.head.masks, labels, grids)
            return replace(readout, every=False, operations=work)
        if spec.head.masked_queries is not None and isinstance(stack, StagedStackSpec):
            grids = stack.grids(stack.embedding.grid)
            work = masked_queries.operations(spec.head.masked_queries, spec.head.labels, grids)
            return replace(readout, every=False, operations=work)
        if spec.head.object_masks is not None and isinstance(stack, QueryStackSpec):
            work = object_masks.operations(spec.head.object_masks, spec.head.labels, stack.embedding.grids)
            return replace(readout, every=False, operations=work)
        if spec.head.instance_masks is not None and isinstance(stack, MixedStackSpec):
            pixels = stack.embedding.image_size
            work = instance_masks.operations(spec.head.instance_masks, spec.head.labels, pixels)
            return replace(readout, every=False, operations=work)
        return readout

    def vector_output(self, spec: EncoderSpec) -> str | None:
        """The pooler's, or that of the spec's vector."""
        return vector_name(spec) if spec.pooler or spec.vector is not None else None

    def _beside(self, spec: EncoderSpec, shape: Shape) -> tuple[Port, ...]:
        """The port of `vector_output`."""
        name = self.vector_output(spec)
        size = spec.vector.size if spec.vector is not None else None
        return () if name is None else (floats(name, shape[0], size or shape[-1]),)

    def layer_ports(
        self, spec: EncoderSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """The ports of every layer of the stack."""
        shape = stacks.layers_shape(spec.encoder, stacks.TOKENS)
        return stacks.layer_ports(spec.encoder, None, outputs, shape, shape[1])

    def stages(self, spec: EncoderSpec, contract: Contract) -> list[Stage]:
        """One graph, which runs once."""
        facts, vector = stacks.facts(spec.encoder, spec.head.least), spec.vector
        facts = replace(facts, limit="encoder", eos_token_id=spec.head.eos_token_id)
        if stacks.mixes_padding(spec.encoder):
            facts = replace(facts, equal_lengths=True)
        if (spec.head.boxes is not None and spec.head.boxes.refined) or spec.head.instance_masks is not None:
            facts = replace(facts, sigmoid_scores=True)
        if vector is not None:
            facts = replace(facts, vector=vector_name(spec), pads_to_limit=vector.pick == Pick.FINAL)
        return [
            Stage(role, ONCE, sources_of(one.inputs), facts)
            for role, one in self.signatures(spec, contract).items()
        ]

    def limits(self, spec: EncoderSpec) -> dict[str, int | None]:
        """The longest input of the stack."""
        return {"encoder": spec.encoder.limit}

    def parameters(self, spec: EncoderSpec) -> Shapes:
        """The stack, the pooler, and the heads."""
        shapes, width = under("encoder", stacks.parameters(spec.encoder)), output_size(spec.encoder)
        head = head_of(spec.head)
        if spec.layer_sum:
            shapes["layer_sum.weight"] = (spec.encoder.num_layers + 1,)
        if spec.pooler:
            shapes |= under("pooler.dense", linear(width, width, True))
        if spec.vector is not None:
            shapes |= under("vector", vector(spec.vector, width))
        shapes |= under("head", head.parameters(spec.head, width, spec.vocab_size))
        if spec.next_sentence is not None:
            second = head_of(spec.next_sentence)
            shapes |= under("next_sentence", second.parameters(spec.next_sentence, width, spec.vocab_size))
        if spec.distilled:
            shapes |= under("distilled", head.parameters(spec.head, width, spec.vocab_size))
        return shapes

    def shared(self, spec: EncoderSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def cases(self, spec: EncoderSpec, view: View) -> Iterator[Case]:
        """Padded batches of texts, or batches of signals."""
        pad_token_id, mark, alone = spec.head.pad_token_id, spec.head.eos_token_id, True
        if spec.vector is not None:
            pad_token_id = 0 if spec.vector.pick == Pick.ARGMAX_ID else None
            mark, alone = spec.vector.eos_token_id, spec.vector.pick != Pick.FINAL
        choices = spec.head.kind == HeadKind.CHOICES
        return padded_cases(
            spec.encoder,
            spec.head,
            view,
            Texts(pad_token_id, mark, alone and not _reads_padding(spec), choices),
        )

    def text_case(self, spec: EncoderSpec, batch: EncoderCase) -> EncoderCase:
        """The batch, or its rows as choices."""
        return replace(batch, choices=spec.head.kind == HeadKind.CHOICES)


def _reads_padding(spec: EncoderSpec) -> bool:
    """True where padding changes the vectors of tokens beside it."""
    return isinstance(spec.encoder, TextStackSpec) and spec.encoder.reads_padding


def check_no_cache(spec: object, contract: Contract) -> None:
    """Raise SpecError for a contract with a cache, except the one for other clients."""
    if contract.role == roles.SHARED:
        raise SpecError(f"{type(spec).__name__}: a shared buffer needs a decoder without an encoder")
    if contract.cache is not None and not contract.hub:
        raise SpecError(f"{type(spec).__name__}: nothing is generated, so no graph has a cache")


ARCHITECTURE = Encoder()
