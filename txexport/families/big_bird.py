"""BigBird (Zaheer et al. 2020): BERT, up to the length at which its attention is full, not sparse."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec, PositionKind, PositionSpec, TextStackSpec

TASKS = {
    "feature-extraction": ("BigBirdModel",),
    "fill-mask": ("BigBirdForMaskedLM",),
    "pretraining": ("BigBirdForPreTraining",),
    "text-classification": ("BigBirdForSequenceClassification",),
    "token-classification": ("BigBirdForTokenClassification",),
    "multiple-choice": ("BigBirdForMultipleChoice",),
}

NAMING = bert.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes.

    Longer inputs would attend to random blocks, and are refused.
    """
    positions = config.integer("max_position_embeddings", 4096)
    position = PositionSpec(PositionKind.LEARNED, positions, longest=longest(config))
    activation = config.activation("hidden_act", "gelu_new")
    dense = activation if task == "text-classification" else Activation.TANH
    base = bert.encoder_spec(config, task, names, position, activation, activation=activation, sequence=dense)
    stack = base.encoder
    assert isinstance(stack, TextStackSpec)
    (block,) = stack.blocks
    block = replace(block, attention=replace(block.dense, bias=config.flag("use_bias", True)))
    scale = stack.hidden_size**0.5 if config.flag("rescale_embeddings", False) else 1.0
    stack = replace(stack, embedding=replace(stack.embedding, scale=scale), blocks=(block,))
    return replace(base, encoder=stack)


def longest(config: Config) -> int | None:
    """The most tokens that the original reads without block sparse attention; None where it has none."""
    if config.text("attention_type", "block_sparse") == "original_full":
        return None
    config.expect(attention_type="block_sparse")
    blocks = 5 + 2 * config.integer("num_random_blocks", 3)
    return blocks * config.integer("block_size", 64)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = bert.table(spec)
    rules: Rules = base.rules | {"pooler.dense.*": "pooler.*"}
    rules |= bert.head_rules(
        spec,
        sequence={"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
        choices={"head.dense.*": "pooler.*", "head.*": "classifier.*"},
        masked_lm={"next_sentence.dense.*": "pooler.*"},
    )
    return replace(base, rules=rules)
