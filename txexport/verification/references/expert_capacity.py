"""Outputs of an original with experts of limited capacity, each token in a pass of its own."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import ATTENTION_MASK
from txexport.spec import ModelSpec


def limits_experts(spec: ModelSpec) -> bool:
    """Tell whether experts have a capacity: a limit of the tokens that they take from a row."""
    mixtures = [block.experts for stack in spec.stacks.values() for block in stack.blocks]
    return any(one is not None and one.capacity is not None for one in mixtures)


def token_by_token(
    model: Any,
    encoder_inputs: Mapping[str, Tensor],
    input_ids: Tensor,
    caches: Mapping[str, Any],
    arguments: Mapping[str, bool],
) -> Any:
    """The decoder's outputs for input_ids (1,S), read one by one, as they are generated.

    The encoder is called apart, as it refuses use_cache, which the model would give it. With `arguments`,
    which request outputs of every layer, the tokens are read in one pass.
    """
    encoded = model.get_encoder()(**encoder_inputs, **arguments)
    mask = {name: value for name, value in encoder_inputs.items() if name == ATTENTION_MASK}
    logits = []
    for tokens in input_ids.split(input_ids.shape[1] if arguments else 1, dim=1):
        outputs = model(encoder_outputs=encoded, decoder_input_ids=tokens, **mask, **caches, **arguments)
        logits.append(outputs.logits)
    outputs.logits = torch.cat(logits, dim=1)  # (1, S, V)
    return outputs
