"""An encoder and a decoder that attends to it: two graphs, or one where nothing is generated."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.contracts.ecosystem import BRANCH
from txexport.contracts.stage import AFTER, GENERATED, ONCE, STEP, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures import _cached, _readouts
from txexport.parts.architectures._padded import Case, Texts, padded_cases
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import EncoderCase
from txexport.parts.encoder_images import (
    OF_IMAGES,
    image_graphs,
    image_inputs,
    image_parameters,
    image_readouts,
    image_stages,
)
from txexport.parts.heads import head_of
from txexport.parts.inputs import input_of
from txexport.parts.part import Decoding, Readout, Shape, View
from txexport.parts.source_cases import source_cases
from txexport.spec import EncoderDecoderSpec
from txexport.spec.attention_parameters import cross_key_value
from txexport.spec.lengths import resampled
from txexport.spec.shapes import Shapes, linear, under

SOURCE: Shape = (names.BATCH_SIZE, names.ENCODER_SEQUENCE_LENGTH)
ENCODER_WORDS, DECODER_WORDS = (f"{stack}.embedding.word.weight" for stack in ("encoder", "decoder"))


class EncoderDecoder:
    """Two stacks; the keys and values of the encoder's output are computed once and serve every step."""

    spec = EncoderDecoderSpec

    def roles(self, spec: EncoderDecoderSpec) -> tuple[str, ...]:
        """An encoder, a decoder, and the graph that aligns tokens; or one graph if nothing is generated."""
        if not spec.generates:
            return (roles.MODEL,)
        pictured = tuple(image_graphs(spec))
        aligned = () if spec.alignment is None else (roles.ALIGNMENT,)
        return (*pictured, roles.ENCODER, roles.DECODER, *aligned)

    def signatures(self, spec: EncoderDecoderSpec, contract: Contract) -> dict[str, Signature]:
        """The encoder outputs keys and values for the decoder; for other clients, hidden states only."""
        if not spec.generates:
            return self._one_graph(spec, contract)
        if contract.role == roles.SHARED:
            raise SpecError("EncoderDecoderSpec: a shared buffer needs a decoder without an encoder")
        if contract.cache is None:
            raise SpecError(
                "EncoderDecoderSpec: the decoder generates, so its graph needs a contract with a cache"
            )
        if image_graphs(spec) and contract.hub:
            return {}
        later = self._step(spec, contract)
        inputs = (*input_of(spec.encoder).ports(spec.encoder, SOURCE), *image_inputs(spec))
        hidden = floats(names.LAST_HIDDEN_STATE, *_hidden_shape(spec), spec.source_size)
        cross = self._cross(spec, cache_names.PRESENT)
        if not contract.hub:
            mask = self._source_mask(spec, contract) if spec.masked else ()
            encoder = Signature(inputs, (hidden, *mask, *cross))
            graphs = image_graphs(spec) | {roles.ENCODER: encoder, roles.DECODER: later}
            return graphs if spec.alignment is None else graphs | {roles.ALIGNMENT: self._alignment(spec)}
        present = _cached.own(spec.decoder, cache_names.PRESENT, cache_names.DECODER, names.SEQUENCE_LENGTH)
        states = floats(names.ENCODER_HIDDEN_STATES, *hidden.shape)
        weights = self._cross_attentions(spec, contract)
        later = replace(later, outputs=(*later.outputs, *weights))
        first = Signature(
            (*contract.step_after_encoder, states, *self._source_mask(spec, contract)),
            (
                *_cached.logits(spec.head, spec.decoder, names.SEQUENCE_LENGTH),
                *_by_layer([*present, *cross]),
                *weights,
            ),
        )
        return {
            roles.ENCODER: Signature(inputs, (hidden,)),
            roles.DECODER: first,
            roles.DECODER_WITH_PAST: later,
            roles.DECODER_MERGED: _merged(first, later),
        }

    def _one_graph(self, spec: EncoderDecoderSpec, contract: Contract) -> dict[str, Signature]:
        """Both stacks read the same tokens, and the head labels the decoder's hidden states."""
        check_no_cache(spec, contract)
        shape = (*stacks.TOKENS, spec.decoder.hidden_size)
        outputs = head_of(spec.head).ports(spec.head, shape, spec.vocab_size)
        return {roles.MODEL: Signature(input_of(spec.encoder).ports(spec.encoder, stacks.TOKENS), outputs)}

    def _step(self, spec: EncoderDecoderSpec, contract: Contract) -> Signature:
        """The decoder's step: for each layer its own keys and values, then those of the encoder's output."""
        before, after = contract.lengths
        past = _cached.own(spec.decoder, cache_names.PAST, cache_names.DECODER, before)
        past += self._cross(spec, cache_names.PAST, shared=contract.shares_sources)
        present = _cached.own(spec.decoder, cache_names.PRESENT, cache_names.DECODER, after)
        return Signature(
            (*contract.step_after_encoder, *self._source_mask(spec, contract), *_by_layer(past)),
            (*_cached.logits(spec.head, spec.decoder, contract.logits), *present),
        )

    def _cross(self, spec: EncoderDecoderSpec, kind: str, shared: bool = False) -> list[Port]:
        """The keys and values of the encoder's output, of `kind` cache_names.PAST or PRESENT.

        Where they may be `shared`, adjacent rows of a batch may have one source; see shared_cross_attention.
        """
        length = _hidden_shape(spec)[1]
        ports = []
        for layer, block in enumerate(spec.decoder.layers):
            if block.cross_attention is not None:
                both = cache_names.pair(kind, layer, cache_names.ENCODER)
                rows = names.SOURCES if shared and block.cross_attention.unmasked else names.BATCH_SIZE
                ports += _cached.pair(both, block.cross_attention, length, rows)
        return ports

    def _cross_attentions(self, spec: EncoderDecoderSpec, contract: Contract) -> list[Port]:
        """The weights of every layer, by which other clients align tokens, unless the contract has them."""
        if spec.alignment is None or not spec.alignment.for_others or names.ATTENTIONS in contract.outputs:
            return []
        length = _hidden_shape(spec)[1]
        every = stacks.layer_ports(spec.decoder, None, (names.ATTENTIONS,), stacks.TOKENS, "", length)
        return [port for port in every if port.name.startswith(names.CROSS_ATTENTIONS)]

    def _alignment(self, spec: EncoderDecoderSpec) -> Signature:
        """All tokens, and the encoder's keys and values -> the weights of the heads that align tokens."""
        assert spec.alignment is not None
        past = [
            port
            for port in self._cross(spec, cache_names.PAST)
            if cache_names.layer_of(port.name) < spec.alignment.num_layers
        ]
        length = _hidden_shape(spec)[1]
        shape = (names.BATCH_SIZE, len(spec.alignment.heads), names.SEQUENCE_LENGTH, length)
        weights = floats(names.ALIGNMENT_WEIGHTS, *shape)
        return Signature((ints(names.INPUT_IDS, *stacks.TOKENS), *past), (weights,))

    def _source_mask(self, spec: EncoderDecoderSpec, contract: Contract) -> tuple[Port, ...]:
        """The padding mask of an encoder's tokens, or of the vectors of a masked signal; others have none.

        Other clients have the mask of the signal itself, as the originals.
        """
        if not (input_of(spec.encoder).reads_tokens or spec.masked):
            return ()
        shape = _hidden_shape(spec)
        if spec.masked and contract.hub:
            mask = input_of(spec.encoder).ports(spec.encoder, (names.BATCH_SIZE, names.NUM_FRAMES))[1]
            shape = tuple(mask.shape)
        return (ints(names.ENCODER_ATTENTION_MASK, *shape),)

    def layer_ports(
        self, spec: EncoderDecoderSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """The ports of every layer of the encoder, the decoder, or both in one graph."""
        shape = _hidden_shape(spec) if spec.generates else stacks.TOKENS
        ports: list[Port] = []
        if role in (roles.ALIGNMENT, roles.IMAGE_ENCODER):
            return ports
        if role in (roles.MODEL, roles.ENCODER):
            vectors = (shape[0], names.SEQUENCE_LENGTH) if resampled(spec.encoder) else shape
            ports += stacks.layer_ports(spec.encoder, names.ENCODER, outputs, vectors, vectors[1])
        if role != roles.ENCODER:
            ports += _cached.layer_ports(spec.decoder, names.DECODER, signature, outputs, shape[1])
        return ports

    def stages(self, spec: EncoderDecoderSpec, contract: Contract) -> list[Stage]:
        """The encoder once, then the decoder's steps; other clients have two decoder graphs, or a merged one.

        The first of the two graphs computes the keys and values of the encoder's output.
        """
        graphs = self.signatures(spec, contract)
        if not graphs:
            return []
        source = replace(stacks.facts(spec.encoder), limit="encoder")
        if not spec.generates:
            facts = replace(source, eos_token_id=spec.head.eos_token_id)
            return [Stage(role, ONCE, sources_of(one.inputs), facts) for role, one in graphs.items()]
        target = replace(input_of(spec.decoder).facts(spec.decoder.embedding), limit="decoder")
        first = roles.DECODER if contract.hub else roles.ENCODER
        reduced = spec.masked and not contract.hub
        mask = names.ENCODER_ATTENTION_MASK if reduced else names.ATTENTION_MASK
        earlier = {
            names.INPUT_IDS: GENERATED,
            names.ENCODER_ATTENTION_MASK: f"{roles.ENCODER}.{mask}",
            names.ENCODER_HIDDEN_STATES: f"{roles.ENCODER}.{names.LAST_HIDDEN_STATE}",
        }
        cross = {
            cache_names.to_past(port.name): f"{first}.{port.name}"
            for port in self._cross(spec, cache_names.PRESENT)
        }
        inputs = sources_of(graphs.pop(roles.ENCODER).inputs, OF_IMAGES)
        stages = [*image_stages(spec, graphs), Stage(roles.ENCODER, ONCE, inputs, source)]
        for role, one in graphs.items():
            merged = role == roles.DECODER_MERGED
            sources = sources_of(one.inputs, earlier if merged else earlier | cross)
            when = ONCE if contract.hub and role == roles.DECODER else STEP
            both = [roles.DECODER, roles.DECODER_WITH_PAST] if merged else []
            if role == roles.ALIGNMENT and spec.alignment is not None:
                facts = replace(target, filter_width=spec.alignment.filter_width)
                stages.append(Stage(role, AFTER, sources, facts))
                continue
            stages.append(Stage(role, when, sources, target, both))
        return stages

    def limits(self, spec: EncoderDecoderSpec) -> dict[str, int | None]:
        """The longest sequences of both stacks."""
        return {"encoder": spec.encoder.limit, "decoder": spec.decoder.limit}

    def parameters(self, spec: EncoderDecoderSpec) -> Shapes:
        """Both stacks, the projections of the encoder's output to keys and values, and the head."""
        shapes = under("encoder", stacks.parameters(spec.encoder))
        if spec.projected:
            projection = linear(spec.source_size, spec.decoder.hidden_size, True)
            shapes |= under("cross_projection", projection)
        for layer, kind in enumerate(spec.decoder.layers):
            if kind.cross_attention is not None:
                shapes |= under(f"cross.{layer}", cross_key_value(kind.cross_attention))
        shapes |= under("decoder", stacks.parameters(spec.decoder))
        for second in self.shared(spec):
            del shapes[second]
        shapes |= image_parameters(spec)
        head = head_of(spec.head).parameters(spec.head, spec.decoder.hidden_size, spec.vocab_size)
        return shapes | under("head", head)

    def shared(self, spec: EncoderDecoderSpec) -> Mapping[str, str]:
        """The word embedding that both stacks share."""
        return {DECODER_WORDS: ENCODER_WORDS} if spec.shared_embedding else {}

    def decoding(self, spec: EncoderDecoderSpec) -> Decoding | None:
        """The decoder, which attends to the encoder."""
        return Decoding("decoder", "encoder") if spec.generates else None

    def readouts(self, spec: EncoderDecoderSpec, stack: str) -> tuple[Readout, ...]:
        """For the encoder, the keys and values for the decoder; for the decoder, the head."""
        if stack == names.VISION:
            return image_readouts(spec)
        if stack == "decoder":
            embedding = self.shared(spec).get(DECODER_WORDS, DECODER_WORDS)
            return (_readouts.head(spec.head, spec.vocab_size, embedding),)
        cross = Readout("cross", "of the encoder, for the decoder", every=True, for_decoder=True)
        pictures = () if spec.pictures is None else image_readouts(spec)
        return (*[replace(cross, owner="cross_projection", note="")] * spec.projected, cross, *pictures)

    def vector_output(self, spec: EncoderDecoderSpec) -> None:
        """None."""
        return None

    def cases(self, spec: EncoderDecoderSpec, view: View) -> Iterator[Case]:
        """Sources with the decoder's steps after each; or padded batches if nothing is generated."""
        if not spec.generates:
            yield from padded_cases(
                spec.encoder, spec.head, view, Texts(spec.head.pad_token_id, spec.head.eos_token_id)
            )
            return
        yield from source_cases(spec, view)

    def text_case(self, spec: EncoderDecoderSpec, batch: EncoderCase) -> EncoderCase:
        """The batch."""
        return batch


def _hidden_shape(spec: EncoderDecoderSpec) -> Shape:
    """Shape (B,E) of the vectors that the decoder attends to."""
    rows, length = stacks.hidden_shape(spec.encoder, SOURCE)
    return rows, SOURCE[1] if length == names.SEQUENCE_LENGTH else length


def _by_layer(ports: Iterable[Port]) -> list[Port]:
    return sorted(ports, key=lambda port: cache_names.layer_of(port.name))


def _merged(first: Signature, later: Signature) -> Signature:
    """The inputs of both graphs and BRANCH, and the outputs of the first graph.

    Before the first step a client passes an empty past, whose shape it derives from config.json: heads and
    their size are symbolic, as lengths are.
    """
    past, present = [], []
    for port in later.inputs:
        if cache_names.is_past(port.name):
            cross = cache_names.is_cross(port.name)
            length = names.PAST_ENCODER_SEQUENCE_LENGTH if cross else names.PAST_SEQUENCE_LENGTH
            past.append(replace(port, shape=[names.BATCH_SIZE, names.NUM_HEADS, length, names.HEAD_DIM]))
    for port in first.outputs:
        if cache_names.is_present(port.name):
            cross = cache_names.is_cross(port.name)
            length = names.ENCODER_SEQUENCE_LENGTH if cross else names.TOTAL_SEQUENCE_LENGTH
            port = replace(port, shape=[*port.shape[:2], length, port.shape[3]])
        present.append(port)
    return Signature((*first.inputs, *past, BRANCH), tuple(present))


ARCHITECTURE = EncoderDecoder()
