"""What other tools write and other clients load: optimum's tasks, which transformers.js shares.

Behind an encoder, the decoder itself computes cross keys and values in its first step, which has no past; a
second graph, or a branch of a merged one, goes on from there. Texts and images are compared in one graph.
"""

from dataclasses import replace

from txexport.contracts import dynamic, names, roles
from txexport.contracts.contract import BOOL, Port

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
ECOSYSTEM = replace(dynamic.DYNAMIC, name="ecosystem", hub=True)
