"""What other tools write and other clients load: optimum's tasks, which transformers.js shares.

Behind an encoder, the decoder itself computes cross keys and values in its first step, which has no past; a
second graph, or a branch of a merged one, goes on from there. Texts and images are compared in one graph.
"""

from collections.abc import Iterable
from dataclasses import replace

from txexport.contracts import cache_names, cached, dynamic, names, one_pass, roles
from txexport.contracts.contract import BOOL, Contract, Port, Signature, floats
from txexport.spec import Cache, DualEncoderSpec, EncoderDecoderSpec, ModelSpec

LAYOUTS = (  # what a folder may hold of one model, the best first
    (roles.ENCODER, roles.DECODER, roles.DECODER_WITH_PAST),
    (roles.ENCODER, roles.DECODER_MERGED),
    (roles.ENCODER, roles.DECODER),
    (roles.MODEL,),
    (roles.DECODER,),
)
BRANCH = Port(names.USE_CACHE_BRANCH, BOOL, [1])  # of a merged decoder
DECODER_INPUTS = frozenset(  # all that a decoder may take beside keys and values
    {
        *(port.name for port in dynamic.STEP),
        names.ENCODER_HIDDEN_STATES,
        names.ENCODER_ATTENTION_MASK,
        BRANCH.name,
    }
)


def graphs(spec: ModelSpec) -> dict[str, Signature]:
    """The graphs that tools write, keys and values of an encoder-decoder layer by layer."""
    if isinstance(spec, DualEncoderSpec):
        towers = one_pass.graphs(spec)
        return {
            roles.MODEL: _dual_encoder(spec),
            **{role: towers[role] for role in (roles.TEXT, roles.VISION)},
        }
    if not spec.generates:
        return one_pass.graphs(spec)
    if not isinstance(spec, EncoderDecoderSpec):
        return dynamic.graphs(spec)
    inputs, hidden = cached.encoder_ports(spec)
    later = dynamic.graphs(spec)[roles.DECODER]
    given = floats(names.ENCODER_HIDDEN_STATES, *hidden.shape)
    made = (*cached.present(spec, names.SEQUENCE_LENGTH), *cached.cross(spec, cache_names.PRESENT))
    logits = cached.logits_port(spec, names.SEQUENCE_LENGTH)
    first = Signature((*dynamic.STEP[:1], given, *cached.source_mask(spec)), (logits, *_by_layer(made)))
    return {
        roles.ENCODER: Signature(inputs, (hidden,)),
        roles.DECODER: first,
        roles.DECODER_WITH_PAST: later,
        roles.DECODER_MERGED: _merged(first, later),
    }


def _by_layer(ports: Iterable[Port]) -> list[Port]:
    return sorted(ports, key=lambda port: cache_names.layer_of(port.name))


def _merged(first: Signature, later: Signature) -> Signature:
    """The inputs of both and BRANCH, the outputs of the first.

    Before the first step a client gives an empty past, of whatever shape it makes of config.json: heads and
    their size are as open as lengths.
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


def _dual_encoder(spec: DualEncoderSpec) -> Signature:
    """Texts and images in, their vectors and how well each fits each out."""
    texts, images = names.TEXT_BATCH_SIZE, names.IMAGE_BATCH_SIZE
    pixels = one_pass.signal_input(spec.vision.embedding)
    return Signature(
        (
            *one_pass.encoder_inputs(spec.text, (texts, names.SEQUENCE_LENGTH)),
            floats(pixels.name, images, *pixels.shape[1:]),
        ),
        (
            floats(names.LOGITS_PER_IMAGE, images, texts),
            floats(names.LOGITS_PER_TEXT, texts, images),
            floats(names.TEXT_EMBEDS, texts, spec.size),
            floats(names.IMAGE_EMBEDS, images, spec.size),
        ),
    )


ECOSYSTEM = Contract("ecosystem", Cache.DYNAMIC, graphs)
