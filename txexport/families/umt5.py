"""UMT5 (Chung et al. 2023): multilingual T5 v1.1 with a relative bias in every layer."""

import math
from dataclasses import replace

from txexport.families import t5
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, EncoderSpec, RelativeSpec, StackSpec, TextStackSpec

TASKS = t5.tasks("UMT5")

NAMING = t5.NAMING
ALIASES = t5.ALIASES
table = t5.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes.

    Files say as T5's whether hidden states are scaled before the vocabulary projection.
    """
    scaled = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", True))
    config = config.with_defaults(feed_forward_proj="gated-gelu", decoder_start_token_id=0)
    both = t5.model_spec(config, task, names, first=False)
    if isinstance(both, EncoderSpec):
        return replace(both, encoder=_biased(both.encoder))
    head = both.head
    if scaled and both.generates and both.decoder.hidden_size > 0:
        head = replace(head, scale=1 / math.sqrt(both.decoder.hidden_size))
    return replace(both, head=head, encoder=_biased(both.encoder), decoder=_biased(both.decoder))


def _biased(stack: StackSpec) -> TextStackSpec:
    assert isinstance(stack, TextStackSpec)
    assert isinstance(stack.relative, RelativeSpec)
    return replace(stack, relative=replace(stack.relative, every_layer=True))
