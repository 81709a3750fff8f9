"""Longformer (Beltagy et al. 2020): RoBERTa with sliding-window attention and global tokens.

Every task's graph has the input `global_attention_mask`. The original takes it too and has defaults: no
global token for hidden states, masked LM and token classification, the first token for sequence
classification, those before the first separator for question answering, after the second for choices.
"""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert, roberta
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.spec import EncoderSpec, LongformerAttentionSpec, TextStackSpec

TASKS = {
    "feature-extraction": ("LongformerModel",),
    "fill-mask": ("LongformerForMaskedLM",),
    "text-classification": ("LongformerForSequenceClassification",),
    "token-classification": ("LongformerForTokenClassification",),
    "question-answering": ("LongformerForQuestionAnswering",),
    "multiple-choice": ("LongformerForMultipleChoice",),
}

NAMING = Naming("longformer.", roberta.NAMING.rename)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    base = roberta.spec(config, task, names)
    assert isinstance(base.encoder, TextStackSpec)
    [block], windows = base.encoder.blocks, config.each("attention_window", base.encoder.num_layers, 512)
    sizes = block.dense.hidden_size, block.dense.num_heads, block.dense.head_dim
    layers = (replace(block, attention=LongformerAttentionSpec(*sizes, window)) for window in windows)
    return replace(base, encoder=replace(base.encoder, blocks=minimal_cycle(layers)))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    inherited, source = roberta.table(spec), f"{bert.SOURCE}.attention.self"
    apart: Rules = {
        f"{bert.LAYER}.attention.q_global.*": f"{source}.query_global.*",
        f"{bert.LAYER}.attention.k_global.*": f"{source}.key_global.*",
        f"{bert.LAYER}.attention.v_global.*": f"{source}.value_global.*",
    }
    return replace(inherited, rules=inherited.rules | apart, naming=NAMING)
