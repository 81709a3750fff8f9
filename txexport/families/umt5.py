"""UMT5 (Chung et al. 2023): T5 v1.1 in a hundred languages, each of whose layers has a relative bias."""

import math
from dataclasses import replace

from txexport.families import t5
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, EncoderSpec, RelativeSpec, StackSpec, TextStackSpec

TASKS = {
    "text2text-generation": ("UMT5ForConditionalGeneration",),
    "feature-extraction": ("UMT5EncoderModel",),
}

NAMING = t5.NAMING
ALIASES = t5.ALIASES
table = t5.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes; hidden states are scaled whether words are tied or not."""
    config = config.with_defaults(feed_forward_proj="gated-gelu")
    if task == "feature-extraction":
        alone = t5.encoder_spec(config)
        return replace(alone, encoder=_biased(alone.encoder))
    both = t5.encoder_decoder_spec(config, names, first=False)
    head = replace(both.head, scale=1 / math.sqrt(both.decoder.hidden_size))
    return replace(both, head=head, encoder=_biased(both.encoder), decoder=_biased(both.decoder))


def _biased(stack: StackSpec) -> TextStackSpec:
    assert isinstance(stack, TextStackSpec)
    assert isinstance(stack.relative, RelativeSpec)
    return replace(stack, relative=replace(stack.relative, every_layer=True))
