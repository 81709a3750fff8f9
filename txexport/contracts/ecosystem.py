"""What other tools write and other clients load: optimum's tasks, which transformers.js shares.

Behind an encoder, the decoder itself computes cross keys and values in its first step, which has no past; a
second graph, or a branch of a merged one, goes on from there. Texts and images are compared in one graph.
"""

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
    """The graphs that tools write; a merged decoder has the inputs of both and BRANCH."""
    if isinstance(spec, DualEncoderSpec):
        return {roles.MODEL: _dual_encoder(spec)}
    if not spec.generates:
        return one_pass.graphs(spec)
    if not isinstance(spec, EncoderDecoderSpec):
        return dynamic.graphs(spec)
    inputs, hidden = cached.encoder_ports(spec)
    later = dynamic.graphs(spec)[roles.DECODER]
    given = floats(names.ENCODER_HIDDEN_STATES, *hidden.shape)
    first = Signature(
        (*dynamic.STEP[:1], given, *cached.source_mask(spec)),
        (
            cached.logits_port(spec, names.SEQUENCE_LENGTH),
            *cached.present(spec, names.SEQUENCE_LENGTH),
            *cached.cross(spec, cache_names.PRESENT),
        ),
    )
    return {
        roles.ENCODER: Signature(inputs, (hidden,)),
        roles.DECODER: first,
        roles.DECODER_WITH_PAST: later,
    }


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
