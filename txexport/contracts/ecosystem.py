"""The layout of other tools and clients: optimum's tasks, which transformers.js shares.

After an encoder, the decoder itself computes the keys and values of cross-attention in its first step, which
has no past; later steps run in a second graph, or in a branch of a merged one. Texts and images are compared
in one graph.
"""

from dataclasses import replace

from txexport.contracts import dynamic, names, roles
from txexport.contracts.contract import BOOL, Port

LAYOUTS = (  # the graphs of one model that a folder may have, the preferred ones first
    (roles.ENCODER, roles.DECODER, roles.DECODER_WITH_PAST),
    (roles.ENCODER, roles.DECODER_MERGED),
    (roles.ENCODER, roles.DECODER),
    (roles.MODEL,),
    (roles.DECODER,),
)
BRANCH = Port(names.USE_CACHE_BRANCH, BOOL, [1])  # of a merged decoder
DECODER_INPUTS = frozenset(  # all inputs that a decoder may have besides keys and values
    {
        *(port.name for port in dynamic.STEP),
        names.ENCODER_HIDDEN_STATES,
        names.ENCODER_ATTENTION_MASK,
        BRANCH.name,
    }
)
ECOSYSTEM = replace(dynamic.DYNAMIC, name="ecosystem", hub=True)
